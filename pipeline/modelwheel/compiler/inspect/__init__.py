"""Finds what a model of TensorFlow holds by reading it."""
