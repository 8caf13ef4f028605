"""The outputs of a graph that can be computed in float64, and why others cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...freeze.frozen import FrozenGraph
from ...graphs.graph_tensors import prune
from ...graphs.graphs import Graph
from .double import require_exact
from .missing import NoTruthError


def exact_part(frozen: FrozenGraph) -> tuple[FrozenGraph, Mapping[str, str]]:
    """The part of a graph that float64 does not change, and the reasons for the outputs that it lacks, by name.

    Raises:
        NoTruthError: No output is left. With state all depend on each other.
    """
    inexact = _inexact_nodes(frozen)
    if not inexact:
        return frozen, {}
    graph, reasons = Graph(frozen.graph_def), dict[str, str]()
    for name, node in frozen.fetches.items():
        reached = graph.reach([node], control=True)
        met = [why for place, why in inexact.items() if place[1] in reached.get(place[0], ())]
        if met:
            reasons[name] = met[0]
    if frozen.state or len(reasons) == len(frozen.fetches):
        raise NoTruthError(next(iter(inexact.values())))
    fetches = {name: node for name, node in frozen.fetches.items() if name not in reasons}
    graph_def = prune(frozen.graph_def, fetches.values())
    left = {node.name for node in graph_def.node}
    feeds = {name: node for name, node in frozen.feeds.items() if node in left}
    return replace(frozen, graph_def=graph_def, feeds=feeds, fetches=fetches), reasons


def _inexact_nodes(frozen: FrozenGraph) -> dict[tuple[str, str], str]:
    """Why nodes have no form in float64, by function and name."""

    def find() -> Iterator[tuple[tuple[str, str], str]]:
        for function, nodes in Graph(frozen.graph_def).nodes.items():
            for name, node in nodes.items():
                try:
                    require_exact(node)
                except NoTruthError as error:
                    yield (function, name), str(error)

    return dict(find())
