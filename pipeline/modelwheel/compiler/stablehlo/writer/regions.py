"""Loops and branches. Regions may read all values that are known outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .builder import Builder, Value
from .mlir_types import BOOL, INT32
from .pointwise import convert, select
from .reshaping import dynamic_slice, dynamic_update_slice, expand_dims, full, reshape


def while_loop(
    condition: Callable[[list[Value]], Value],
    body: Callable[[list[Value]], Sequence[Value]],
    state: Sequence[Value],
) -> list[Value]:
    """The state after turns of the body while the condition holds (a truth value of any one-element shape).

    Raises:
        ValueError: The body changes a type or shape.
    """
    builder = state[0].builder
    kinds = [(value.dtype, value.shape) for value in state]
    test, _ = builder.region(kinds, lambda values: [reshape(condition(values), [])])
    turn, results = builder.region(kinds, body)
    if [(value.dtype, value.shape) for value in results] != kinds:
        raise ValueError("the body changes the type or shape of its state")
    return builder.emit_all("stablehlo.while", state, kinds, regions=[test, turn])


def scan(
    body: Callable[[list[Value], list[Value], Value], tuple[Sequence[Value], Sequence[Value]]],
    state: Sequence[Value],
    rows: Sequence[Value],
    turns: int,
    *,
    backwards: bool = False,
    builder: Builder | None = None,
) -> tuple[list[Value], list[Value]]:
    """A loop over axis 0 of `rows`. Its counter has 32 bits, by which compiled steps know its turns.

    Args:
        body: Takes the state, a row of each source, and the number of the row (int32); returns the state
            and a row of each result.
        state: Before the first turn.
        rows: The sources; axis 0 has an extent of `turns`.
        turns: At least 1.
        backwards: Whether the last row comes first; results keep the places of their rows.
        builder: For a loop without state and sources.

    Returns:
        The last state, and the results with their rows along axis 0.
    """
    builder = builder or next(iter([*state, *rows])).builder
    kinds: list[Value] = []

    def probe(values: list[Value]) -> Sequence[Value]:
        sources = [reshape(v, v.shape[1:]) for v in values[len(state) :]]
        _, made = body(values[: len(state)], sources, builder.constant(0, INT32))
        kinds.extend(made)
        return made

    # Written once to know the types of the results, and dropped.
    first = [(v.dtype, v.shape) for v in state] + [(v.dtype, (1, *v.shape[1:])) for v in rows]
    builder.region(first, probe)
    outputs = [full(builder, (turns, *v.shape), 0, v.dtype) for v in kinds]
    count = len(state)

    def turn(values: list[Value]) -> Sequence[Value]:
        number, before, filled = values[0], values[1 : 1 + count], values[1 + count :]
        place = (turns - 1) - number if backwards else number
        sources = [
            reshape(
                dynamic_slice(row, [place, *[0] * (row.rank - 1)], (1, *row.shape[1:])),
                row.shape[1:],
            )
            for row in rows
        ]
        after, made = body(list(before), sources, place)
        written = [
            dynamic_update_slice(out, expand_dims(value, 0), [place, *[0] * value.rank])
            for out, value in zip(filled, made, strict=True)
        ]
        return [number + 1, *after, *written]

    start = builder.constant(0, INT32)
    results = while_loop(lambda values: values[0] < turns, turn, [start, *state, *outputs])
    return results[1 : 1 + count], results[1 + count :]


def if_(
    condition: Value,
    then: Callable[[], Sequence[Value]],
    other: Callable[[], Sequence[Value]],
) -> list[Value]:
    """The results of one of two functions, of which only that one runs.

    Raises:
        ValueError: They return other types or shapes.
    """
    builder = condition.builder
    first, left = builder.region([], lambda _: then())
    second, right = builder.region([], lambda _: other())
    kinds = [(value.dtype, value.shape) for value in left]
    if [(value.dtype, value.shape) for value in right] != kinds:
        raise ValueError("the branches return other types or shapes")
    flag = reshape(convert(condition, BOOL), [])
    return builder.emit_all("stablehlo.if", [flag], kinds, regions=[first, second])


def choose(condition: Value, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
    """Values of which both are computed, chosen by one truth value."""
    flag = reshape(condition, [])
    return [select(flag, a, b) for a, b in zip(left, right, strict=True)]
