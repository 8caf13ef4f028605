"""`Scan`, and the loops over rows that it and recurrent layers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .....errors import UnsupportedModelError
from ....stablehlo.writer import Value
from ....stablehlo.writer import regions as c
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import INT32, Array
from .onnx_node import Item, Node, Result, operator
from .subgraphs import FEW_TURNS, MAX_TURNS


@operator("Scan")
def scan(node: Node) -> Result:
    """Slices of some inputs go in, slices of some outputs come out."""
    return _scan_batches(node) if node.opset < 9 else _scan(node, list(node.inputs))


def _scan(node: Node, inputs: Sequence[Item]) -> list[Value]:
    body, count = node.closure("body"), int(node.get("num_scan_inputs", 0))
    values = [item for item in inputs if isinstance(item, Value)]
    if len(values) != len(inputs) or len(values) < count:
        raise TypeError("an input is not a tensor")
    state, sources = values[: len(values) - count], values[len(values) - count :]
    results = body.outputs - len(state)
    backwards = [bool(d) for d in node.get("scan_input_directions", [0] * count)]
    reversed_ = [bool(d) for d in node.get("scan_output_directions", [0] * results)]
    axes = node.get("scan_input_axes", [0] * count)
    outer = node.get("scan_output_axes", [0] * results)
    back = all(backwards)
    rows = [s.move_axis(x, axis, 0) for x, axis in zip(sources, axes, strict=True)]
    rows = [
        s.reverse(row, [0]) if turned != back else row
        for row, turned in zip(rows, backwards, strict=True)
    ]
    lengths = {row.shape[0] for row in rows}
    if len(lengths) != 1:
        raise ValueError(f"its inputs have {' and '.join(map(str, sorted(lengths)))} rows")

    def step(before: list[Value], cut: list[Value], _: Value) -> tuple[list[Value], list[Value]]:
        written = body.values([*before, *cut])
        return written[: len(state)], written[len(state) :]

    last, made = repeat(node, step, state, rows, backwards=back)
    turned = [
        s.reverse(value, [0]) if flip != back else value
        for value, flip in zip(made, reversed_, strict=True)
    ]
    moved = [s.move_axis(v, 0, axis) for v, axis in zip(turned, outer, strict=True)]
    return [*last, *moved]


_Step = Callable[[list[Value], list[Value], Value], tuple[Sequence[Value], Sequence[Value]]]


def repeat(
    node: Node, step: _Step, state: Sequence[Value], rows: Sequence[Value], *, backwards: bool
) -> tuple[list[Value], list[Value]]:
    """A turn for each row of the sources: few one after another, many as a loop.

    Args:
        node: What is written.
        step: Writes a turn for the state, rows and the number of the row (int32): the next state, and rows
            of the results.
        state: What the first turn gets.
        rows: The sources, along axis 0.
        backwards: Whether the last row comes first; results keep the places of their rows.

    Returns:
        The last state, and the results along axis 0.
    """
    turns = rows[0].shape[0]
    if not turns:
        return _no_turn(node, step, state, rows)
    if turns > FEW_TURNS:
        try:
            return c.scan(step, state, rows, turns, backwards=backwards)
        except (ValueError, UnsupportedModelError):
            if turns > MAX_TURNS:
                raise
    made: list[list[Value]] = []
    values = list(state)
    for turn in reversed(range(turns)) if backwards else range(turns):
        cut = [s.index_axis(row, 0, turn) for row in rows]
        after, results = step(values, cut, node.builder.constant(turn, INT32))
        values = list(after)
        made.append(list(results))
    ordered = made[::-1] if backwards else made
    return values, [s.stack(column, 0) for column in zip(*ordered, strict=True)]


def _no_turn(
    node: Node, step: _Step, state: Sequence[Value], rows: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """The state as it is, and results without rows."""
    made: list[Value] = []

    def probe(values: list[Value]) -> Sequence[Value]:
        zero = node.builder.constant(0, INT32)
        made.extend(step(values[: len(state)], values[len(state) :], zero)[1])
        return made

    kinds = [(v.dtype, v.shape) for v in state] + [(v.dtype, v.shape[1:]) for v in rows]
    node.builder.region(kinds, probe)
    empty = [s.full(node.builder, (0, *v.shape), 0, v.dtype) for v in made]
    return list(state), empty


def _scan_batches(node: Node) -> list[Value]:
    """`Scan` of opset 8: a scan for each row of a batch, perhaps of a length of its own."""
    count = int(node.get("num_scan_inputs", 0))
    flags = node.get("directions", [0] * count)
    known = node.known(0)
    if node.optional(0) is not None and known is None:
        node.required(0, "the lengths of its sequences")
    inner = Node(
        node.op,
        node.builder,
        (),
        node.outputs,
        {"body": node.closure("body"), "num_scan_inputs": count, "scan_input_directions": flags},
        node.where,
        9,
    )
    values = [node.input(number) for number in range(1, len(node.inputs))]
    states = len(values) - count
    batch, longest = values[states].shape[:2]
    lengths: Array = np.full(batch, longest) if known is None else known.reshape(-1)
    rows = []
    for row in range(batch):
        cut = [s.index_axis(value, 0, row) for value in values]
        cut[states:] = [s.slice_axis(v, 0, 0, int(lengths[row])) for v in cut[states:]]
        made = _scan(inner, cut)
        fill = longest - int(lengths[row])
        padded = [s.pad(v, 0, [0] * v.rank, [fill, *[0] * (v.rank - 1)]) for v in made[states:]]
        rows.append([*made[:states], *padded])
    return [s.stack(column, 0) for column in zip(*rows, strict=True)]
