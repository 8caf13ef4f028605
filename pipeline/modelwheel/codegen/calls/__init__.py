"""How the steps of each operation are called in C++."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...program.program import Program
from ...program.walk import walk
from ..writer import Call
from . import (
    attention,
    control,
    convolution,
    copies,
    dot,
    elementwise,
    fft,
    kernel,
    lookups,
    mask,
    random_state,
    reductions,
    scaling,
    sorting,
    strips,
)

CALLS: Mapping[str, Call] = {
    "kernel": Call(kernel.write),
    "dot": Call(dot.write, dot.library),
    "convolution": Call(convolution.write, convolution.library),
    "strips": Call(strips.write, strips.library),
    "pooling": Call(reductions.write_pooling, reductions.pooling_library),
    "row_reduction": Call(reductions.write_row_reduction),
    "mask": Call(mask.write),
    "attention": Call(attention.write, attention.library),
    "elementwise": Call(elementwise.write),
    "scaling": Call(scaling.write),
    "copy": Call(copies.write),
    "lookup": Call(lookups.write_lookup),
    "embedding_bag": Call(lookups.write_embedding_bag),
    "while": Call(control.write_while),
    "conditional": Call(control.write_conditional),
    "branches": Call(control.write_branches),
    "sort": Call(sorting.write_sort),
    "top_k": Call(sorting.write_top_k),
    "fft": Call(fft.write, fft.library),
    "random_state": Call(random_state.write),
}
"""By the kind of operation: every one of `program.ops.AnyOp`."""


def compiled_kernels(programs: Iterable[Program]) -> tuple[str, ...]:
    """Hand-written kernels that are compiled by themselves and that the code of some programs is linked with.

    They are named by source and element type (`gemm_float`). One may be listed that is not called in the end: the linker
    drops it.
    """
    steps = (step for program in programs for step in walk(program.steps))
    return tuple(sorted({name for step in steps for name in CALLS[step.op.kind].library(step)}))
