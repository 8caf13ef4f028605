"""The command `modelwheel`."""

from . import author as authoring
from . import release as releasing
from .app import app, main

__all__ = ["app", "authoring", "main", "releasing"]
