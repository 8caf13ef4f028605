"""Installs each wheel in an environment of its own and compares it with TensorFlow."""
