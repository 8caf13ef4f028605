"""What commands show to people: tables, progress, Markdown."""
