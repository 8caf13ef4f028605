"""Evaluates a converted graph under both rules for the maximum of NaN and a number, which are all that there are.

ONNX says neither, and one compiler does both. Where a spectrum has NaN, of an infinite sample, the largest value of
all is NaN or that of the rest, and so is everything that is measured by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from ...freeze.frozen import FrozenGraph
from ...graphs.graphs import bodies, nodes_of
from ...loaded.base import Arrays
from ...stablehlo.judge_module import MODULE_OP
from ...stablehlo.xla_module import embedded_module
from .evaluate import run_calls
from .module_texts import rewrite, with_texts

_VALUE = r"%[\w$.#-]+"
_NAMED = rf"^(?P<indent> *)(?P<name>{_VALUE}) = stablehlo\."
_TYPE = r"tensor<(?P<shape>(?:\d+x)*)(?P<element>f\d+)>"
_REDUCTION = (
    rf"reduce\((?P<values>{_VALUE}) init: (?P<initial>{_VALUE})\) applies stablehlo\.(?:maximum|minimum) "
    rf"across dimensions = (?P<axes>\[[\d, ]*\]) : \({_TYPE}, tensor<f\d+>\) -> tensor<(?P<result>(?:\d+x)*)f\d+>$"
)
_REDUCTIONS = re.compile(_NAMED + _REDUCTION, re.MULTILINE)
_PAIRS = re.compile(
    rf"{_NAMED}(?:maximum|minimum) (?P<left>{_VALUE}), (?P<right>{_VALUE}) : {_TYPE}$", re.MULTILINE
)


def has_reductions(frozen: FrozenGraph) -> bool:
    """Whether modules of a graph look for largest or smallest values, which may be those of whole inputs."""
    return any(
        _REDUCTIONS.search(embedded_module(node.attr["module"].s).text) is not None
        for body in bodies(frozen.graph_def)
        for node in nodes_of(body)
        if node.op == MODULE_OP
    )


_CHOOSING = {
    "Max": 1,
    "MaxPool": 1,
    "MaxPool3D": 1,
    "Maximum": 2,
    "Min": 1,
    "Minimum": 2,
    "Relu": 1,
    "Relu6": 1,
}
"""Operations of TensorFlow of whose NaN the same is true, and how many operands they have. TensorFlow Lite leaves it out."""


def meets_nan(frozen: FrozenGraph, inputs: Arrays) -> bool:
    """Whether a graph takes the largest or smallest of NaN and numbers, in operations of TensorFlow.

    Args:
        frozen: The graph, without state.
        inputs: Of one call.

    Raises:
        NoTruthError: The graph cannot be evaluated.
    """
    operands = {
        operand
        for node in frozen.graph_def.node
        for operand in node.input[: _CHOOSING.get(node.op, 0)]
        if ":" not in operand  # the first result of a node
    }
    if not operands or frozen.state:
        return False
    asked = replace(frozen, fetches={operand: operand for operand in sorted(operands)})
    (values,) = run_calls(frozen.graph_def, asked, [inputs])
    return any(array.dtype.kind == "f" and np.isnan(array).any() for array in values.values())


def run_under_rules(frozen: FrozenGraph, calls: Sequence[Arrays]) -> list[list[Arrays]]:
    """The outputs of each call if NaN is the largest of all values, and if it is none of them.

    Args:
        frozen: The graph.
        calls: Inputs of calls in a row, if the graph has state; otherwise of any calls.

    Raises:
        NoTruthError: The graph cannot be evaluated.
    """
    graphs = (
        with_texts(frozen.graph_def, partial(write_rule, keeps=keeps)) for keeps in (True, False)
    )
    rules = [run_calls(graph, frozen, calls) for graph in graphs]
    return [list(results) for results in zip(*rules, strict=True)]


def write_rule(text: str, *, keeps: bool) -> str:
    """The text of a module that says what becomes of NaN in a maximum or minimum.

    Args:
        text: It.
        keeps: Whether NaN is the result; otherwise it counts for nothing.
    """
    for_all, for_two = (_kept, _kept_of_two) if keeps else (_left_out, _left_out_of_two)
    text = rewrite(text, _REDUCTIONS, partial(_indented, name="all", write=for_all))
    return rewrite(text, _PAIRS, partial(_indented, name="two", write=for_two))


_Lines: TypeAlias = Callable[[re.Match[str], str], Iterator[str]]


def _indented(match: re.Match[str], number: int, name: str, write: _Lines) -> Iterator[str]:
    lines = write(match, f"%{name}_{number}_")
    yield "\n".join(match["indent"] + line for line in lines)


def _kind(match: re.Match[str]) -> str:
    return f"tensor<{match['shape']}{match['element']}>"


def _choose(match: re.Match[str], name: str, of: str, then: str, otherwise: str) -> Iterator[str]:
    """The lines of `name`, which is `then` where `of` is NaN."""
    kind, truths = _kind(match), f"tensor<{match['shape']}i1>"
    missing = f"%nan_for_{name.removeprefix('%')}"
    yield f"{missing} = stablehlo.compare NE, {of}, {of} : ({kind}, {kind}) -> {truths}"
    yield f"{name} = stablehlo.select {missing}, {then}, {otherwise} : {truths}, {kind}"


def _kept_of_two(match: re.Match[str], new: str) -> Iterator[str]:
    return _of_two(match, new, match["left"], match["right"])


def _left_out_of_two(match: re.Match[str], new: str) -> Iterator[str]:
    return _of_two(match, new, match["right"], match["left"])


def _of_two(match: re.Match[str], new: str, for_left: str, for_right: str) -> Iterator[str]:
    """With what is the result where the left or the right one is NaN."""
    yield match[0].strip().replace(match["name"], f"{new}usual", 1)
    yield from _choose(match, f"{new}right", match["right"], for_right, f"{new}usual")
    yield from _choose(match, match["name"], match["left"], for_left, f"{new}right")


def _kept(match: re.Match[str], new: str) -> Iterator[str]:
    """The sum of what is NaN or 0 is NaN where any is."""
    kind, result = _kind(match), f"tensor<{match['result']}{match['element']}>"
    zero = f"tensor<{match['element']}>"
    yield f"{new}zero = stablehlo.constant dense<0.0> : {zero}"
    yield f"{new}zeros = stablehlo.broadcast_in_dim {new}zero, dims = [] : ({zero}) -> {kind}"
    yield from _choose(match, f"{new}missing", match["values"], match["values"], f"{new}zeros")
    yield (
        f"{new}some = stablehlo.reduce({new}missing init: {new}zero) applies stablehlo.add across dimensions = "
        f"{match['axes']} : ({kind}, {zero}) -> {result}"
    )
    yield match[0].strip().replace(match["name"], f"{new}usual", 1)
    yield f"{match['name']} = stablehlo.add {new}usual, {new}some : {result}"


def _left_out(match: re.Match[str], new: str) -> Iterator[str]:
    kind = _kind(match)
    yield (
        f"{new}least = stablehlo.broadcast_in_dim {match['initial']}, dims = [] : (tensor<{match['element']}>) -> {kind}"
    )
    yield from _choose(match, f"{new}values", match["values"], f"{new}least", match["values"])
    yield match[0].strip().replace(f"({match['values']} init", f"({new}values init", 1)
