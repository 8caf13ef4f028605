"""The command `modelwheel`."""

from . import authoring, releasing
from .app import app, main

__all__ = ["app", "authoring", "main", "releasing"]
