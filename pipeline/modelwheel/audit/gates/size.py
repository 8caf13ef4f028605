"""Gate: a wheel is not larger than what is in it explains, nor than a package index takes."""

from __future__ import annotations

from collections.abc import Iterator

from ..opened import OpenedWheel
from .finding import GateFinding

RUNTIME_BUDGET = 600_000
"""Bytes for everything but weights and XLA's machine code: kernels at each level, binding, headers, Python."""

INDEX_LIMIT = 95 << 20
"""PyPI takes 100 MiB in a file; the rest is kept for the next version."""


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """The file against its budget and the limit."""
    size = wheel.path.stat().st_size
    budget = RUNTIME_BUDGET
    if wheel.manifest is not None:
        budget += wheel.manifest.sizes.weights + wheel.manifest.sizes.machine_code
    if size > INDEX_LIMIT:
        yield GateFinding(
            wheel.name,
            f"has {size / 2**20:.1f} MiB, more than the {INDEX_LIMIT >> 20} MiB that leave room below "
            f"PyPI's limit of 100: {_parts(wheel)}; compile fewer CPU levels and batch sizes, or "
            "make the model smaller",
        )
    if size > budget:
        yield GateFinding(
            wheel.name,
            f"has {_kilobytes(size)}, but weights, machine code and {_kilobytes(RUNTIME_BUDGET)} for "
            f"the runtime make {_kilobytes(budget)}: {_parts(wheel)}; strip what is built, and pack "
            "nothing else",
        )


def _parts(wheel: OpenedWheel) -> str:
    largest = sorted(wheel.compressed_sizes.items(), key=lambda item: -item[1])[:3]
    parts = [f"{name} {_kilobytes(size)}" for name, size in largest]
    if wheel.manifest is not None:
        sizes = wheel.manifest.sizes
        parts.append(
            f"before compression its weights have {_kilobytes(sizes.weights)}, its machine code "
            f"{_kilobytes(sizes.machine_code)}"
        )
    return ", ".join(parts)


def _kilobytes(size: int) -> str:
    return f"{size / 1000:.0f} kB"
