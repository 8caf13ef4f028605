"""A signature as a graph of fixed shapes with constants for variables."""
