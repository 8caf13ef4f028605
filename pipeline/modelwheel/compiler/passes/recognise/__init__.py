"""Kernels of XLA's that the runtime has better ones for."""
