"""Where a store keeps its files: a directory, or an object store."""
