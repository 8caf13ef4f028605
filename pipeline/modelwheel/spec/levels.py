"""Which CPU level a word means that is not the name of one."""

from __future__ import annotations

import re

from ..levels import LEVELS, Level
from ..util.words import suggest


def suggest_level(word: str) -> str:
    """`did you mean 'x86-64-v3' (AVX2)?` for a feature of CPUs or a short name; otherwise as `suggest`.

    >>> suggest_level("avx2"), suggest_level("v2")
    ("did you mean 'x86-64-v3' (AVX2)?", "did you mean 'x86-64-v2'?")
    """
    wanted = _fold(word)
    for level in LEVELS.values():
        if wanted in _short_names(level):
            return f"did you mean {level.name!r}?"
        for feature in level.features:
            # Vectors of AVX-512 are a family of features, which people name as one.
            if wanted in (_fold(feature.name), re.sub(r"(avx512)f", r"\1", _fold(feature.name))):
                return f"did you mean {level.name!r} ({word.upper()})?"
    return suggest(word, LEVELS)


def _short_names(level: Level) -> set[str]:
    return {_fold(level.march), _fold(level.name), _fold(level.name.rpartition("-")[2])}


def _fold(word: str) -> str:
    return re.sub(r"[^a-z0-9]", "", word.lower())
