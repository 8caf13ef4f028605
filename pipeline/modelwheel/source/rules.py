"""Common to all kinds of sources: the limits of a model, and suggestions for wrong paths."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_MODEL_FILES = 10_000
MAX_MODEL_BYTES = 4 << 30
"""Beyond these it is a mistake, or a decompression bomb."""


def suggest_directory(path: str, existing: Iterable[str]) -> str:
    """What to write in place of a directory that does not exist."""
    names = sorted(existing)
    near = difflib.get_close_matches(path, names, n=3, cutoff=0.5) or names[:5]
    if not near:
        return "it has no directories: leave the path out"
    return "did you mean " + " or ".join(map(repr, near)) + "?"
