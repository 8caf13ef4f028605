"""The command `modelwheel`."""

from . import (  # noqa: F401 - they add their commands to the application
    adopt,
    author,
    building,
    cache,
    clusters,
    configuration,
    installed,
    maintenance,
    planning,
    reference,
    repository,
    runs,
)
from .app import app, main
from .measuring import bench, profile, tune  # noqa: F401
from .releasing import (  # noqa: F401
    export,
    indexes,
    provenance,
    publishing,
    recipe,
    release,
    tagging,
    wheels,
)

__all__ = ["app", "main"]
