"""How the steps of each operation are called in C++."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...program import ops
from ...program.program import Program
from ...program.walk import walk
from ..library import compiled
from ..panels import NOTHING_PACKED, Packed
from ..writer import Call
from . import (
    attention,
    byte_layers,
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

CALLS: Mapping[type[ops.Op], Call] = {
    ops.Kernel: Call(kernel.write),
    ops.Dot: Call(dot.write, dot.library),
    ops.Convolution: Call(convolution.write, convolution.library),
    ops.ByteLayer: Call(byte_layers.write, byte_layers.library),
    ops.Strips: Call(strips.write, strips.library),
    ops.Pooling: Call(reductions.write_pooling, reductions.pooling_library),
    ops.VolumePooling: Call(reductions.write_volume_pooling, reductions.pooling_library),
    ops.RowReduction: Call(reductions.write_row_reduction),
    ops.Softmax: Call(reductions.write_softmax),
    ops.Mask: Call(mask.write),
    ops.Attention: Call(attention.write, attention.library),
    ops.Elementwise: Call(elementwise.write),
    ops.Scaling: Call(scaling.write),
    ops.Copy: Call(copies.write),
    ops.Lookup: Call(lookups.write_lookup),
    ops.EmbeddingBag: Call(lookups.write_embedding_bag),
    ops.While: Call(control.write_while),
    ops.Conditional: Call(control.write_conditional),
    ops.Branches: Call(control.write_branches),
    ops.Sort: Call(sorting.write_sort),
    ops.TopK: Call(sorting.write_top_k),
    ops.Fft: Call(fft.write, fft.library),
    ops.RandomState: Call(random_state.write),
}
"""By operation: every one of `program.ops`."""


def compiled_kernels(
    programs: Iterable[Program], packed: Packed = NOTHING_PACKED
) -> tuple[str, ...]:
    """Hand-written kernels that are compiled by themselves and that the code of some programs is linked with.

    They are named by source and element type (`gemm_float`). One may be listed that is not called in the end: the linker
    drops it.
    """
    steps = (step for program in programs for step in walk(program.steps))
    names = {name for step in steps for name in CALLS[type(step.op)].library(step)}
    if packed.halved:
        names.update(compiled("float", "bf16_dot"))
    return tuple(sorted(names))
