"""A model that is loaded, whatever its format."""
