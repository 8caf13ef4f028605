"""Tries a TensorFlow that is not adopted: what changed in XLA's formats, which models build, their errors and speed.

Nothing is switched by it. The candidate is installed into an environment of its own; its results are in the same store,
under keys of their own.
"""
