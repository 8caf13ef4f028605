"""The operations that the installed TensorFlow compiles for CPUs: the result of the job `supported`.

`modelwheel.compiler.supported` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..util.records import JsonRecord

SUPPORTED = "supported.json"


class SupportedOp(JsonRecord):
    """One operation, by TensorFlow's name."""

    op: str
    types: Mapping[str, tuple[str, ...]] = {}
    """The element types that each type attribute may have; those that may have any are left out."""
    removed: bool = False
    """Whether freezing removes it, so that XLA need not know it."""


class Supported(JsonRecord):
    """All of them, sorted by name."""

    tensorflow: str
    ops: tuple[SupportedOp, ...]
