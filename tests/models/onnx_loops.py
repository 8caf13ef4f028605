"""Loops of ONNX with more turns than are written one after another, for `tests.models.onnx_operations`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from onnx import helper

from tests.models.onnx_cases import Case, case, node
from tests.support.onnx_models import info, random


def loops() -> Iterator[Case]:
    """Recurrent layers, `Scan` and `Loop`, also in each other."""
    lengths = np.array([40, 23], np.int32)
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        size = 5 * gates
        yield case(
            op,
            random(40, 2, 3),
            w=(
                random(2, size, 3, seed=2),
                random(2, size, 5, seed=3),
                random(2, 2 * size),
                lengths,
            ),
            to="long",
            n=2,
            hidden_size=5,
            direction="bidirectional",
        )
    yield case(
        "RNN",
        random(500, 1, 3),
        w=(random(1, 40, 3, seed=2), random(1, 40, 40, seed=3) / 9),
        to="of large weights",
        hidden_size=40,
        direction="reverse",
    )
    yield case(
        "Scan",
        random(2),
        random(2, 30, seed=2),
        to="backwards",
        n=2,
        body=_scan_body(),
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[-1],
        scan_input_directions=[1],
        scan_output_directions=[1],
    )
    first = (np.array(7, np.int64), np.array(object=True))
    yield case("Loop", *first, random(2), to="of a given number of turns", body=_sum_body("a"))
    many = (np.array(100, np.int64), np.array(object=True))
    yield case("Loop", *many, random(2), to="until a sum", body=_sum_body("b", stops=True))
    yield case("Loop", *first, random(2), to="in a loop", body=_outer_body())


def _graph(name: str, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return helper.make_graph(list(nodes), name, list(inputs), list(outputs))


def _scan_body() -> Any:
    nodes = [node("Add", ["s", "e"], ["t"]), node("Mul", ["t", "e"], ["o"])]
    vector = [2]
    inputs = [info("s", vector), info("e", vector)]
    return _graph("scan", nodes, inputs, [info("t", vector), info("o", vector)])


def _sum_body(name: str, *, stops: bool = False) -> Any:
    """Adds the number of the turn, perhaps until the sum is 20."""
    limit = helper.make_tensor(f"{name}/20", 1, [], [20.0])
    going = [
        node("Constant", [], [f"{name}/limit"], value=limit),
        node("ReduceSum", [f"{name}/after"], [f"{name}/sum"], keepdims=0),
        node("Less", [f"{name}/sum", f"{name}/limit"], [f"{name}/go"]),
    ]
    nodes = [
        node("Cast", [f"{name}/i"], [f"{name}/number"], to=1),
        node("Add", [f"{name}/before", f"{name}/number"], [f"{name}/after"]),
        *(going if stops else [node("Identity", [f"{name}/c"], [f"{name}/go"])]),
    ]
    inputs = [info(f"{name}/i", [], np.int64), info(f"{name}/c", [], np.bool_)]
    outputs = [info(f"{name}/go", [], np.bool_), info(f"{name}/after", [2])]
    return _graph(name, nodes, [*inputs, info(f"{name}/before", [2])], outputs)


def _outer_body() -> Any:
    """Runs a loop of as many turns as the number of the turn."""
    inner = node("Loop", ["o/i", "o/c", "o/before"], ["o/after"], body=_sum_body("c"))
    nodes = [inner, node("Identity", ["o/c"], ["o/go"])]
    inputs = [info("o/i", [], np.int64), info("o/c", [], np.bool_), info("o/before", [2])]
    return _graph("o", nodes, inputs, [info("o/go", [], np.bool_), info("o/after", [2])])
