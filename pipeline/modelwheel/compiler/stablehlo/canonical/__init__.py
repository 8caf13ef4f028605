"""Brings the text of a StableHLO module into one form, for any exporter, before XLA compiles it.

A rule is a pure function from an operation to what takes its place, or None. Rules run in the order of `RULES`, each until it does
not match, and all again until none does.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cached_property

from ..block_graph import BlockGraph, all_ops, graphs_of
from ..mlir_text import Op, read_functions
from ..module_names import without_names
from .activation_forms import rewrite_activation
from .draft import PLACE, Replacement
from .kept_bytes import keep_bytes
from .products_of_slices import join_products_of_slices
from .repeated_operands import fold_repeated_operand
from .scaled_layers import fold_after_layer, fold_before_layer
from .softmax_axes import put_softmax_last

Rule = Callable[[BlockGraph, Op, Collection[str]], Replacement | None]
"""Given the names of arguments that are constants."""

RULES: tuple[Rule, ...] = (
    fold_repeated_operand,  # first: what repeats weights hides them from the others
    join_products_of_slices,
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
        *(
            "negate",
            "power",
            "reduce",
            "reshape",
            "select",
            "slice",
            "subtract",
            "tanh",
            "transpose",
        ),
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
    form = _Form(text, constants)
    for _ in range(_MOST_ROUNDS):
        before = form
        for rule in RULES:
            form = _apply(rule, form, fresh)
        if form.text == before.text:
            break
    return form.text


class _Form:
    """A text, and its blocks as graphs, which are read once for all rules that change nothing."""

    def __init__(self, text: str, constants: Collection[int]) -> None:
        self.text = text
        self.constants = constants

    @cached_property
    def graphs(self) -> list[tuple[BlockGraph, Collection[str]]]:
        """Each with the names of its arguments that are constants."""
        graphs: list[tuple[BlockGraph, Collection[str]]] = []
        for name, function in read_functions(without_names(self.text)).items():
            arguments = function.body.arguments
            known = {arguments[number] for number in self.constants} if name == MAIN else set[str]()
            graphs += [
                (graph, known if graph.block is function.body else set[str]())
                for graph in graphs_of(function)
            ]
        return graphs

    def matches(self, rule: Rule) -> Iterator[tuple[int, Replacement]]:
        """The replacements of lines, by their numbers."""
        for graph, known in self.graphs:
            for op in graph.block.ops:
                replacement = rule(graph, op, known)
                if replacement is not None:
                    yield op.line, replacement


def _apply(rule: Rule, form: _Form, fresh: Iterator[int]) -> _Form:
    """The form in which a rule has been applied until it does not match."""
    for _ in range(_MOST_ROUNDS):
        replacements = dict(form.matches(rule))
        if not replacements:
            return form
        lines = form.text.split("\n")
        for number, replacement in replacements.items():
            lines[number] = _written(lines[number], replacement)
        form = _Form(_without_unread(_with_names(lines, fresh)), form.constants)
    return form


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
