"""The models that are installed in a Python: found by their entry points, without importing anything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.utils import canonicalize_name

from ..util.records import parse_json
from ..util.text import one_line

GROUP = "modelwheel.models"
"""The group of entry points that wheels of models have, `NAME = MODULE`."""

_MANIFEST = "_manifest.json"


@dataclass(frozen=True)
class InstalledModel:
    """One model, as its wheel describes it."""

    name: str
    version: str
    distribution: str
    module: str
    levels: tuple[str, ...]
    """The CPU levels that it has code for, lowest first; empty if its manifest cannot be read."""
    path: Path
    """The directory of its package."""


def find_installed(path: Sequence[str] | None = None) -> list[InstalledModel]:
    """The models in some directories, sorted by name; of several versions the one that would be imported.

    Args:
        path: What the Python has as `sys.path`; None: this one's.
    """
    models: dict[str, InstalledModel] = {}
    everything = distributions() if path is None else distributions(path=list(path))
    for distribution in everything:
        for model in _models(distribution):
            models.setdefault(canonicalize_name(model.distribution), model)
    return sorted(models.values(), key=lambda model: model.name)


def _models(distribution: Distribution) -> Iterator[InstalledModel]:
    for entry in distribution.entry_points:
        if entry.group == GROUP and entry.value.isidentifier():
            package = Path(str(distribution.locate_file(entry.value)))
            yield InstalledModel(
                name=one_line(entry.name),
                version=one_line(distribution.version),
                distribution=one_line(distribution.metadata["Name"]),
                module=entry.value,
                levels=_levels(package / _MANIFEST),
                path=package,
            )


def _levels(manifest: Path) -> tuple[str, ...]:
    """Read apart from everything else: manifests of other versions of modelwheel have them too."""
    try:
        content = parse_json(manifest.read_bytes())
    except (OSError, ValueError):
        return ()
    levels = content.get("levels") if isinstance(content, dict) else None
    return tuple(map(one_line, levels)) if isinstance(levels, list) else ()
