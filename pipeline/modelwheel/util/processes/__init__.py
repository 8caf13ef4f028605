"""Programs that are started, and their ends."""
