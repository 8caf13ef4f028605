"""Passes over graphs, for their tests."""

from __future__ import annotations

from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.ir.graph_check import check
from modelwheel.compiler.ir.graph_text import graph_text
from modelwheel.compiler.passes import Pass


def lines_after(one: Pass, graph: Graph, *, rewrites: int) -> list[str]:
    """The nodes after a pass, as lines of text; checks the graph, and that there is memory for it.

    Args:
        one: The pass.
        graph: What it changes.
        rewrites: How many it reports.
    """
    assert one.run(graph) == rewrites
    check(graph)
    assign(graph)
    others = (" = parameter ", " = constant ", " = undefined", "return ")
    lines = graph_text(graph).splitlines()
    return [line for line in lines if not any(word in line for word in others)]
