"""The command `modelwheel`."""

from . import author, maintenance, release  # noqa: F401 - they add their commands to the application
from .app import app, main

__all__ = ["app", "main"]
