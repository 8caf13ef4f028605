"""The command `modelwheel`."""

from . import (  # noqa: F401 - they add their commands to the application
    adopt,
    author,
    bench,
    building,
    cache,
    clusters,
    configuration,
    export,
    indexes,
    installed,
    maintenance,
    planning,
    profile,
    provenance,
    publishing,
    recipe,
    reference,
    release,
    repository,
    runs,
    tagging,
    tune,
    wheels,
)
from .app import app, main

__all__ = ["app", "main"]
