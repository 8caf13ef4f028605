"""Reads YAML with the place of every value."""
