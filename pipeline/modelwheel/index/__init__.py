"""Package indexes: reading, uploading, and the static site."""
