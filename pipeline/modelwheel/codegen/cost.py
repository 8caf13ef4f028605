"""What one run of a variant costs, estimated from its program alone.

Estimates decide only which batch sizes a number of rows is composed of, so their ratios matter and
not their unit. They depend on nothing but the program: a build never times anything.
"""

from __future__ import annotations

from ..compiler.program import Program, walk

# A roofline with an overhead (Williams, Waterman, Patterson 2009), for one core of a current server:
_NANOSECONDS_PER_CALL = 200.0
_NANOSECONDS_PER_STEP = 15.0
_OPERATIONS_PER_NANOSECOND = 30.0
_BYTES_PER_NANOSECOND = 20.0


def estimate_cost(program: Program) -> float:
    """Estimated nanoseconds of one run: a fixed part, one for each step, arithmetic and memory."""
    steps = sum(1 for _ in walk(program.thunks))
    return round(
        _NANOSECONDS_PER_CALL
        + _NANOSECONDS_PER_STEP * steps
        + program.operations / _OPERATIONS_PER_NANOSECOND
        + program.bytes_moved / _BYTES_PER_NANOSECOND,
        1,
    )
