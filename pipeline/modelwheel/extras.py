"""The optional dependencies of commands: which are missing, and how to install them.

Every command line imports this module, so it imports what reads metadata in its functions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress

from .errors import EnvironmentProblemError

_PROJECT = "modelwheel"

# `packaging` parses markers with `ast`, which fails now and then when several threads do so at once
# (SystemError: AST constructor recursion depth mismatch; CPython issue 106905).
_ONE_PARSES = threading.Lock()

_SAME_MODULES = {"tensorflow": ("tensorflow-cpu",)}
"""Distributions that install the modules of another one."""


def require(extra: str, purpose: str, *, advise: str | None = None) -> None:
    """Refuses to go on without the packages of an extra.

    Args:
        extra: As pyproject.toml names it.
        purpose: What needs it, as the subject of a sentence.
        advise: The extra to install; by default the same.

    Raises:
        EnvironmentProblemError: Some are not installed.
    """
    names = missing(extra)
    if names:
        raise EnvironmentProblemError(
            f"{purpose} needs packages that are not installed ({', '.join(names)}): "
            f"pip install '{_PROJECT}[{advise or extra}]'"
        )


def missing(extra: str) -> list[str]:
    """The distributions of an extra that are not installed."""
    return [name for name in distributions(extra) if not _is_installed(name)]


def distributions(extra: str) -> list[str]:
    """The distributions of an extra, and of extras that it includes, on this Python and platform.

    pyproject.toml is the one place that lists them: they are read from the installed metadata.
    """
    with _ONE_PARSES:
        return sorted(set(_walk(extra)))


def _walk(extra: str) -> Iterator[str]:
    from importlib import metadata

    from packaging.requirements import Requirement

    for text in metadata.requires(_PROJECT) or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if (
            marker is None
            or marker.evaluate({"extra": ""})
            or not marker.evaluate({"extra": extra})
        ):
            continue  # of the core, or of another extra
        if requirement.name == _PROJECT:
            for included in requirement.extras:
                yield from _walk(included)
        else:
            yield requirement.name


def _is_installed(distribution: str) -> bool:
    from importlib import metadata

    for name in (distribution, *_SAME_MODULES.get(distribution, ())):
        with suppress(metadata.PackageNotFoundError):
            metadata.version(name)
            return True
    return False
