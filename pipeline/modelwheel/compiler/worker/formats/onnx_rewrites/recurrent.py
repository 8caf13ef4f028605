"""`LSTM`, `GRU` and `RNN`, as https://onnx.ai/onnx/operators/ defines them: few steps one by one, many as a loop.

torch-mlir converts them to a loop that it cannot lower to StableHLO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .repeat import FEW_TURNS, repeat
from .straight import Call, Straight

_Activate = Callable[[str], str]
_State = list[str]

_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "relu": (),
    "tanh": (),
    "sigmoid": (),
    "softsign": (),
    "softplus": (),
    "hardsigmoid": ("alpha", "beta"),
    "leakyrelu": ("alpha",),
    "thresholdedrelu": ("alpha",),
    "elu": ("alpha",),
}
_OPERATIONS = {
    "hardsigmoid": "HardSigmoid",
    "leakyrelu": "LeakyRelu",
    "thresholdedrelu": "ThresholdedRelu",
}


@dataclass(frozen=True)
class _Kind:
    gates: int
    activations: tuple[str, ...]
    states: int
    step: Callable[[_Direction, str, _State], _State]


@dataclass(frozen=True)
class _Direction:
    """One direction of a recurrent node, with its own weights and activations."""

    straight: Straight
    call: Call
    size: int
    recurrence: str
    """The recurrent weights, transposed: [size, gates * size]."""
    bias: str
    """The recurrent bias, where it is not added beforehand; or empty."""
    peepholes: tuple[str, ...]
    activate: tuple[_Activate, ...]

    def add(self, op: str, *inputs: str) -> str:
        return self.straight.add(op, *inputs)

    def clip(self, value: str) -> str:
        bound = self.call.get("clip", 0.0)
        if not bound:
            return value
        limits = (self.straight.constant(b, self.straight.dtype(value)) for b in (-bound, bound))
        return self.add("Clip", value, *limits)

    def split(self, value: str) -> list[str]:
        """The gates, along the last axis."""
        gates = self.straight.shape(value)[-1] // self.size
        sizes = self.straight.integers(*[self.size] * gates)
        return self.straight.add_all("Split", [value, sizes], gates, axis=1)


def lstm(straight: Straight, call: Call) -> Sequence[str]:
    """Outputs Y, Y_h and Y_c."""
    return _run(straight, call, _Kind(4, ("sigmoid", "tanh", "tanh"), 2, _lstm_step))


def gru(straight: Straight, call: Call) -> Sequence[str]:
    """Outputs Y and Y_h."""
    return _run(straight, call, _Kind(3, ("sigmoid", "tanh"), 1, _gru_step))


def rnn(straight: Straight, call: Call) -> Sequence[str]:
    """Outputs Y and Y_h."""
    return _run(straight, call, _Kind(1, ("tanh",), 1, _rnn_step))


def _lstm_step(at: _Direction, projected: str, state: _State) -> _State:
    hidden, cell = state
    sums = at.add("Add", projected, at.add("MatMul", hidden, at.recurrence))
    enter, leave, forget, new = at.split(sums)
    if at.peepholes:
        enter = at.add("Add", enter, at.add("Mul", at.peepholes[0], cell))
        forget = at.add("Add", forget, at.add("Mul", at.peepholes[2], cell))
    first, second, third = at.activate
    enter = first(at.clip(enter))
    if at.call.get("input_forget", 0):
        one = at.straight.constant(1, at.straight.dtype(enter))
        forget = at.add("Sub", one, enter)
    else:
        forget = first(at.clip(forget))
    kept = at.add("Mul", forget, cell)
    cell = at.add("Add", kept, at.add("Mul", enter, second(at.clip(new))))
    if at.peepholes:
        leave = at.add("Add", leave, at.add("Mul", at.peepholes[1], cell))
    return [at.add("Mul", first(at.clip(leave)), third(cell)), cell]


def _gru_step(at: _Direction, projected: str, state: _State) -> _State:
    (hidden,) = state
    first, second = at.activate
    update_x, reset_x, new_x = at.split(projected)
    update_r, reset_r, new_r = at.split(at.recurrence)
    update = first(at.clip(at.add("Add", update_x, at.add("MatMul", hidden, update_r))))
    reset = first(at.clip(at.add("Add", reset_x, at.add("MatMul", hidden, reset_r))))
    if at.call.get("linear_before_reset", 0):
        linear = at.add("MatMul", hidden, new_r)
        linear = at.add("Add", linear, at.bias) if at.bias else linear
        recurrent = at.add("Mul", reset, linear)
    else:
        recurrent = at.add("MatMul", at.add("Mul", reset, hidden), new_r)
    new = second(at.clip(at.add("Add", new_x, recurrent)))
    one = at.straight.constant(1, at.straight.dtype(new))
    fresh = at.add("Mul", at.add("Sub", one, update), new)
    return [at.add("Add", fresh, at.add("Mul", update, hidden))]


def _rnn_step(at: _Direction, projected: str, state: _State) -> _State:
    sums = at.add("Add", projected, at.add("MatMul", state[0], at.recurrence))
    return [at.activate[0](at.clip(sums))]


def _run(straight: Straight, call: Call, kind: _Kind) -> list[str]:
    """All directions over all steps."""
    batch_first = bool(call.get("layout", 0))
    given = call.inputs[0]
    if batch_first:
        given = straight.add("Transpose", given, perm=[1, 0, 2])
    direction = call.get("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    results: list[str] = []
    lasts: list[list[str]] = [[] for _ in range(kind.states)]
    for number in range(directions):
        backwards = direction == "reverse" or number == 1
        rows, last = _run_direction(straight, call, kind, given, number, backwards, batch_first)
        results.append(rows)
        for states, value in zip(lasts, last, strict=True):
            states.append(value)
    where = 2 if batch_first else 1
    stacked = _join(straight, results, 1)
    if batch_first:
        stacked = straight.add("Transpose", stacked, perm=[2, 0, 1, 3])
    finals = [_join(straight, states, where - 1) for states in lasts]
    return [stacked, *finals][: max(call.outputs, 1)]


def _join(straight: Straight, values: Sequence[str], axis: int) -> str:
    """Values along an axis of their own."""
    rows = [straight.add("Unsqueeze", value, straight.integers(axis)) for value in values]
    return straight.add("Concat", *rows, axis=axis) if len(rows) > 1 else rows[0]


def _run_direction(
    straight: Straight,
    call: Call,
    kind: _Kind,
    given: str,
    number: int,
    backwards: bool,
    batch_first: bool,
) -> tuple[str, _State]:
    """The results of all steps, [steps, batch, size], and the last state."""
    steps, batch, _ = straight.shape(given)
    at, projected = _prepare(straight, call, kind, given, number)
    state = [
        _initial(straight, call, 5 + n, number, (batch, at.size), batch_first)
        for n in range(kind.states)
    ]
    lengths = call.input(4)

    def step(before: list[str], rows: list[str]) -> tuple[list[str], list[str]]:
        after = kind.step(at, rows[0], before)
        if not lengths:
            return after, after[:1]
        running = _running(straight, lengths, rows[1])
        zero = straight.constant(0, straight.dtype(after[0]))
        shown = straight.add("Where", running, after[0], zero)
        pairs = zip(after, before, strict=True)
        return [straight.add("Where", running, a, b) for a, b in pairs], [shown]

    sources = [projected]
    if lengths:
        sources.append(straight.constant(np.arange(steps), straight.dtype(lengths)))
    if steps > FEW_TURNS:
        state, (results,) = repeat(straight, state, sources, step, backwards)
        return results, state
    made: list[str] = [""] * steps
    for number_ in reversed(range(steps)) if backwards else range(steps):
        index = straight.constant(np.int64(number_))
        rows = [straight.add("Gather", source, index, axis=0) for source in sources]
        state, (made[number_],) = step(state, rows)
    return _join(straight, made, 0), state


def _running(straight: Straight, lengths: str, step: str) -> str:
    """[batch, 1]: whether a row has this step."""
    return straight.add("Unsqueeze", straight.add("Less", step, lengths), straight.integers(1))


def _prepare(
    straight: Straight, call: Call, kind: _Kind, given: str, number: int
) -> tuple[_Direction, str]:
    """The weights of a direction, and its inputs multiplied by them: [steps, batch, gates * size]."""
    weights, recurrence = (_of_direction(straight, name, number) for name in call.inputs[1:3])
    size = straight.shape(recurrence)[-1]
    projected = straight.add("MatMul", given, straight.add("Transpose", weights, perm=[1, 0]))
    later = ""
    if call.input(3):
        both = _of_direction(straight, call.input(3), number)
        sizes = straight.integers(*[kind.gates * size] * 2)
        first, second = straight.add_all("Split", [both, sizes], 2, axis=0)
        if call.op == "GRU" and call.get("linear_before_reset", 0):
            parts = straight.add_all(
                "Split", [second, straight.integers(2 * size, size)], 2, axis=0
            )
            later = parts[1]
            zeros = straight.constant(np.zeros(size, straight.dtype(second)))
            second = straight.add("Concat", parts[0], zeros, axis=0)
        projected = straight.add("Add", projected, straight.add("Add", first, second))
    peepholes: tuple[str, ...] = ()
    if call.op == "LSTM" and call.input(7):
        sizes = straight.integers(size, size, size)
        three = _of_direction(straight, call.input(7), number)
        peepholes = tuple(straight.add_all("Split", [three, sizes], 3, axis=0))
    transposed = straight.add("Transpose", recurrence, perm=[1, 0])
    activate = _activations(straight, call, kind, number)
    return _Direction(straight, call, size, transposed, later, peepholes, activate), projected


def _of_direction(straight: Straight, name: str, number: int) -> str:
    return straight.add("Gather", name, straight.constant(np.int64(number)), axis=0)


def _initial(
    straight: Straight,
    call: Call,
    input_: int,
    number: int,
    shape: tuple[int, int],
    batch_first: bool,
) -> str:
    name = call.input(input_)
    if not name:
        return straight.constant(np.zeros(shape, straight.dtype(call.inputs[0])))
    index = straight.constant(np.int64(number))
    return straight.add("Gather", name, index, axis=1 if batch_first else 0)


def _activations(straight: Straight, call: Call, kind: _Kind, number: int) -> tuple[_Activate, ...]:
    every = [
        name.decode() if isinstance(name, bytes) else name
        for name in call.get("activations", None) or kind.activations * (number + 1)
    ]
    values = {key: list(call.get(f"activation_{key}", None) or ()) for key in ("alpha", "beta")}
    made: list[_Activate] = []
    for name in every:
        settings = _SETTINGS.get(name.lower())
        if settings is None:
            raise call.refuse(f"has the activation {name}", "use Tanh, Sigmoid or Relu")
        given = {key: values[key].pop(0) for key in settings if values[key]}
        op = _OPERATIONS.get(name.lower(), name.capitalize())
        made.append(partial(_activate, straight, op, given))
    count = len(kind.activations)
    return tuple(made[number * count : (number + 1) * count])


def _activate(straight: Straight, op: str, settings: Mapping[str, float], value: str) -> str:
    return straight.add(op, value, **settings)
