"""Memory for the values of a graph."""
