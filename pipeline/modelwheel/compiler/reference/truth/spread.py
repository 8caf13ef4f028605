"""How far rounding moves results: a graph in its own types, with weights and inputs that differ in their last place.

Each evaluation rounds elsewhere, on the way to the results too, so that they spread as those of another arithmetic do.
Weights of long sums move further: added one after the other, n products round n times, which moves their sum some
sqrt(n) / 6 times as far as the last places of n weights do: each rounding is that of a sum that has grown.
How they differ from the truth is not part of it: an error that all evaluations share is no rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import sqrt
from typing import Any

import numpy as np

from ....accuracy import EPSILON
from ....model.measuring import difference
from ...freeze.frozen import FrozenGraph
from ...loaded.base import Arrays
from .evaluate import opened, run_calls
from .missing import NoTruthError
from .nudge import nudge
from .rounding import measure_ties
from .weights import Parted, part_weights

Array = np.ndarray[Any, Any]

DRAWS = 8
_SHORT = 36
"""The most products whose sum is moved as far by the last places of weights alone."""
_FURTHER, _FACTOR = 4, 8.0
"""So many draws, of so many units in the last place, decide about integers: a wheel rounds in other places."""


def measure_spread(
    frozen: FrozenGraph,
    calls: Sequence[Arrays],
    narrow: Mapping[str, str],
    draws: int = DRAWS,
    *,
    ties: bool = False,
) -> list[Arrays]:
    """For each call, how far each element of its outputs moves; of integers, whether it changes.

    Args:
        frozen: The graph.
        calls: Inputs of calls in a row, if the graph has state; otherwise of any calls.
        narrow: The 16-bit types that values of outputs pass through, by name.
        draws: How many evaluations.
        ties: Whether it `has_ties`, which are moved too.

    Raises:
        NoTruthError: The graph cannot be evaluated.
    """
    parted = part_weights(frozen)
    floating = [a for call in calls for a in call.values() if _is_floating(a)]
    if not parted.weights and not floating:
        raise NoTruthError("it has no weights and no inputs that are floats")
    spreads: list[dict[str, Array]] = [{} for _ in calls]
    types = {name: narrow.get(name, "float32") for name in frozen.fetches}
    base: list[Arrays] = []
    for dtype in sorted(set(types.values())):
        names = [name for name, kind in types.items() if kind == dtype]
        # Half a unit is what rounding to a narrower type makes of a number.
        least = 0.0 if dtype == "float32" else EPSILON[dtype] / 2
        base = _add_draws(parted, calls, names, least, spreads, draws)
    if not ties:
        return list(spreads)
    moved = measure_ties(frozen, calls, base)
    return [_larger(*both) for both in zip(spreads, moved, strict=True)]


def _larger(one: Arrays, other: Arrays) -> Arrays:
    """The larger of two movements of each element; of integers, whether it changes in either."""
    return {name: np.maximum(moves, other[name].astype(moves.dtype)) for name, moves in one.items()}


def _add_draws(
    parted: Parted,
    calls: Sequence[Arrays],
    names: Sequence[str],
    least: float,
    spreads: Sequence[dict[str, Array]],
    draws: int,
) -> list[Arrays]:
    """Adds how far the named outputs move to `spreads`; returns the outputs of the graph as it is."""
    with ExitStack() as stack:
        evaluate = _evaluator(parted, stack)
        base = evaluate(calls_of(parted, calls))
        whole = [name for name in names if base[0][name].dtype.kind in "biu"]
        for outputs, changes in zip(base, spreads, strict=True):
            for name in names:
                kind = bool if name in whole else np.float64
                changes[name] = np.zeros(outputs[name].shape, kind)
        for draw in range(draws + (_FURTHER if whole else 0)):
            further = draw >= draws
            nudged = calls_of(parted, calls, draw, least, _FACTOR if further else 1.0)
            for outputs, moved, changes in zip(base, evaluate(nudged), spreads, strict=True):
                for name in whole if further else names:
                    if moved[name].shape != outputs[name].shape:
                        raise NoTruthError("values decide the shapes of its outputs")
                    change = difference(outputs[name], moved[name])
                    changes[name] = np.maximum(changes[name], change.astype(changes[name].dtype))
    return base


def _evaluator(parted: Parted, stack: ExitStack) -> Callable[[Iterator[Arrays]], list[Arrays]]:
    graph = parted.graph
    if graph.state:
        return lambda calls: run_calls(graph.graph_def, graph, calls)
    call = stack.enter_context(opened(graph.graph_def, graph))
    return lambda calls: [call(inputs) for inputs in calls]


def calls_of(
    parted: Parted,
    calls: Sequence[Arrays],
    draw: int | None = None,
    least: float = 0.0,
    factor: float = 1.0,
) -> Iterator[Arrays]:
    """The inputs of calls with the weights, changed if there is a draw; weights are the same for all calls."""

    def change(name: str, values: Array, terms: int = 1) -> Array:
        if draw is None or not _is_floating(values):
            return values
        further = max(1.0, sqrt(terms / _SHORT)) if values.dtype == np.float32 else 1.0
        return nudge(values, name, draw, least, factor * further)

    weights = {
        name: change(name, values, parted.terms.get(name, 1))
        for name, values in parted.weights.items()
    }
    for inputs in calls:
        yield {**{name: change(name, values) for name, values in inputs.items()}, **weights}


def _is_floating(values: Array) -> bool:
    return values.dtype.kind in "fcV"  # bfloat16 is of kind V
