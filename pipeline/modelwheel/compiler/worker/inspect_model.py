"""The job `inspect`: reads what a SavedModel holds, without loading or running it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..check import changes_state
from ..inspection import INSPECTION, Inspection, OpUse, SignatureUse, Support
from ..jobs import InspectJob
from .graphs import Graph, layer_name
from .kernels import support_of
from .saved_model import INIT_SIGNATURE, read_meta_graph, read_signatures

_NAMES_KEPT = 8
_Kind = tuple[str, Support, str]
_TRIVIAL = frozenset(
    {
        *("Const", "Identity", "NoOp", "Placeholder", "VarHandleOp"),
        *("PartitionedCall", "StatefulPartitionedCall"),
    }
)


def run(job: InspectJob) -> None:
    """Writes the inspection."""
    meta_graph = read_meta_graph(job.inputs.saved_model)
    graph = Graph(meta_graph.graph_def)
    signatures = read_signatures(meta_graph)
    needed = {s.key: _needed_nodes(graph, meta_graph.signature_def[s.key]) for s in signatures}
    Inspection(
        written_by=meta_graph.meta_info_def.tensorflow_version,
        tags=tuple(meta_graph.meta_info_def.tags),
        signatures=signatures,
        ops=tuple(_tabulate(graph, needed)),
        assets=tuple(sorted(asset.filename for asset in meta_graph.asset_file_def)),
        initializers=tuple(_initializers(graph, meta_graph)),
    ).save(job.out / INSPECTION)


@dataclass
class _Uses:
    """Where one kind of operation is used, in some part of the model."""

    count: int = 0
    layers: dict[str, None] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)

    def add(self, function: str, node: str) -> None:
        self.count += 1
        for names, name in ((self.layers, layer_name(node)), (self.functions, function)):
            if len(names) < _NAMES_KEPT:
                names[name] = None


def _tabulate(graph: Graph, needed: Mapping[str, dict[str, set[str]]]) -> Iterator[OpUse]:
    everywhere: dict[_Kind, _Uses] = defaultdict(_Uses)
    by_signature: dict[_Kind, dict[str, _Uses]] = defaultdict(lambda: defaultdict(_Uses))
    for function, nodes in graph.nodes.items():
        for name, node in nodes.items():
            if node.op in graph.functions:
                continue
            kind = (node.op, *support_of(node))
            everywhere[kind].add(function, name)
            for key, reached in needed.items():
                if name in reached.get(function, ()):
                    by_signature[kind][key].add(function, name)
    for (op, support, dtypes), uses in sorted(everywhere.items()):
        yield OpUse(
            op=op,
            dtypes=dtypes,
            support=support,
            count=uses.count,
            functions=tuple(uses.functions),
            layers=tuple(uses.layers),
            signatures={
                key: SignatureUse(count=use.count, layers=tuple(use.layers))
                for key, use in sorted(by_signature[op, support, dtypes].items())
            },
        )


def _needed_nodes(graph: Graph, definition: Any) -> dict[str, set[str]]:
    """The nodes that a signature's outputs depend on, and those that run with them and change state."""
    tensors = list(_tensor_names(definition.outputs.values()))
    # Freezing drops what only control edges reach, such as assertions: XLA need not support it.
    # Changes of state count all the same: they are refused, not silently dropped.
    needed = graph.reach(tensors, control=False)
    for function, names in graph.reach(tensors, control=True).items():
        changing = {name for name in names if changes_state(graph.nodes[function][name].op)}
        needed.setdefault(function, set()).update(changing)
    return needed


def _tensor_names(infos: Iterable[Any]) -> Iterator[str]:
    for info in infos:
        if info.name:
            yield info.name
        # Sparse and composite tensors have no name of their own, only their parts do.
        sparse = info.coo_sparse
        names = (sparse.values_tensor_name, sparse.indices_tensor_name)
        yield from (name for name in (*names, sparse.dense_shape_tensor_name) if name)
        yield from _tensor_names(info.composite_tensor.components)


def _initializers(graph: Graph, meta_graph: Any) -> list[str]:
    """Operations that run on loading, except constants and calls."""
    # A protobuf map adds an empty entry for a missing key. The collections are TensorFlow 1's.
    nodes = list(_tensor_names(meta_graph.signature_def[INIT_SIGNATURE].outputs.values()))
    for collection in ("saved_model_main_op", "legacy_init_op"):
        nodes += meta_graph.collection_def[collection].node_list.value
    reached = graph.reach(nodes, control=True)
    ops = {graph.nodes[function][name].op for function, names in reached.items() for name in names}
    return sorted(ops - _TRIVIAL)
