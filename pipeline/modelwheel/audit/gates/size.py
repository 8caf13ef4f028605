"""Gate: the wheel is no larger than its model requires, and small enough for PyPI."""

from __future__ import annotations

from collections.abc import Iterator

from ...util.words import size_text
from ..opened import OpenedWheel
from .finding import GateFinding

RUNTIME_BUDGET = 600_000
"""Bytes for everything except weights and XLA's machine code: kernels for each level, binding, headers, Python."""

INDEX_LIMIT = 95 << 20
"""PyPI's default limit is 100 MiB for each file; the margin is for growth in the next version."""


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Compares the size of the file with its budget and the limit."""
    size = wheel.path.stat().st_size
    budget = RUNTIME_BUDGET
    if wheel.manifest is not None:
        # Uncompressed sizes, although the file is compressed: an upper bound, whether or not these
        # weights can be compressed.
        budget += wheel.manifest.sizes.weights + wheel.manifest.sizes.machine_code
    if size > INDEX_LIMIT:
        yield GateFinding(
            wheel.name,
            f"is {size_text(size)}; the limit is {size_text(INDEX_LIMIT)}, which leaves a margin below "
            f"PyPI's {size_text(100 << 20)}: {_parts(wheel)}; compile fewer CPU levels and batch sizes, or "
            "make the model smaller",
        )
    if size > budget:
        yield GateFinding(
            wheel.name,
            f"is {size_text(size)}, but weights, machine code and {size_text(RUNTIME_BUDGET)} for "
            f"the runtime add up to {size_text(budget)}: {_parts(wheel)}; strip the binaries, and "
            "remove files that do not belong in the wheel",
        )


def _parts(wheel: OpenedWheel) -> str:
    largest = sorted(wheel.compressed_sizes.items(), key=lambda item: -item[1])[:3]
    parts = [f"{name} {size_text(size)}" for name, size in largest]
    if wheel.manifest is not None:
        sizes = wheel.manifest.sizes
        parts.append(
            f"uncompressed weights {size_text(sizes.weights)}, uncompressed machine code "
            f"{size_text(sizes.machine_code)}"
        )
    return ", ".join(parts)
