"""Estimates the cost of running a variant from its program alone.

Estimates only decide how a batch is split into compiled batch sizes, so their ratios matter and not their
unit. They are not measured: a build gives the same result on every machine. `modelwheel tune` measures
them.
"""

from __future__ import annotations

from ..compiler.program import Program, walk

# A roofline model (Williams, Waterman, Patterson, Roofline, CACM 52(4), 2009) with overheads, for one core
# of a server.
_NANOSECONDS_PER_CALL = 200.0
_NANOSECONDS_PER_THUNK = 15.0
_OPERATIONS_PER_NANOSECOND = 30.0
_BYTES_PER_NANOSECOND = 20.0


def estimate_cost(program: Program) -> float:
    """Estimates the nanoseconds of one run: a fixed part, a part for each thunk, arithmetic and memory."""
    thunks = sum(1 for _ in walk(program.thunks))
    return round(
        _NANOSECONDS_PER_CALL
        + _NANOSECONDS_PER_THUNK * thunks
        + program.operations / _OPERATIONS_PER_NANOSECOND
        + program.bytes_moved / _BYTES_PER_NANOSECOND,
        1,
    )
