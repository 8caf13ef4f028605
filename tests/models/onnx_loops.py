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
    yield case("Loop", *first, random(4, 3), to="of sequences", body=_sequence_body())
    for turns in (3, 30):
        yield case(
            "Scan",
            random(2),
            random(turns, 2, seed=2),
            random(turns, 2, seed=3),
            to=f"both ways, {turns} turns",
            n=2,
            body=_pair_body(turns),
            num_scan_inputs=2,
            scan_input_directions=[0, 1],
        )
    yield case("If", np.array(object=True), then_branch=_branch("Neg"), else_branch=_branch("Abs"))


def recurrent() -> Iterator[Case]:
    """All settings of recurrent layers, in few steps and in a loop."""
    batch, size = 2, 5
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for steps, direction in ((5, "bidirectional"), (20, "reverse")):
            n = 2 if direction == "bidirectional" else 1
            state = [random(n, batch, size, seed=5)]
            extra: dict[str, Any] = {"linear_before_reset": 1} if op == "GRU" else {}
            if op == "LSTM":
                state += [random(n, batch, size, seed=6), random(n, 3 * size, seed=7)]
            yield case(
                op,
                random(steps, batch, 3),
                w=(
                    random(n, gates * size, 3, seed=2),
                    random(n, gates * size, size, seed=3),
                    random(n, 2 * gates * size, seed=4),
                    np.array([steps, steps - 2], np.int32),
                    *state,
                ),
                to=f"{direction}, clipped",
                n=3 if op == "LSTM" else 2,
                hidden_size=size,
                direction=direction,
                clip=0.7,
                **extra,
            )
    w = (random(1, 20, 3, seed=2), random(1, 20, size, seed=3))
    x = random(4, batch, 3)
    yield case("LSTM", x, w=w, to="input_forget", n=3, hidden_size=size, input_forget=1)
    for name, settings in _ACTIVATIONS.items():
        yield case(
            "LSTM",
            x,
            w=w,
            to=name,
            n=3,
            hidden_size=size,
            activations=["HardSigmoid", name, "LeakyRelu"],
            activation_alpha=[0.3, *settings[:1], 0.2],
            activation_beta=[0.4, *settings[1:]],
        )


_ACTIVATIONS: dict[str, tuple[float, ...]] = {
    "Affine": (1.3, 0.2),
    "Relu": (),
    "LeakyRelu": (0.3,),
    "ThresholdedRelu": (0.4,),
    "ScaledTanh": (1.2, 0.7),
    "HardSigmoid": (0.3, 0.4),
    "Elu": (0.8,),
    "Softsign": (),
    "Softplus": (),
}


def _graph(name: str, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return helper.make_graph(list(nodes), name, list(inputs), list(outputs))


def _scan_body() -> Any:
    nodes = [node("Add", ["s", "e"], ["t"]), node("Mul", ["t", "e"], ["o"])]
    vector = [2]
    inputs = [info("s", vector), info("e", vector)]
    return _graph("scan", nodes, inputs, [info("t", vector), info("o", vector)])


def _pair_body(turns: int) -> Any:
    """Adds a row of one input to the state, and multiplies it by a row of the other."""
    s, e, f, t, o = (f"pair{turns}/{name}" for name in "sefto")
    nodes = [node("Add", [s, e], [t]), node("Mul", [t, f], [o])]
    inputs = [info(name, [2]) for name in (s, e, f)]
    return _graph("pair", nodes, inputs, [info(t, [2]), info(o, [2])])


def _sequence_body() -> Any:
    """Splits its state, changes the order of the parts, and joins them; also with an optional."""
    numbers = {f"q/{n}": helper.make_tensor(f"q/t{n}", 7, [], [n]) for n in (0, 1)}
    nodes = [
        *(node("Constant", [], [name], value=value) for name, value in numbers.items()),
        node("SplitToSequence", ["q/before"], ["q/parts"], axis=0),
        node("SequenceAt", ["q/parts", "q/1"], ["q/part"]),
        node("SequenceErase", ["q/parts", "q/1"], ["q/less"]),
        node("Optional", ["q/part"], ["q/optional"]),
        node("OptionalGetElement", ["q/optional"], ["q/element"]),
        node("SequenceInsert", ["q/less", "q/element", "q/0"], ["q/more"]),
        node("SequenceLength", ["q/more"], ["q/length"]),
        node("Cast", ["q/length"], ["q/number"], to=1),
        node("ConcatFromSequence", ["q/more"], ["q/joined"], axis=0),
        node("Add", ["q/joined", "q/number"], ["q/after"]),
        node("OptionalHasElement", ["q/optional"], ["q/has"]),
        node("And", ["q/c", "q/has"], ["q/go"]),
    ]
    inputs = [info("q/i", [], np.int64), info("q/c", [], np.bool_), info("q/before", [4, 3])]
    return _graph("q", nodes, inputs, [info("q/go", [], np.bool_), info("q/after", [4, 3])])


def _branch(op: str) -> Any:
    one = helper.make_tensor(f"{op}/one", 1, [2], [1.0, -2.0])
    nodes = [node("Constant", [], [f"{op}/one"], value=one), node(op, [f"{op}/one"], [f"{op}/y"])]
    return _graph(op, nodes, [], [info(f"{op}/y", [2])])


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
