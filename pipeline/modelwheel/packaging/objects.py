"""The object files that the extensions of all models have in common, compiled once for each Python and compiler.

Reading pybind11's headers takes longer than the rest of a small wheel. So it is a step of a build with a record in the
store, like every other result: signed and verified in the same way. A compiler launcher such as ccache
would need a second cache, which nobody signs, and is not available everywhere. Its key would be guessed from
command lines, where this one consists of what a wheel's own key does: sources, compiler, tools and Python's ABI.

The objects are compiled by the same lines of CMake, and by the same build backend, as those of a wheel that is built
from its source distribution, which compiles everything itself. Both wheels have the same bytes.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..store.keys import action_key
from ..util.unfinished import temporary_directory
from .backend import build_distribution, build_environment
from .template import OBJECTS_OVERLAYS, Template, combine_overlays, render, template_digest

_DIRECTORY = "objects/"
"""Where the objects are in the wheel that the build backend makes of them."""


def objects_key() -> str:
    """The key of the objects for this Python in a store."""
    return action_key("objects", **objects_inputs())


def objects_inputs() -> dict[str, Any]:
    """Everything that the objects for this Python depend on."""
    return {
        "template": template_digest(objects_template()),
        "environment": build_environment(),
    }


def objects_template() -> Template:
    """The files that they are made from."""
    return combine_overlays(OBJECTS_OVERLAYS)


def build_objects(out: Path) -> None:
    """Compiles the objects for this Python into an existing directory.

    Raises:
        WheelError: The compiler or the build backend failed.
    """
    with temporary_directory("objects") as directory:
        project, built = directory / "project", directory / "built"
        project.mkdir()
        built.mkdir()
        render(objects_template(), {}, project)
        with zipfile.ZipFile(build_distribution("wheel", project, built)) as wheel:
            for name in wheel.namelist():
                if name.startswith(_DIRECTORY):
                    (out / name.removeprefix(_DIRECTORY)).write_bytes(wheel.read(name))


def objects_settings(objects: Path) -> Mapping[str, str]:
    """Settings of the build backend, with which an extension is linked from these objects."""
    # CMake reads a backslash as an escape.
    return {"cmake.define.MODELWHEEL_OBJECTS": objects.absolute().as_posix()}
