"""The repository of rules with which Bazel compiles a model in the build."""

from __future__ import annotations

from pathlib import Path

from .. import __version__
from ..errors import UsageError
from .template import BAZEL_OVERLAYS, combine_overlays, render

_MARK = "WORKSPACE.bazel"


def write_rules(directory: Path) -> None:
    """Writes the rules into a new or empty directory, or over those of another version.

    Raises:
        UsageError: Something else is in the directory.
    """
    template = combine_overlays(BAZEL_OVERLAYS)
    (mark,) = (path for place, path in template.items() if place.name == _MARK)
    there = directory / _MARK
    is_ours = there.is_file() and there.read_bytes() == mark.read_bytes()
    if directory.exists() and not is_ours and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(
            f"{directory} has other things than modelwheel's rules; name a new directory with --out",
            code="MW203",
        )
    render(template, {"version": __version__}, directory)
