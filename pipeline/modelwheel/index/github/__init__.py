"""Releases of a repository on GitHub: their files are published there, and read from there for the site."""
