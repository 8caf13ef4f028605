"""Turn a trained model into a wheel of machine code."""

__version__ = "0.1.0"
