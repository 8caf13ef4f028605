"""`LSTM`, `GRU` and `RNN`, as https://onnx.ai/onnx/operators/ defines them.

The products of all inputs with the weights are one product before the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ....stablehlo.writer import Value
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.contractions import matmul
from .neural import elu, hard_sigmoid, softplus
from .onnx_node import Node, Result, operator
from .scans import repeat

_Activate = Callable[[Value], Value]
_State = list[Value]


@dataclass(frozen=True)
class Matrix:
    """The weights of inputs or states, [extent, gates * size]."""

    multiply: Callable[[Value], Value]
    """The product with them."""
    extent: int
    value: Value | None = None
    """The weights themselves, where their columns may be told apart."""


_Matrices = Callable[[int], Sequence[Matrix]]
"""The weights of the inputs and of the state, of a direction."""


@dataclass(frozen=True)
class Kind:
    """A recurrent operation."""

    gates: int
    activations: tuple[str, ...]
    states: int
    step: Callable[[Direction, Value, _State], _State]


@dataclass(frozen=True)
class Direction:
    """One direction of a recurrent node, with its own weights and activations."""

    node: Node
    size: int
    recurrence: Matrix
    bias: Value | None
    """The recurrent bias, where it is not added beforehand."""
    peepholes: tuple[Value, ...]
    activate: tuple[_Activate, ...]

    def clip(self, value: Value) -> Value:
        """The value within the bounds of the node."""
        bound = self.node.get("clip", 0.0)
        return e.clamp(-bound, value, bound) if bound else value

    def split(self, value: Value) -> list[Value]:
        """The gates, along the last axis."""
        return s.split(value, -1, [self.size] * (value.shape[-1] // self.size))


# --- steps ----------------------------------------------------------------------------------------


def _lstm_step(at: Direction, projected: Value, state: _State) -> _State:
    hidden, cell = state
    enter, leave, forget, new = at.split(projected + at.recurrence.multiply(hidden))
    if at.peepholes:
        enter = enter + at.peepholes[0] * cell
        forget = forget + at.peepholes[2] * cell
    first, second, third = at.activate
    enter = first(at.clip(enter))
    forget = 1 - enter if at.node.get("input_forget", 0) else first(at.clip(forget))
    cell = forget * cell + enter * second(at.clip(new))
    if at.peepholes:
        leave = leave + at.peepholes[1] * cell
    return [first(at.clip(leave)) * third(cell), cell]


def _gru_step(at: Direction, projected: Value, state: _State) -> _State:
    (hidden,) = state
    first, second = at.activate
    update_x, reset_x, new_x = at.split(projected)
    if at.node.get("linear_before_reset", 0):
        update_r, reset_r, new_r = at.split(at.recurrence.multiply(hidden))
        reset = first(at.clip(reset_x + reset_r))
        recurrent = reset * (new_r if at.bias is None else new_r + at.bias)
    else:
        assert at.recurrence.value is not None
        both = s.slice_axis(at.recurrence.value, 1, 0, 2 * at.size)
        rest = s.slice_axis(at.recurrence.value, 1, 2 * at.size, 3 * at.size)
        update_r, reset_r = at.split(matmul(hidden, both))
        reset = first(at.clip(reset_x + reset_r))
        recurrent = matmul(reset * hidden, rest)
    update = first(at.clip(update_x + update_r))
    new = second(at.clip(new_x + recurrent))
    return [(1 - update) * new + update * hidden]


def _rnn_step(at: Direction, projected: Value, state: _State) -> _State:
    return [at.activate[0](at.clip(projected + at.recurrence.multiply(state[0])))]


LSTM = Kind(4, ("sigmoid", "tanh", "tanh"), 2, _lstm_step)
_KINDS = {
    "GRU": Kind(3, ("sigmoid", "tanh"), 1, _gru_step),
    "LSTM": LSTM,
    "RNN": Kind(1, ("tanh",), 1, _rnn_step),
}


# --- nodes ----------------------------------------------------------------------------------------


@operator("GRU", "LSTM", "RNN")
def recurrent(node: Node) -> Result:
    """The results of all steps, and the last state."""
    return run(node, _KINDS[node.op], partial(_matrices, node))


def _matrices(node: Node, number: int) -> Sequence[Matrix]:
    """The weights of a direction, which are [directions, gates * size, extent]."""
    values = [s.transpose(s.index_axis(node.input(n), 0, number), [1, 0]) for n in (1, 2)]
    return [Matrix(partial(matmul, y=value), value.shape[0], value) for value in values]


def run(node: Node, kind: Kind, matrices: _Matrices) -> list[Value]:
    """All directions over all steps: Y, Y_h, and Y_c of an LSTM.

    Args:
        node: With inputs in the order of ONNX's operations, but for the weights.
        kind: Its operation.
        matrices: The weights.
    """
    batch_first = bool(node.get("layout", 0))
    inputs = node.input(0)
    if batch_first:
        inputs = s.transpose(inputs, [1, 0, 2])
    direction = node.get("direction", "forward")
    results: list[Value] = []
    lasts: list[_State] = []
    for number in range(2 if direction == "bidirectional" else 1):
        backwards = direction == "reverse" or number == 1
        rows, last = _run_direction(node, kind, matrices, inputs, number, backwards=backwards)
        results.append(rows)
        lasts.append(last)
    stacked = s.stack(results, 1)
    if batch_first:
        stacked = s.transpose(stacked, [2, 0, 1, 3])
    where = 1 if batch_first else 0
    return [stacked, *(s.stack(states, where) for states in zip(*lasts, strict=True))]


def _run_direction(
    node: Node, kind: Kind, matrices: _Matrices, sequence: Value, number: int, *, backwards: bool
) -> tuple[Value, _State]:
    """The results of all steps, [steps, batch, size], and the last state."""
    at, projected = _prepare(node, kind, matrices, sequence, number)
    shape = (sequence.shape[1], at.size)
    state = [_initial(node, 5 + n, number, shape, sequence) for n in range(kind.states)]
    lengths = node.optional(4)

    def step(before: _State, rows: list[Value], place: Value) -> tuple[_State, _State]:
        after = kind.step(at, rows[0], before)
        if lengths is None:
            return after, after[:1]
        running = s.expand_dims(e.convert(place, lengths.dtype) < lengths, 1)
        kept = [e.select(running, a, b) for a, b in zip(after, before, strict=True)]
        return kept, [e.select(running, after[0], 0)]

    last, (rows,) = repeat(node, step, state, [projected], backwards=backwards)
    return rows, last


def _prepare(
    node: Node, kind: Kind, matrices: _Matrices, sequence: Value, number: int
) -> tuple[Direction, Value]:
    """The weights of a direction, and its inputs multiplied by them: [steps, batch, gates * size]."""
    inputs, recurrence = matrices(number)
    size = recurrence.extent
    projected = inputs.multiply(sequence)
    if projected.shape[-1] != kind.gates * size:
        raise ValueError(f"its weights are not of {kind.gates} gates")
    later: Value | None = None
    if (biases := node.optional(3)) is not None:
        both = s.index_axis(biases, 0, number)
        first, second = s.split(both, 0, [kind.gates * size] * 2)
        if node.op == "GRU" and node.get("linear_before_reset", 0):
            front, later = s.split(second, 0, [2 * size, size])
            second = s.pad(front, 0, [0], [size])
        projected = projected + (first + second)
    peepholes: tuple[Value, ...] = ()
    if kind is LSTM and (three := node.optional(7)) is not None:
        peepholes = tuple(s.split(s.index_axis(three, 0, number), 0, [size] * 3))
    activate = _activations(node, kind, number)
    return Direction(node, size, recurrence, later, peepholes, activate), projected


def _initial(
    node: Node, input_: int, number: int, shape: tuple[int, int], sequence: Value
) -> Value:
    value = node.optional(input_)
    if value is None:
        return s.full(node.builder, shape, 0, sequence.dtype)
    return s.index_axis(value, 1 if node.get("layout", 0) else 0, number)


# --- activations ----------------------------------------------------------------------------------


_PLAIN: Mapping[str, _Activate] = {
    "relu": lambda x: e.maximum(x, 0),
    "tanh": e.tanh,
    "sigmoid": e.logistic,
    "softsign": lambda x: x / (e.abs_(x) + 1),
    "softplus": softplus,
}
_Default = float | None
"""None where runtimes differ."""
_WITH_ALPHA: Mapping[str, tuple[_Default, Callable[[Value, float], Value]]] = {
    "leakyrelu": (0.01, lambda x, a: e.select(x < 0, x * a, x)),
    "thresholdedrelu": (None, lambda x, a: e.select(x > a, x, 0)),
    "elu": (1.0, elu),
}
_WITH_BOTH: Mapping[str, tuple[_Default, _Default, Callable[[Value, float, float], Value]]] = {
    "affine": (None, None, lambda x, a, b: x * a + b),
    "scaledtanh": (None, None, lambda x, a, b: e.tanh(x * b) * a),
    "hardsigmoid": (0.2, 0.5, hard_sigmoid),
}


def _with(function: Callable[..., Value], *settings: float) -> _Activate:
    return lambda x: function(x, *settings)


def _activations(node: Node, kind: Kind, number: int) -> tuple[_Activate, ...]:
    """The activations of a direction; each takes its settings from lists that all of them share."""
    default = kind.activations * (number + 1)
    every = [
        name.decode() if isinstance(name, bytes) else name
        for name in node.get("activations", None) or default
    ]
    values = {key: list(node.get(f"activation_{key}", None) or ()) for key in ("alpha", "beta")}

    def setting(key: str, standard: _Default) -> float:
        if not values[key] and standard is None:
            raise node.refuse(
                f"has the activation {name} without activation_{key}, for which runtimes take "
                "different values",
                f"write activation_{key} into the model",
            )
        return float(values[key].pop(0)) if values[key] else standard or 0.0

    made: list[_Activate] = []
    for name in every:
        key = name.lower()
        if key in _PLAIN:
            made.append(_PLAIN[key])
        elif key in _WITH_ALPHA:
            standard, function = _WITH_ALPHA[key]
            made.append(_with(function, setting("alpha", standard)))
        elif key in _WITH_BOTH:
            first, second, two = _WITH_BOTH[key]
            made.append(_with(two, setting("alpha", first), setting("beta", second)))
        else:
            raise node.refuse(f"has the activation {name}", "use Tanh, Sigmoid or Relu")
    count = len(kind.activations)
    return tuple(made[number * count : (number + 1) * count])
