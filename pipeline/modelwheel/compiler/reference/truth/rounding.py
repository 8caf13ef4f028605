"""Rounds elsewhere in a converted graph: what libraries may compute in several ways is changed in its last place.

Two right programs differ in a unit in the last place of a logarithm or of a sum. A normalisation of values that are
equal otherwise, such as the spectrum of silence, makes anything of that, though no weight and no input is changed.
This is Monte Carlo arithmetic (D. S. Parker, 1997), of those operations alone.

Layers of quantised models round sums to integers. A sum beside a tie becomes one or the other of two integers, and is
one of so many that some row has such a sum.
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
from ...graphs.graphs import bodies, nodes_of
from ...loaded.base import Arrays
from .evaluate import run_calls
from .module_texts import rewrite, texts_of, with_texts

_VALUE = r"%[\w$.-]+"
_RESULT = re.compile(
    rf"^(?P<indent> *)(?P<name>{_VALUE}) = stablehlo\.(?:atan2|cbrt|convolution|cosine|dot|dot_general|exponential"
    r"|exponential_minus_one|log|log_plus_one|logistic|power|reduce|rsqrt|sine|tan|tanh)\b"
    r"[^\n]* (?::|->) (?P<type>tensor<(?P<extents>(?:\d+x)*)f32>)$",
    re.MULTILINE,
)
_UP, _DOWN = "0x3F800001", "0x3F7FFFFF"
"""The numbers beside 1."""
_TIE = re.compile(
    rf"^(?P<indent> *)(?P<name>{_VALUE}) = (?P<op>stablehlo\.round_nearest_(?:even|afz)) (?P<operand>{_VALUE}) : "
    r"(?P<type>tensor<(?P<extents>(?:\d+x)*)f32>)$",
    re.MULTILINE,
)
_ABOVE, _BELOW = "0x3F800008", "0x3F7FFFF0"
"""Eight units in the last place beside 1: what is rounded is a sum in any order, times a scale."""
_SORTING = frozenset({"TopKV2", "TopK", "XlaSort", "XlaVariadicSort", "XlaKeyValueSort"})
_SORTED = re.compile(r"\bstablehlo\.sort\b|\bchlo\.top_k\b|\bmhlo\.topk\b")


def measure_rounding(frozen: FrozenGraph, calls: Sequence[Arrays], draws: int) -> list[Arrays]:
    """For each call, how far each element of its outputs moves if results in between differ in their last place.

    Args:
        frozen: The graph.
        calls: Inputs of calls in a row, if the graph has state; otherwise of any calls.
        draws: How many evaluations are compared with that of the graph as it is.

    Raises:
        NoTruthError: The graph cannot be evaluated.
    """
    base = run_calls(frozen.graph_def, frozen, calls)
    graphs = [round_elsewhere(frozen.graph_def, n) for n in range(draws)]
    return _measure(frozen, calls, base, graphs)


def measure_ties(
    frozen: FrozenGraph, calls: Sequence[Arrays], base: Sequence[Arrays]
) -> list[Arrays]:
    """For each call, how far each element of its outputs moves if sums beside a tie are rounded to other integers.

    Args:
        frozen: The graph.
        calls: Inputs of calls in a row, if the graph has state; otherwise of any calls.
        base: The outputs of the graph as it is.

    Raises:
        NoTruthError: The graph cannot be evaluated.
    """
    # Each sum is moved up in one of two graphs and down in the other.
    moves = [partial(move_ties, other=other) for other in (False, True)]
    return _measure(frozen, calls, base, [with_texts(frozen.graph_def, move) for move in moves])


def has_ties(graph_def: Any) -> bool:
    """Whether StableHLO modules of a frozen graph round floats to integers."""
    return any(_TIE.search(text) for text in texts_of(graph_def))


def sorts(graph_def: Any) -> bool:
    """Whether a frozen graph sorts anything, so that rounding decides the order of what is nearly equal."""
    nodes = (node for body in bodies(graph_def) for node in nodes_of(body))
    if any(node.op in _SORTING for node in nodes):
        return True
    return any(_SORTED.search(text) for text in texts_of(graph_def))


def _measure(
    frozen: FrozenGraph, calls: Sequence[Arrays], base: Sequence[Arrays], graphs: Sequence[Any]
) -> list[Arrays]:
    """How far each element is from that of any of the graphs."""
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


def move_ties(text: str, *, other: bool) -> str:
    """The text of a module with each float that is rounded to an integer a little larger or smaller, element by element.

    Args:
        text: Of the module.
        other: Whether those are larger that are smaller otherwise.
    """
    return rewrite(text, _TIE, partial(_tie_moved, other=other))


def _nudged(match: re.Match[str], number: int, draw: int) -> Iterator[str]:
    exact = f"%nudged_{number}"
    yield match[0].replace(match["name"], exact, 1)
    yield from _times(match, number, draw, exact, match["name"], (_UP, _DOWN))


def _tie_moved(match: re.Match[str], number: int, other: bool) -> Iterator[str]:
    moved, beside = f"%nudged_{number}", (_BELOW, _ABOVE) if other else (_ABOVE, _BELOW)
    yield from _times(match, number, 0, match["operand"], moved, beside)
    yield f"\n{match['indent']}{match['name']} = {match['op']} {moved} : {match['type']}"


def _times(
    match: re.Match[str], number: int, draw: int, value: str, result: str, beside: tuple[str, str]
) -> Iterator[str]:
    """Lines that multiply each element of a value of the matched type by one of two numbers."""
    kind, count = match["type"], prod(int(n) for n in match["extents"].split("x")[:-1])
    flat, bits = f"tensor<{count}xf32>", f"tensor<{count}xi1>"
    place, step, phase, is_up, up, down, chosen, factor = (
        f"%nudged_{number}_{part}" for part in range(8)
    )
    # The sine of large steps changes its sign without a pattern that a model could have.
    stride = 1.0 + 0.61803399 * (1 + draw) + 0.0137 * number
    for line in (
        f"{place} = stablehlo.iota dim = 0 : {flat}",
        f"{step} = stablehlo.constant dense<{stride:.8e}> : {flat}",
        f"{phase} = stablehlo.multiply {place}, {step} : {flat}",
        f"{phase}s = stablehlo.sine {phase} : {flat}",
        f"{is_up}z = stablehlo.constant dense<0.0> : {flat}",
        f"{is_up} = stablehlo.compare GE, {phase}s, {is_up}z : ({flat}, {flat}) -> {bits}",
        f"{up} = stablehlo.constant dense<{beside[0]}> : {flat}",
        f"{down} = stablehlo.constant dense<{beside[1]}> : {flat}",
        f"{chosen} = stablehlo.select {is_up}, {up}, {down} : {bits}, {flat}",
        f"{factor} = stablehlo.reshape {chosen} : ({flat}) -> {kind}",
        f"{result} = stablehlo.multiply {value}, {factor} : {kind}",
    ):
        yield f"\n{match['indent']}{line}"
