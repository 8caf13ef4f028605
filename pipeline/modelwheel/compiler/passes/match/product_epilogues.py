"""Gives products of a graph epilogues: reads the fusion behind one as parts, and makes the node that applies them.

    %3 f32[4,8] = dot %0, %1                           %4 f32[4,8] = dot %0, %1, bias=%2 f32[8]
    %4 = kernel %3, %2 {symbol=fusion}          =>             {epilogue={low=0}}

    fusion:  repeated = f32[4,8] broadcast(bias), dimensions={1}
             sum = f32[4,8] add(product, repeated)
             ROOT above = f32[4,8] maximum(sum, zero)

Bits: the same but for fused multiply-adds in the place of a product and a sum, and the kernels' own activation functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ....dtypes import ElementType
from ....program import ops
from ....program.arrays import Slice
from ....program.view import View
from ...ir.graph import INSIDE, Graph, Node, Operand, Result, Value
from ...ir.hlo import Instruction
from ...ir.loops.windows import window_of
from .epilogue_parts import NUMBERS, PLACES, Chain, Finder, FusionReader, Named, in_order

_FLOAT = ElementType.FLOAT32
# With fewer columns XLA's kernel is faster: its vectors run along all axes.
_MIN_COLUMNS = 4


def _nowhere(_: Instruction) -> None:
    """A value that is in memory nowhere else."""


def columns_of(product: Node) -> int:
    """The number of columns of a product's result; 0 unless they are contiguous and vary fastest."""
    op, view = product.op, product.outputs["out"].view
    if isinstance(op, ops.Convolution):
        feature = op.output_axes.feature
        return view.shape[feature] if view.strides[feature] == 1 else 0
    if not isinstance(op, ops.Dot) or not view.is_row_major(ignoring_unit_axes=False):
        return 0
    rhs = product.inputs["rhs"].view
    free = len(rhs.shape) - len(op.rhs_batch) - len(op.rhs_contracting)
    return math.prod(view.shape[len(view.shape) - free :])


def read_parts(
    graph: Graph,
    product: Node,
    kernel: Node,
    fusion: Instruction,
    number: int,
    node: Instruction,
    elsewhere: Finder = _nowhere,
    then: Chain = (),
) -> Named | None:
    """The parts of an epilogue from a product to an instruction of a fusion.

    Args:
        graph: The graph.
        product: A dot or a convolution.
        kernel: The node of the fusion.
        fusion: The instruction.
        number: Which operand of the fusion the product is.
        node: An instruction in the computation of the fusion.
        elsewhere: Finds values that the fusion need not compute.
        then: What follows the instruction.

    Returns:
        The parts, which may be none at all; None if the instruction is anything else.
    """
    arguments = list(kernel.inputs.values())
    if len(arguments) != len(fusion.operands) or not _is_whole(product, arguments[number]):
        return None
    columns = columns_of(product)
    views = [factor.view for factor in _factors(product)]
    views.append(product.outputs["out"].view)
    if {view.element_type for view in views} != {_FLOAT} or columns < _MIN_COLUMNS:
        return None

    (computation,) = fusion.called
    start = computation.parameters[number]
    chain = read_chain(graph, kernel, fusion, (start, columns), node, elsewhere)
    return None if chain is None else in_order([*chain, *then], _last_place(product))


def read_chain(
    graph: Graph,
    kernel: Node,
    fusion: Instruction,
    start: tuple[Instruction, int],
    node: Instruction,
    elsewhere: Finder = _nowhere,
) -> Chain | None:
    """The parts of an epilogue from one instruction of a fusion, with its columns, to another; None if it is anything else."""

    def window(part: Instruction) -> Operand | None:
        return window_of(graph, kernel, fusion, part)

    arguments = list(kernel.inputs.values())
    return FusionReader(start[0], arguments, start[1], elsewhere, window).chain(node)


@dataclass(frozen=True)
class Columns:
    """Columns of an array of 32-bit floats."""

    rows: int
    first: int
    count: int
    step: int
    """Columns of the array."""

    @property
    def slice(self) -> Slice:
        """From the first element to the last."""
        size = ((self.rows - 1) * self.step + self.count) * _FLOAT.item_bytes
        return Slice(allocation=INSIDE, offset=self.first * _FLOAT.item_bytes, size=size)


@dataclass(frozen=True)
class Finish:
    """A product with further parts of an epilogue; the nodes that it makes are in no region yet.

    Each is None if the kernels cannot apply the parts, or not after those that the product has.
    """

    graph: Graph
    product: Node
    """A dot or a convolution, which may have an epilogue."""
    parts: Named
    """The parts of the epilogue that follow the product."""
    kernel: Node | None = None
    """The node whose work it does too, if there is one."""

    def at(self, out: Result) -> Node | None:
        """With its result elsewhere: the slice of `out` counts."""
        view = self.product.outputs["out"].view
        sizes = {out.view.slice.size, view.slice.size}
        if sizes != {view.elements * _FLOAT.item_bytes}:
            return None
        node = self._without_results()
        if node is not None:
            sums = self.product.outputs.get("accumulator", self.product.outputs["out"])
            node.outputs = {
                "out": replace(out, view=view.model_copy(update={"slice": out.view.slice})),
                "accumulator": replace(sums, base=None, near=()),
            }
        return node

    def in_place(self) -> Node | None:
        """With its result where that of the product is; None also if nothing follows."""
        out = self.product.outputs["out"]
        return None if not self.parts or out.base is not None or out.near else self.at(out)

    def in_columns(self, columns: Columns, out: Value) -> Node | None:
        """With its result in columns of an array; None also if its rows are not rows of columns."""
        view = self.product.outputs["out"].view
        number = columns_of(self.product)
        fastest = [axis for axis, step in enumerate(view.strides) if step == 1]
        # The result of several axes of columns has no rows of its own.
        fits = (
            number == columns.count >= _MIN_COLUMNS
            and number in (view.shape[axis] for axis in fastest)
            and view.elements == columns.rows * number
            and view.element_type == _FLOAT
            and "addend" not in (*self.parts, *self.product.inputs)
        )
        node = self._without_results() if fits else None
        if node is not None:
            steps = (step if step == 1 else step // number * columns.step for step in view.strides)
            update = {"slice": columns.slice, "strides": tuple(steps)}
            result = Result(out, view.model_copy(update=update))
            node.outputs = {"out": result}
            if getattr(node.op, "epilogue", None) is not None:
                node.outputs["accumulator"] = result
        return node

    def _without_results(self) -> Node | None:
        op, parts = self.product.op, self.parts
        assert isinstance(op, ops.Dot | ops.Convolution)
        before = op.epilogue or ops.Epilogue()
        if parts and _last_place(self.product) >= min(PLACES[name] for name in parts):
            return None
        operands = _operands(parts, self.product.outputs["out"].view, columns_of(self.product))
        if operands is None:
            return None
        if parts:
            numbers = {name: parts[name] for name in NUMBERS if name in parts}
            op = op.model_copy(update={"epilogue": before.model_copy(update=numbers)})
        nodes = [self.product] if self.kernel is None else [self.product, self.kernel]
        node = self.graph.merged(op, nodes)
        node.inputs = {**self.product.inputs, **operands}
        return node


def _operands(parts: Named, out: View, columns: int) -> dict[str, Operand] | None:
    """The operands of a product that are parts of its epilogue; None if one of them has another size."""
    operands: dict[str, Operand] = {}
    for role, part in parts.items():
        if not isinstance(part, Operand):
            continue
        whole = part.view.slice
        if role == "addend":
            view, elements = out.model_copy(update={"slice": whole}), out.elements
        else:
            view, elements = View.dense(whole, _FLOAT, (columns,)), columns
        if whole.size != elements * _FLOAT.item_bytes:
            return None
        operands[role] = Operand(part.value, view)
    return operands


def _last_place(product: Node) -> int:
    """The place of the last part of an epilogue that a product has; below all if it has none."""
    epilogue = getattr(product.op, "epilogue", None)
    names = [name for name in NUMBERS if getattr(epilogue, name, None) is not None]
    return max((PLACES[name] for name in (*names, *product.inputs) if name in PLACES), default=-1)


def _factors(product: Node) -> list[Operand]:
    names = ("lhs", "rhs") if isinstance(product.op, ops.Dot) else ("input", "kernel")
    return [product.inputs[name] for name in names]


def _is_whole(product: Node, operand: Operand) -> bool:
    """Whether an operand is the result of a product, all of it."""
    out = product.outputs.get("out")
    return (
        isinstance(product.op, ops.Dot | ops.Convolution)
        and out is not None
        and operand.value is out.value
        and operand.view.slice == out.view.slice
    )
