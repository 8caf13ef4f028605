"""Gate: the wheel has the files of one package and its metadata, and nothing else that an installer would put to use."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from ...versions import RUNTIME
from ..opened import OpenedWheel
from .finding import GateFinding

_METADATA = re.compile(r"METADATA|WHEEL|RECORD|(licenses|sboms)/.+")
_ENTRY_POINTS = "entry_points.txt"
_RUN_AT_START = ".pth"


_REQUIRED = frozenset({"numpy", RUNTIME})


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Compares the names of all files, and of what is installed with them, with those that a model's wheel may have."""
    yield from _check_requirements(wheel)
    package, metadata = f"{wheel.module}/", f"{wheel.dist_info}/"
    for name in wheel.contents.files:
        if name == metadata + _ENTRY_POINTS:
            yield from _check_entry_points(wheel, name)
        elif name.startswith(metadata):
            if not _METADATA.fullmatch(name.removeprefix(metadata)):
                yield GateFinding(name, "is not metadata that a model's wheel has; remove it")
        elif not name.startswith(package):
            yield GateFinding(
                name,
                f"{_danger(name)}; a model's wheel has {package} and {metadata} only: remove it",
            )


def _check_requirements(wheel: OpenedWheel) -> Iterator[GateFinding]:
    for requirement in wheel.contents.metadata.requires_dist or ():
        if requirement.url or canonicalize_name(requirement.name) not in _REQUIRED:
            yield GateFinding(
                f"{wheel.dist_info}/METADATA",
                f"requires {str(requirement)!r}, which is installed with it; a model's wheel requires "
                f"{' and '.join(sorted(_REQUIRED))} alone: remove it",
            )


def _danger(name: str) -> str:
    if "/" not in name and name.endswith(_RUN_AT_START):
        return "is run whenever Python starts"
    if name.partition("/")[0].endswith(".data"):
        return "is installed outside the package"
    return "is not part of the package"


def _check_entry_points(wheel: OpenedWheel, place: str) -> Iterator[GateFinding]:
    """Entry points name what other programs import or run: a model only says where it is.

    CMake and pkg-config read that; `modelwheel list` imports nothing.
    """
    module = wheel.module
    model = module if wheel.manifest is None else wheel.manifest.model.name
    allowed = {
        "modelwheel.models": {model: module},
        "pkg_config": {module: f"{module}.lib.pkgconfig"},
        "cmake.root": {module: f"{module}.lib.cmake.{module}"},
    }
    parser = configparser.RawConfigParser(delimiters=("=",), default_section="", strict=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read_string(wheel.wheel.read_text(place).decode())
    except (UnicodeDecodeError, configparser.Error):
        yield GateFinding(place, "cannot be read; build the wheel again")
        return
    for group in parser.sections():
        for name, value in parser.items(group):
            if allowed.get(group, {}).get(name) != value:
                yield GateFinding(
                    place,
                    f"has the entry point {name!r} = {value!r} of {group!r}, which other programs import "
                    f"or run; a model's wheel has those of {', '.join(allowed)} alone: remove it",
                )
