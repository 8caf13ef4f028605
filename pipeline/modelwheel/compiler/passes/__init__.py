"""Passes: rewrites of a program as a graph, everywhere in it.

An optimised program is: the steps of XLA's thunks (`compiler/xla/decode.py`); a graph; this list, in its order; steps again,
with memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from ...program.arrays import Allocation, Slice
from ...program.steps import Step
from ..ir.assignment.assign import assign
from ..ir.assignment.proof import UnprovenError
from ..ir.graph import Graph
from ..ir.graph_check import check
from ..ir.hlo import Module
from ..ir.lift import lift
from .attention import FuseAttention
from .byte_layers import FuseByteLayers
from .counted_loops import CountLoops
from .drop_taps import DropTaps
from .element_moves import DecodeMoves
from .elementwise_chains import ChainElementwise
from .embedding_bags import FuseEmbeddingBags
from .erase_dead import EraseDead
from .find_rows import FindRows
from .fork_branches import ForkBranches
from .fuse_epilogues import FuseEpilogues
from .loop_products import HoistProducts
from .narrow_products import NarrowProducts
from .recognise_kernels import RecogniseKernels
from .scalings import DecodeScalings
from .softmaxes_of_rows import FuseSoftmaxes
from .strips import ChainStrips
from .sums_in_results import SumInResults
from .write_concatenations import WriteConcatenations
from .write_pieces import WritePieces

Watch: TypeAlias = Callable[[str, Graph], None]
"""Looks at a graph after a pass of this name."""


class Pass(Protocol):
    """A rewrite of a graph, everywhere in it: in loops and branches too."""

    @property
    def name(self) -> str:
        """The name in dumps and documents, such as `fuse-epilogues`."""

    def run(self, graph: Graph) -> int:
        """Changes the graph; returns how many rewrites it has made."""


PIPELINE: tuple[Pass, ...] = (
    RecogniseKernels(),  # First: the others look for operations, not for kernels.
    DropTaps(),  # Before anything looks at the padding of convolutions.
    NarrowProducts(),  # Before anything looks at products: it changes what they read.
    FuseByteLayers(),  # What other passes take of kernels, layers of bytes cannot have.
    CountLoops(),  # Windows of arrays are to be known to all that look at what products read.
    FuseAttention(),  # Before kernels that it replaces become parts of products or chains.
    FuseSoftmaxes(),  # After attention, whose softmaxes are its own; the products before them then have one reader.
    WriteConcatenations(),  # Before epilogues: what it copies, it does not compute from a product any more.
    FuseEpilogues(),  # Before products are put together or moved: they are final then.
    WritePieces(),  # The products whose results are copied have their epilogues.
    ChainElementwise(),  # Kernels that are part of products are gone.
    HoistProducts(),  # Chains may read any part of their results, XLA's kernels only aligned ones.
    FuseEmbeddingBags(),  # Looks for steps that are decoded already: anywhere before the last.
    DecodeScalings(),  # Kernels that are left here are part of no product and of no chain.
    DecodeMoves(),  # Likewise; and attention reads what kernels have moved where it was.
    SumInResults(),  # Before strips and branches are made, whose memory it is otherwise.
    ChainStrips(),  # Convolutions are final: they have their epilogues, and loops their windows.
    ForkBranches(),  # Loops and the products before them are final.
    FindRows(),  # Kernels that are left here are called.
    EraseDead(),  # Last: other passes leave nodes behind whose values they have taken from elsewhere.
)
"""In order. Each entry has a comment that says why it stands there."""


def optimise(
    steps: Sequence[Step],
    allocations: Sequence[Allocation],
    results: Sequence[Slice],
    passes: Sequence[Pass] = PIPELINE,
    module: Module | None = None,
    watch: Watch | None = None,
) -> tuple[tuple[Step, ...], tuple[Allocation, ...]]:
    """The steps after all passes, and the allocations that they use.

    Args:
        steps: All outer steps.
        allocations: Their memory; temporaries may be anywhere afterwards.
        results: What callers read in the end.
        passes: What to run.
        module: What XLA made the steps of; without it, no pass finds a kernel that it may replace.
        watch: Gets the graph as it is lifted and after each pass, and the name of the pass.

    Raises:
        InvalidGraphError: With `MODELWHEEL_VERIFY=1`: a pass has left no valid graph.
        UnprovenError: Likewise: a pass has left a graph for which there is no memory.
    """
    graph = lift(steps, allocations, results, module)
    verifies = os.environ.get("MODELWHEEL_VERIFY") == "1"
    for rewrite in (None, *passes):
        if rewrite is not None:
            rewrite.run(graph)
        if verifies:
            check(graph)
        if watch is not None:
            watch("lifted" if rewrite is None else rewrite.name, graph)
    try:
        return assign(graph)
    except UnprovenError:
        if verifies:
            raise
        # XLA's own plan is right, if larger: an error in a pass refuses no model.
        return tuple(steps), tuple(allocations)
