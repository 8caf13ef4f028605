"""The display of commands for people: tables, progress, Markdown."""
