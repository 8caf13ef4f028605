"""What the record of a step says beside its files: what the result was made from, and what that took.

Nothing is decided by it: `modelwheel plan --why` and `plan --cost` read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import __version__
from ..compiler.jobs import JobResult
from ..levels import cpu_name
from ..store.keys import digest
from ..util.text import one_line

_LONGEST = 300
"""Characters of a text that a note holds as it is."""

_LARGEST = 200
"""Entries of a list, such as the labels of a model's classes, that a note holds as they are."""


def note_of(
    name: str, kind: str, inputs: Mapping[str, Any], used: JobResult, model: Path
) -> Mapping[str, Any]:
    """The note of a step that has run.

    Args:
        name: The step's name.
        kind: Its kind.
        inputs: What its key is made of; see `Step.key_inputs`.
        used: What it took.
        model: The model's directory, whose size is the measure of what steps take.
    """
    measured = {"cpu_seconds": used.cpu_seconds, "peak_bytes": used.peak_bytes}
    return {
        "step": name,
        "kind": kind,
        "inputs": condense(inputs),
        "seconds": round(used.seconds, 3),
        **{name: value for name, value in measured.items() if value is not None},
        "model_bytes": sum(file.stat().st_size for file in model.rglob("*") if file.is_file()),
        "host": _host(),
        "modelwheel": __version__,
    }


def condense(value: Any) -> Any:
    """A JSON value in which long texts and long lists are replaced by their hashes."""
    if isinstance(value, Mapping):
        return {name: condense(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [condense(one) for one in value] if len(value) <= _LARGEST else _hash(value)
    return _hash(value) if isinstance(value, str) and len(value) > _LONGEST else value


def _hash(value: Any) -> str:
    return f"sha256:{digest({'value': value})}"


@lru_cache(maxsize=1)
def _host() -> str:
    return one_line(cpu_name())
