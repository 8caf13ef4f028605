"""`If`, `Loop` and `Scan`: branches that are decided beforehand, few turns written one after another.

A branch that depends on inputs is computed along with the other one and selected: ONNX operations have
no effect beside their results. Many turns, and those whose number depends on inputs, stay a loop, unless its
body needs shapes that the number of the turn decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from .....errors import UnsupportedModelError
from .repeat import FEW_TURNS, UnfitBodyError, repeat, repeat_until
from .straight import Call, Straight

MAX_TURNS = 4096


def if_(straight: Straight, call: Call) -> Sequence[str]:
    """One branch, or both and a selection."""
    condition = straight.value(call.inputs[0])
    then, other = call.attributes["then_branch"], call.attributes["else_branch"]
    if condition is not None:
        return list((then if bool(condition.reshape(())) else other).write(straight, []))
    pairs = list(zip(then.write(straight, []), other.write(straight, []), strict=True))
    for one, two in pairs:
        if straight.shape(one) != straight.shape(two):
            raise call.refuse(
                f"returns {list(straight.shape(one))} or {list(straight.shape(two))}, as its condition "
                "decides when the model runs",
                "make its condition a constant with source.constants, or make both shapes equal",
            )
    scalar = straight.add("Reshape", call.inputs[0], straight.integers())
    return [straight.add("Where", scalar, one, two) for one, two in pairs]


def loop(straight: Straight, call: Call) -> Sequence[str]:
    """A loop, or its turns one after another."""
    turns = straight.value(call.input(0)) if call.input(0) else None
    if not call.input(0):
        with suppress(UnsupportedModelError):  # a condition that the inputs decide
            return _loop_turns(straight, call)
    if turns is None or int(turns.reshape(())) > FEW_TURNS:
        with suppress(UnfitBodyError, UnsupportedModelError):
            return _loop_once(straight, call)
    return _loop_turns(straight, call)


def _loop_once(straight: Straight, call: Call) -> Sequence[str]:
    """The loop with its body written once."""
    condition = call.input(1) or straight.constant(np.True_)
    always: list[bool] = []

    def write(inputs: list[str]) -> Sequence[str]:
        written: list[str] = call.attributes["body"].write(straight, inputs)
        going = straight.value(written[0])
        always.append(going is not None and bool(going.all()))
        return written

    state, results = repeat_until(straight, call.input(0), condition, call.inputs[2:], write)
    if not call.input(0) and any(always):
        raise _endless(call)
    return [*state, *results]


def _loop_turns(straight: Straight, call: Call) -> Sequence[str]:
    """The turns one after another."""
    body = call.attributes["body"]
    state = list(call.inputs[2:])
    scans: list[list[str]] = [[] for _ in range(len(body.graph.output) - 1 - len(state))]
    condition = call.input(1) or straight.constant(np.True_)
    turns = _turns(straight, call, condition)
    decided, active = True, ""
    for turn in range(turns):
        known = straight.value(condition)
        if decided and known is not None:
            if not bool(known.reshape(())):
                break
        elif not call.input(0) or scans:
            raise _endless(call)
        else:
            decided = False
            scalar = straight.add("Reshape", condition, straight.integers())
            active = straight.add("And", active, scalar) if active else scalar
        results = body.write(straight, [straight.constant(np.int64(turn)), condition, *state])
        condition, after = results[0], results[1 : 1 + len(state)]
        state = after if decided else _select(straight, call, active, after, state)
        for scan, value in zip(scans, results[1 + len(state) :], strict=True):
            scan.append(value)
    else:
        if not call.input(0):
            raise _endless(call)
    return [*state, *(_stack(straight, call, scan, 0) for scan in scans)]


def _turns(straight: Straight, call: Call, condition: str) -> int:
    if not call.input(0):
        if straight.value(condition) is None:
            raise _endless(call)
        return MAX_TURNS
    turns = straight.value(call.input(0))
    if turns is None:
        raise call.refuse(
            "loops as often as the inputs decide",
            "fix the input that it depends on with source.constants, or export the loop with a fixed "
            "number of turns",
        )
    number = int(turns.reshape(()))
    if number > MAX_TURNS and straight.value(condition) is None:
        raise _endless(call)
    return number


def _endless(call: Call) -> Exception:
    return call.refuse(
        "loops until a condition holds that depends on the inputs",
        "export the loop with a fixed number of turns and no other outputs than its state",
    )


def _select(
    straight: Straight, call: Call, active: str, after: Sequence[str], before: Sequence[str]
) -> list[str]:
    for one, two in zip(after, before, strict=True):
        if straight.shape(one) != straight.shape(two):
            raise call.refuse("changes the shape of its state", "keep the shapes in each turn")
    return [straight.add("Where", active, a, b) for a, b in zip(after, before, strict=True)]


def _stack(straight: Straight, call: Call, values: Sequence[str], axis: int) -> str:
    if not values:
        raise call.refuse("makes no turn, so that its outputs are empty", "remove the loop")
    rows = [straight.add("Unsqueeze", value, straight.integers(axis)) for value in values]
    return straight.add("Concat", *rows, axis=axis)


def scan(straight: Straight, call: Call) -> Sequence[str]:
    """Scan of opset 9 and later: slices of some inputs go in, slices of some outputs come out."""
    body, given = call.attributes["body"], call.attributes["num_scan_inputs"]
    state, sources = list(call.inputs[:-given]), call.inputs[-given:]
    results = len(body.graph.output) - len(state)
    backwards = [bool(d) for d in call.get("scan_input_directions", [0] * given)]
    reversed_ = [bool(d) for d in call.get("scan_output_directions", [0] * results)]
    axes = _axes(straight, sources, call.get("scan_input_axes", [0] * given))
    outer = call.get("scan_output_axes", [0] * results)
    length = straight.shape(sources[0])[axes[0]]
    # All sources are cut at once, so that they must agree on the direction.
    if length > FEW_TURNS and len({*backwards, *reversed_}) == 1:
        with suppress(UnfitBodyError, UnsupportedModelError):
            return _scan_once(straight, call, state, sources, axes, backwards[0])
    if length > MAX_TURNS:
        raise call.refuse(f"makes {length} turns, above {MAX_TURNS}", "use shorter sequences")
    scans: list[list[str]] = [[] for _ in range(results)]
    for turn in range(length):
        slices = [
            straight.add(
                "Gather",
                source,
                straight.constant(np.int64(length - 1 - turn if backward else turn)),
                axis=axis,
            )
            for source, axis, backward in zip(sources, axes, backwards, strict=True)
        ]
        written = body.write(straight, [*state, *slices])
        state = written[: len(state)]
        for values, value in zip(scans, written[len(state) :], strict=True):
            values.append(value)
    return [
        *state,
        *(
            _stack(straight, call, values[::-1] if back else values, _axis(straight, values, axis))
            for values, back, axis in zip(scans, reversed_, outer, strict=True)
        ),
    ]


def _scan_once(
    straight: Straight,
    call: Call,
    state: Sequence[str],
    sources: Sequence[str],
    axes: Sequence[int],
    backwards: bool,
) -> Sequence[str]:
    """The loop with its body written once; the axis of the turns comes first."""
    body = call.attributes["body"]

    def step(before: list[str], rows: list[str]) -> tuple[list[str], list[str]]:
        written = body.write(straight, [*before, *rows])
        return written[: len(state)], written[len(state) :]

    first = [_move(straight, s, axis, 0) for s, axis in zip(sources, axes, strict=True)]
    after, results = repeat(straight, state, first, step, backwards)
    outer = call.get("scan_output_axes", [0] * len(results))
    moved = [
        _move(straight, value, 0, axis % len(straight.shape(value)))
        for value, axis in zip(results, outer, strict=True)
    ]
    return [*after, *moved]


def _move(straight: Straight, value: str, source: int, target: int) -> str:
    """The value with one axis at another place."""
    if source == target:
        return value
    order = [axis for axis in range(len(straight.shape(value))) if axis != source]
    order.insert(target, source)
    return straight.add("Transpose", value, perm=order)


def _axes(straight: Straight, sources: Sequence[str], axes: Any) -> list[int]:
    return [a % len(straight.shape(s)) for s, a in zip(sources, axes, strict=True)]


def _axis(straight: Straight, values: Sequence[str], axis: int) -> int:
    return axis % (len(straight.shape(values[0])) + 1) if values else axis
