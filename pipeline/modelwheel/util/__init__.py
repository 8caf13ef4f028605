"""Used by all packages: files, processes, HTTP, JSON, text."""
