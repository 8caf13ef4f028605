"""Finds what is known about the values of tensors before anything runs (abstract interpretation)."""
