"""A store in an object store, with copies on this disk."""
