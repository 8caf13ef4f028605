"""The optional dependencies of commands: which are missing, and how to install them.

Every command line imports this module, so it imports what reads metadata in its functions.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import suppress

from .errors import EnvironmentProblemError
from .versions import TENSORFLOW_PYTHONS, TENSORFLOW_VERSION

_PROJECT = "modelwheel"

# `packaging` parses markers with `ast`, which fails now and then when several threads do so at once
# (SystemError: AST constructor recursion depth mismatch; CPython issue 106905).
_ONE_PARSES = threading.Lock()

_SAME_MODULES = {"tensorflow": ("tensorflow-cpu",)}
"""Distributions that install the modules of another one."""

_WITH_TENSORFLOW = frozenset({"compile", "jax", "onnx", "keras", "pytorch", "cms"})
"""Extras that are of no use without TensorFlow, which pip leaves out where it has no packages for this Python."""

TENSORFLOW_FIX = "uv tool install --python {1}.{2} '{0}[compile]'".format(
    _PROJECT, *TENSORFLOW_PYTHONS[1]
)
"""How to get modelwheel with the newest Python that there is TensorFlow for."""


def require(extra: str, purpose: str, *, advise: str | None = None) -> None:
    """Refuses to go on without the packages of an extra.

    Args:
        extra: As pyproject.toml names it.
        purpose: What needs it, as the subject of a sentence.
        advise: The extra to install; by default the same.

    Raises:
        EnvironmentProblemError: Some are not installed, or this Python is too new for TensorFlow.
    """
    if (advise or extra) in _WITH_TENSORFLOW:
        _require_python(purpose)
    names = missing(extra)
    if names:
        raise EnvironmentProblemError(
            f"{purpose} needs packages that are not installed ({', '.join(names)}): "
            f"pip install '{_PROJECT}[{advise or extra}]'",
            code="MW721",
        )


def _require_python(purpose: str) -> None:
    highest = TENSORFLOW_PYTHONS[1]
    if sys.version_info[:2] > highest and not _is_installed("tensorflow"):
        here, last = (".".join(map(str, version)) for version in (sys.version_info[:2], highest))
        raise EnvironmentProblemError(
            f"{purpose} needs TensorFlow {TENSORFLOW_VERSION}, which has no packages for Python {here}; use Python "
            f"{last} or older: {TENSORFLOW_FIX}",
            code="MW725",
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
