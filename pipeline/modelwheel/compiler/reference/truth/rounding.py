"""Rounds elsewhere in a converted graph: what libraries may compute in several ways is changed in its last place.

Two right programs differ in a unit in the last place of a logarithm or of a sum. A normalisation of values that are
equal otherwise, such as the spectrum of silence, makes anything of that, though no weight and no input is changed.
This is Monte Carlo arithmetic (D. S. Parker, 1997), of those operations alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ....model.measuring import difference
from ...freeze.frozen import FrozenGraph
from ...loaded.base import Arrays
from .evaluate import run_calls
from .module_texts import rewrite, with_texts

_VALUE = r"%[\w$.-]+"
_RESULT = re.compile(
    rf"^(?P<indent> *)(?P<name>{_VALUE}) = stablehlo\.(?:atan2|cbrt|convolution|cosine|dot|dot_general|exponential"
    r"|exponential_minus_one|log|log_plus_one|logistic|power|reduce|rsqrt|sine|tan|tanh)\b"
    r"[^\n]* (?::|->) (?P<type>tensor<(?P<extents>(?:\d+x)*)f32>)$",
    re.MULTILINE,
)
_UP, _DOWN = "0x3F800001", "0x3F7FFFFF"
"""The numbers beside 1."""


def measure_rounding(frozen: FrozenGraph, calls: Sequence[Arrays], draws: int) -> list[Arrays]:
    """For each call, how far each element of its outputs moves if results in between differ in their last place.

    Args:
        frozen: The graph.
        calls: Inputs of calls in a row, if the graph has state; otherwise of any calls.
        draws: How many evaluations are compared with that of the graph as it is.

    Raises:
        NoTruthError: The graph cannot be evaluated.
    """
    graphs = [round_elsewhere(frozen.graph_def, draw) for draw in range(draws)]
    base = run_calls(frozen.graph_def, frozen, calls)
    others = [run_calls(graph, frozen, calls) for graph in graphs]
    return [
        {
            name: np.max([difference(values, other[n][name]) for other in others], axis=0)
            for name, values in outputs.items()
        }
        for n, outputs in enumerate(base)
    ]


def round_elsewhere(graph_def: Any, draw: int) -> Any:
    """A copy of a frozen graph in which results of StableHLO modules differ in their last place.

    Args:
        graph_def: It is left as it is.
        draw: A number: others change other values.
    """
    return with_texts(graph_def, partial(nudge_results, draw=draw))


def nudge_results(text: str, draw: int) -> str:
    """The text of a module with each such result of float32 times a number beside 1, element by element."""
    return rewrite(text, _RESULT, partial(_nudged, draw=draw))


def _nudged(match: re.Match[str], number: int, draw: int) -> Iterator[str]:
    indent, name, kind = match["indent"], match["name"], match["type"]
    count = prod(int(extent) for extent in match["extents"].split("x")[:-1])
    flat, bits = f"tensor<{count}xf32>", f"tensor<{count}xi1>"
    exact, place, step, phase, is_up, up, down, chosen, factor = (
        f"%nudged_{number}_{part}" for part in range(9)
    )
    # The sine of large steps changes its sign without a pattern that a model could have.
    stride = 1.0 + 0.61803399 * (1 + draw) + 0.0137 * number
    yield match[0].replace(name, exact, 1)
    for line in (
        f"{place} = stablehlo.iota dim = 0 : {flat}",
        f"{step} = stablehlo.constant dense<{stride:.8e}> : {flat}",
        f"{phase} = stablehlo.multiply {place}, {step} : {flat}",
        f"{phase}s = stablehlo.sine {phase} : {flat}",
        f"{is_up}z = stablehlo.constant dense<0.0> : {flat}",
        f"{is_up} = stablehlo.compare GE, {phase}s, {is_up}z : ({flat}, {flat}) -> {bits}",
        f"{up} = stablehlo.constant dense<{_UP}> : {flat}",
        f"{down} = stablehlo.constant dense<{_DOWN}> : {flat}",
        f"{chosen} = stablehlo.select {is_up}, {up}, {down} : {bits}, {flat}",
        f"{factor} = stablehlo.reshape {chosen} : ({flat}) -> {kind}",
        f"{name} = stablehlo.multiply {exact}, {factor} : {kind}",
    ):
        yield f"\n{indent}{line}"
