"""Reads and changes the text of the StableHLO modules in a frozen graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...graphs.graphs import bodies, nodes_of
from ...stablehlo.judge_module import MODULE_OP
from ...stablehlo.xla_module import Module, embedded_module


def with_texts(graph_def: Any, change: Callable[[str], str]) -> Any:
    """A copy of a graph whose modules have other texts.

    Args:
        graph_def: It is left as it is.
        change: Returns the new text of a module.
    """
    copy = type(graph_def)()
    copy.CopyFrom(graph_def)
    for body in bodies(copy):
        for node in nodes_of(body):
            if node.op == MODULE_OP:
                module = embedded_module(node.attr["module"].s)
                text = change(module.text)
                if text != module.text:
                    node.attr["module"].s = Module(text, module.functions).bytecode
    return copy


def texts_of(graph_def: Any) -> Iterator[str]:
    """The texts of the modules of a graph."""
    for body in bodies(graph_def):
        for node in nodes_of(body):
            if node.op == MODULE_OP:
                yield embedded_module(node.attr["module"].s).text


def rewrite(
    text: str, operation: re.Pattern[str], write: Callable[[re.Match[str], int], Iterable[str]]
) -> str:
    """The text with other pieces in place of what matches.

    Args:
        text: Of a module.
        operation: Matches.
        write: Returns the pieces for a match, which has this number.
    """
    pieces, end = list[str](), 0
    for number, match in enumerate(operation.finditer(text)):
        pieces += [text[end : match.start()], *write(match, number)]
        end = match.end()
    return "".join((*pieces, text[end:]))
