"""Installs wheels alone and compares them with TensorFlow."""
