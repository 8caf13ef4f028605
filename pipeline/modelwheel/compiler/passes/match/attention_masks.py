"""Turns the masks of attention into operands: where they are in memory, or nodes that compute them once.

    %3 = kernel %1, %2 {symbol=..}               %3 s32[2,1,1,64] = mask %2 s32[2,1,1,64] {code=..}
    %4 = kernel %1, %2, %3 {symbol=..}     =>    %4 f32[2,3,4,7] = attention .., kept=%3 s32[2,3,4,64]

XLA computes a mask again in each kernel of the softmax. Here one node does so, for all layers that have the same mask, and
before a loop if the mask is the same in each iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ....dtypes import ElementType
from ....program.arrays import Slice
from ....program.ops import Kernel, Mask, While
from ....program.view import View
from ....thresholds import WIDEST_LANES
from ...ir.graph import INSIDE, Graph, Node, Operand, Result, Value
from ...ir.match import Value as HloValue
from .mask_code import MaskCode, mask_code
from .softmaxes import Softmax

_FLOAT = ElementType.FLOAT32
_CONDITION = ElementType.INT32
_TOGETHER = WIDEST_LANES
"""Rows are read to the next multiple."""


@dataclass
class Masks:
    """The masks of one node of attention."""

    graph: Graph
    nodes: Mapping[str, Node]
    """By the instruction that each computes."""
    shape: tuple[int, int, int, int]
    """Of the scores."""
    operands: dict[str, Operand] = field(default_factory=dict)
    """Of the node, by role."""
    replacement: float | None = None
    _new: list[tuple[Node, Node]] = field(default_factory=list)
    """Nodes that compute masks, each with the kernel before which it is."""

    @classmethod
    def of(
        cls, graph: Graph, nodes: Mapping[str, Node], softmax: Softmax, shape: Sequence[int]
    ) -> Masks | None:
        """The masks of a softmax; None if one of them is unknown.

        Args:
            graph: The graph.
            nodes: Its nodes, by the instruction that each computes.
            softmax: The softmax.
            shape: That of the scores.
        """
        (*heads, queries, keys), kept = shape, softmax.kept
        outer, inner = [1] * (2 - len(heads)) + heads
        masks = cls(graph, nodes, (outer, inner, queries, keys))
        if softmax.added is not None and not masks._add("added", softmax.added, _FLOAT):
            return None
        if kept is not None:
            element, negated = ElementType.BOOL, kept.is_negated
            if not masks._add("kept", kept.condition, element, negated=negated):
                return None
            masks.replacement = None if math.isinf(kept.replacement) else kept.replacement
        return masks

    def insert(self) -> None:
        """Puts the new nodes where they belong."""
        for before, mask in self._new:
            self.graph.insert(mask, before)
            while mask.region and mask.region.owner and isinstance(mask.region.owner.op, While):
                try:
                    self.graph.hoist(mask)
                except ValueError:
                    break  # Each iteration has another one.

    def _add(
        self, role: str, value: HloValue, element: ElementType, *, negated: bool = False
    ) -> bool:
        """Makes a value an operand, if that is possible."""
        kernel = None if value.fusion is None else self.nodes.get(value.fusion.name)
        if kernel is None or not isinstance(kernel.op, Kernel):
            return False
        code = mask_code(value, list(kernel.inputs.values()), self.shape)
        if code is None or code.last.element_type != element:
            return False
        code = code.negated() if negated else code
        self.operands[role] = self._there(code) or self._computed(code, kernel)
        return True

    def _there(self, code: MaskCode) -> Operand | None:
        """A mask that is in memory as the node reads it."""
        if code.last.opcode != "read" or code.last.element_type != _FLOAT:
            return None
        read = code.reads[code.last.input]
        if read.steps[-1] != 1 or self.shape[-1] % _TOGETHER:
            return None
        return Operand(read.argument.value, read.view(self.shape))

    def _computed(self, code: MaskCode, before: Node) -> Operand:
        """The result of a node that computes a mask, a new one unless there is one already."""
        extents = self._extents(code)
        op = Mask(code=code.expression)
        inputs = {
            f"read{number}": Operand(read.argument.value, read.view(extents))
            for number, read in enumerate(code.reads)
        }
        for node in (*(mask for _, mask in self._new), *_earlier(before)):
            if (node.op, node.inputs) == (op, inputs) and node.outputs["output"].view.shape == (
                extents
            ):
                return self._operand(node.outputs["output"])
        *_, keys = extents
        row = -(-keys // _TOGETHER) * _TOGETHER
        rows = math.prod(extents[:-1])
        size = rows * row * _FLOAT.item_bytes  # or of a 32-bit condition
        element = _CONDITION if op.code.is_condition else _FLOAT
        strides = (extents[1] * extents[2] * row, extents[2] * row, row, 1)
        place = Slice(allocation=INSIDE, offset=0, size=size)
        view = View(slice=place, element_type=element, shape=extents, strides=strides)
        node = Node(op, inputs, {"output": Result(Value(size), view)}, origin=before.origin)
        node.operations = rows * keys * len(op.code.operations)
        self._new.append((before, node))
        return self._operand(node.outputs["output"])

    def _operand(self, mask: Result) -> Operand:
        """A mask as the scores have it."""
        view = mask.view
        strides = (
            stride if extent != 1 or axis == 3 else 0
            for axis, (stride, extent) in enumerate(zip(view.strides, view.shape, strict=True))
        )
        return Operand(
            mask.value, view.model_copy(update={"shape": self.shape, "strides": tuple(strides)})
        )

    def _extents(self, code: MaskCode) -> tuple[int, int, int, int]:
        """Axes along which something changes; rows of keys are always whole."""
        outer, inner, queries = (
            extent if code.changes(axis) else 1 for axis, extent in enumerate(self.shape[:-1])
        )
        return outer, inner, queries, self.shape[-1]


def _earlier(node: Node) -> Iterator[Node]:
    """Masks that are computed whenever a node is, before it."""
    inside: Node | None = node
    while inside is not None and inside.region is not None:
        for other in inside.region.nodes:
            if other is inside:
                break
            if isinstance(other.op, Mask):
                yield other
        inside = inside.region.owner
