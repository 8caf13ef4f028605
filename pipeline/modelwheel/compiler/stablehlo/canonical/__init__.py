"""Brings the text of a StableHLO module into one form, for any exporter, before XLA compiles it.

A rule is a pure function from an operation to what takes its place, or None. Rules run in the order of `RULES`, each until it does
not match, and all again until none does.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from ..block_graph import BlockGraph, all_ops, graphs_of
from ..mlir_text import Function, Op, read_functions
from ..module_names import without_names
from .activation_forms import rewrite_activation
from .draft import PLACE, Replacement
from .kept_bytes import keep_bytes
from .repeated_operands import fold_repeated_operand
from .scaled_layers import fold_after_layer, fold_before_layer
from .softmax_axes import put_softmax_last

Rule = Callable[[BlockGraph, Op, Collection[str]], Replacement | None]
"""Given the names of arguments that are constants."""

RULES: tuple[Rule, ...] = (
    fold_repeated_operand,  # first: what repeats weights hides them from the others
    put_softmax_last,
    rewrite_activation,  # its own factors and summands are none of a layer's
    fold_after_layer,  # before the next one: what is between two layers goes into the first one
    fold_before_layer,
    keep_bytes,
)

MAIN = "main"
_MOST_ROUNDS = 16
_PLACE = re.compile(rf"%[\w$.-]+?{re.escape(PLACE)}\d+")
_UNREAD = frozenset(
    f"stablehlo.{name}"
    for name in (
        *(
            "abs",
            "add",
            "broadcast_in_dim",
            "clamp",
            "compare",
            "constant",
            "convert",
            "convolution",
        ),
        *("divide", "dot_general", "exponential", "logistic", "maximum", "minimum", "multiply"),
        *("negate", "power", "reduce", "reshape", "select", "subtract", "tanh", "transpose"),
    )
) | {"chlo.erf", "chlo.erfc"}
"""Operations that are removed if nothing reads their results: rules count readers."""


def canonical_form(text: str, constants: Collection[int] = ()) -> str:
    """The text of a module in which no rule matches; the same text if none does.

    Args:
        text: As MLIR prints it, perhaps with names of layers.
        constants: The numbers of those arguments of `main` that are constants.
    """
    fresh = itertools.count()
    for _ in range(_MOST_ROUNDS):
        before = text
        for rule in RULES:
            text = _apply(rule, text, constants, fresh)
        if text == before:
            return text
    return text


def _apply(rule: Rule, text: str, constants: Collection[int], fresh: Iterator[int]) -> str:
    """The text in which a rule has been applied until it does not match."""
    for _ in range(_MOST_ROUNDS):
        replacements = dict(_matches(rule, read_functions(without_names(text)), constants))
        if not replacements:
            return text
        lines = text.split("\n")
        for number, replacement in replacements.items():
            lines[number] = _written(lines[number], replacement)
        text = _without_unread(_with_names(lines, fresh))
    return text


def _matches(
    rule: Rule, functions: Mapping[str, Function], constants: Collection[int]
) -> Iterator[tuple[int, Replacement]]:
    """The replacements of lines, by their numbers."""
    for name, function in functions.items():
        arguments = function.body.arguments
        constant_arguments = (
            {arguments[number] for number in constants} if name == MAIN else set[str]()
        )
        for graph in graphs_of(function):
            known = constant_arguments if graph.block is function.body else set[str]()
            for op in graph.block.ops:
                replacement = rule(graph, op, known)
                if replacement is not None:
                    yield op.line, replacement


def _written(line: str, replacement: Replacement) -> str:
    """Lines with the indentation of that which they replace, and its name of a layer."""
    plain = without_names(line)
    indent = plain[: len(plain) - len(plain.lstrip())]
    return "\n".join(f"{indent}{text}{line[len(plain) :]}" for text in replacement.lines)


def _with_names(lines: Collection[str], fresh: Iterator[int]) -> str:
    """A text whose new values have names that MLIR reads."""
    names: dict[str, str] = {}

    def name(match: re.Match[str]) -> str:
        if match[0] not in names:
            names[match[0]] = f"%canonical_{next(fresh)}"
        return names[match[0]]

    return _PLACE.sub(name, "\n".join(lines))


def _without_unread(text: str) -> str:
    """A text without operations whose results nothing reads."""
    lines: list[str | None] = list(text.split("\n"))
    for function in read_functions(without_names(text)).values():
        ops = list(all_ops(function.body))
        reads = Counter(name for op in ops for name, _ in op.operands)
        for op in reversed(ops):
            if op.regions or op.name not in _UNREAD:
                continue
            if not any(reads[name] for name, _ in op.results):
                lines[op.line] = None
                reads.subtract(name for name, _ in op.operands)
    return "\n".join(line for line in lines if line is not None)
