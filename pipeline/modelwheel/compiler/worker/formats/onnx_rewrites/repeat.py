"""Loops that stay loops: a body that is written once, as ONNX's own `Scan` and `Loop`.

The converter makes `stablehlo.while` of them (`modelwheel.compiler.worker.formats.onnx_loops`). Few turns are
written one after another instead, which XLA optimises across turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import TensorProto, helper

from .straight import Straight

FEW_TURNS = 16
"""So many are written one after another."""

Step = Callable[[list[str], list[str]], tuple[Sequence[str], Sequence[str]]]
"""Writes one turn for a state and rows: the next state, and rows of the results."""


class UnfitBodyError(Exception):
    """A body cannot be written once for all turns; the text says why."""


def repeat(
    straight: Straight, state: Sequence[str], sources: Sequence[str], step: Step, backwards: bool
) -> tuple[list[str], list[str]]:
    """A turn for each row of the sources, which are cut along axis 0.

    Args:
        straight: The graph.
        state: What the first turn gets.
        sources: Values with the same extent of axis 0, at least one.
        step: Writes the turn.
        backwards: Whether the last row comes first; results keep the order of the sources.

    Returns:
        The last state, and the rows of the results, stacked along axis 0.

    Raises:
        UnfitBodyError: The shape or type of the state changes.
    """
    turns = straight.shape(sources[0])[0]
    given = [_variable(straight, name) for name in (*state, *sources)]
    before = [_argument(straight, name) for name in state]
    rows = [_argument(straight, name, first=1) for name in sources]
    with straight.inside() as nodes:
        after, results = step(before, rows)
        outputs = [straight.emit("Identity", name) for name in (*after, *results)]
    _require_same(straight, before, outputs[: len(state)])
    results = outputs[len(state) :]
    body = _graph(straight, nodes, [*before, *rows], outputs)
    made = [*(_copy(straight, name) for name in state)]
    made += [_stacked(straight, name, turns) for name in results]
    straight.append(
        "Scan",
        given,
        made,
        body=body,
        num_scan_inputs=len(sources),
        scan_input_directions=[int(backwards)] * len(sources),
        **({"scan_output_directions": [int(backwards)] * len(results)} if results else {}),
    )
    return made[: len(state)], made[len(state) :]


def repeat_until(
    straight: Straight,
    turns: str,
    condition: str,
    state: Sequence[str],
    write: Callable[[list[str]], Sequence[str]],
) -> tuple[list[str], list[str]]:
    """Turns until a condition is false, as ONNX defines `Loop`.

    Args:
        straight: The graph.
        turns: At most so many: an int64; or empty.
        condition: Whether there is a first turn: a bool.
        state: What the first turn gets.
        write: Writes a turn for its number, the condition and the state: the next condition, the next state, and
            rows of the results.

    Returns:
        The last state, and the rows of the results, stacked along axis 0.

    Raises:
        UnfitBodyError: The shape or type of the state changes, or there are results of an unknown number
            of turns.
    """
    given = [
        _variable(straight, straight.add("Reshape", name, straight.integers())) if name else ""
        for name in (turns, condition)
    ]
    given += [_variable(straight, name) for name in state]
    number = straight.fresh()
    straight.argument(number, TensorProto.INT64, ())
    going = straight.fresh()
    straight.argument(going, TensorProto.BOOL, ())
    before = [_argument(straight, name) for name in state]
    with straight.inside() as nodes:
        written = list(write([number, going, *before]))
        passed = written[0] == going
        written[0] = straight.add("Reshape", written[0], straight.integers())
        always = straight.value(written[0])
        outputs = [straight.emit("Identity", name) for name in written]
    _require_same(straight, [going, *before], outputs[: 1 + len(state)])
    results = outputs[1 + len(state) :]
    count = straight.value(turns) if turns else None
    first = straight.value(condition)
    sure = passed or (always is not None and bool(always.all()))
    if results and not (sure and count is not None and first is not None and bool(first.all())):
        raise UnfitBodyError("returns rows of a number of turns that the inputs decide")
    body = _graph(straight, nodes, [number, going, *before], outputs)
    made = [_copy(straight, name) for name in state]
    extent = int(count.reshape(())) if count is not None else 0
    made += [_stacked(straight, name, extent) for name in results]
    straight.append("Loop", given, made, body=body)
    return made[: len(state)], made[len(state) :]


def _variable(straight: Straight, name: str) -> str:
    """A value that is no constant, so that it is an argument of the loop."""
    return straight.emit("Identity", name) if straight.value(name) is not None else name


def _argument(straight: Straight, name: str, first: int = 0) -> str:
    """An argument of a body, with the type of a value; without its first axes."""
    made = straight.fresh()
    straight.argument(made, straight.element(name), straight.shape(name)[first:])
    return made


def _copy(straight: Straight, name: str) -> str:
    return _argument(straight, name)


def _stacked(straight: Straight, name: str, turns: int) -> str:
    made = straight.fresh()
    straight.argument(made, straight.element(name), (turns, *straight.shape(name)))
    return made


def _require_same(straight: Straight, before: Sequence[str], after: Sequence[str]) -> None:
    for one, two in zip(before, after, strict=True):
        kinds = [(straight.element(name), straight.shape(name)) for name in (one, two)]
        if kinds[0] != kinds[1]:
            raise UnfitBodyError("changes the shape of its state")


def _graph(
    straight: Straight,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> onnx.GraphProto:
    def info(name: str) -> onnx.ValueInfoProto:
        return onnx.ValueInfoProto(name=name, type=straight.types[name])

    return helper.make_graph(
        nodes, "body", [info(name) for name in inputs], [info(name) for name in outputs]
    )
