"""Completion of options and arguments in a shell: levels, platforms, specs, models and wheels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_SPECS = (".yaml", ".yml", ".json")
_WHEELS = (".whl",)
_DISTRIBUTIONS = (".whl", ".tar.gz")


def levels(incomplete: str) -> Iterator[str]:
    """CPU levels of all architectures."""
    from ..levels import LEVELS

    return (name for name in LEVELS if name.startswith(incomplete))


def platforms(incomplete: str) -> Iterator[str]:
    """Platforms; after a comma, those that are not in the list yet."""
    from ..platforms import PLATFORMS

    listed, comma, last = incomplete.rpartition(",")
    taken = listed.split(",")
    for name in PLATFORMS:
        if name.startswith(last) and name not in taken:
            yield f"{listed}{comma}{name}"


def specs(incomplete: str) -> Iterator[str]:
    """Spec files and directories; where nothing is written yet, what is in `model_specs/` too."""
    yield from _files(incomplete, _SPECS)
    if not incomplete:
        yield from _files("model_specs/", _SPECS)


def models(incomplete: str) -> Iterator[str]:
    """Files of the formats that are read, and directories."""
    from ..spec.formats import FORMATS

    yield from _files(incomplete, tuple(s for row in FORMATS.values() for s in row.suffixes))


def specs_and_models(incomplete: str) -> Iterator[str]:
    """Spec files, files of the formats that are read, and directories."""
    yield from dict.fromkeys((*specs(incomplete), *models(incomplete)))


def wheels(incomplete: str) -> Iterator[str]:
    """Wheels and directories."""
    yield from _files(incomplete, _WHEELS)


def specs_and_wheels(incomplete: str) -> Iterator[str]:
    """Spec files, wheels and directories."""
    yield from dict.fromkeys((*specs(incomplete), *wheels(incomplete)))


def cross_tags(incomplete: str) -> Iterator[str]:
    """The tags that `modelwheel wheel --cross` builds for."""
    from ..release.cross.targets import CROSS_TARGETS

    return (tag for tag in CROSS_TARGETS if tag.startswith(incomplete))


def distributions(incomplete: str) -> Iterator[str]:
    """Wheels, source distributions and directories."""
    yield from _files(incomplete, _DISTRIBUTIONS)


def source_distributions(incomplete: str) -> Iterator[str]:
    """Source distributions and directories."""
    yield from _files(incomplete, (".tar.gz",))


def _files(incomplete: str, suffixes: tuple[str, ...]) -> list[str]:
    proposals = list(_beside(incomplete, suffixes))
    if len(proposals) == 1 and proposals[0].endswith("/"):
        # A shell puts a blank behind a single proposal, also behind a directory.
        proposals += _beside(proposals[0], suffixes)
    return proposals


def _beside(incomplete: str, suffixes: tuple[str, ...]) -> Iterator[str]:
    directory, slash, start = incomplete.rpartition("/")
    for path in sorted(Path(directory + slash or ".").glob(f"{_literal(start)}*")):
        if path.name.startswith(".") and not start:
            continue
        shown = f"{directory}{slash}{path.name}"
        if path.is_dir():
            yield f"{shown}/"
        elif path.name.lower().endswith(suffixes):
            yield shown


def _literal(text: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)
