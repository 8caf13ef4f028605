"""Describes what a SavedModel message holds, without loading or running it."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tensorflow.core.protobuf import saved_model_pb2

from ...model.effects import Effect
from ...model.inspection import (
    Cost,
    Inspection,
    LargeTensor,
    OpUse,
    Shape,
    SignatureInfo,
    SignatureUse,
    Support,
    Training,
)
from ..graphs.bodies import Library, Reach
from ..graphs.data_flow import Flow, Place
from ..graphs.graph_tensors import set_shape
from ..graphs.graphs import Graph, layer_name, node_name
from ..graphs.kernels import support_of
from ..graphs.marks import mark_of
from ..graphs.op_effects import effect_of, may_be_folded
from ..stablehlo.judge_module import MODULE_OP, composites_of, cost_of, kinds_of
from ..tensors.demands import Demands
from ..tensors.found import Found, largest_stored
from ..tensors.valid import tables_of, valid_values
from .meta_graph import read_signatures, select_graph
from .roots import has_objects, loading_roots, restores_checkpoint, signature_roots, tensor_names
from .sizes import Sizes
from .training import find_training

_NAMES_KEPT = 8
_NODES_NAMED = 64
_FOLDED: frozenset[Effect] = frozenset({"files", "network", "python", "process", "custom"})
_Kind = tuple[str, Support, str, Effect]


def inspect_message(
    saved_model: Any,
    variables: Iterable[LargeTensor],
    tags: Sequence[str] = (),
    declared: Collection[str] = (),
) -> Inspection:
    """Finds what a SavedModel message holds.

    Args:
        saved_model: The message.
        variables: Those of its index.
        tags: Of the graph.
        declared: Nodes of the graph that are variables which users of the model read.
    """
    # Nothing here makes cycles, and looking for them would double the time of a large model.
    gc.disable()
    try:
        return _inspect(saved_model, select_graph(saved_model, tags), variables, declared)
    finally:
        gc.enable()


class GraphPort(NamedTuple):
    """An input or output of a graph without signatures."""

    name: str
    tensor: str
    """Of the graph: `dense/BiasAdd:0`."""
    dtype: int
    """The number of its type in TensorFlow's DataType."""
    shape: Shape | None


def inspect_graph(
    graph_def: Any,
    key: str,
    inputs: Iterable[GraphPort],
    outputs: Iterable[GraphPort],
    variables: Iterable[LargeTensor] = (),
    declared: Collection[str] = (),
) -> Inspection:
    """Finds what a graph without signatures holds, as that of a SavedModel with one.

    Args:
        graph_def: The graph.
        key: The signature that it gets.
        inputs: What callers give.
        outputs: What callers read.
        variables: See `inspect_message`.
        declared: Likewise.
    """
    saved_model = saved_model_pb2.SavedModel(saved_model_schema_version=1)
    meta_graph = saved_model.meta_graphs.add()
    meta_graph.meta_info_def.tags.append("serve")
    meta_graph.graph_def.CopyFrom(graph_def)
    signature = meta_graph.signature_def[key]
    for ports, infos in ((inputs, signature.inputs), (outputs, signature.outputs)):
        for port in ports:
            infos[port.name].name, infos[port.name].dtype = port.tensor, port.dtype
            set_shape(infos[port.name].tensor_shape, port.shape)
    return inspect_message(saved_model, variables, declared=declared)


@dataclass(frozen=True)
class _Writes:
    """The variables that a signature writes."""

    unread: frozenset[Place] = frozenset()
    """Writes that no output depends on."""
    training: Training | None = None


def _writes(
    meta_graph: Any, library: Library, key: str, reach: Reach, declared: Collection[str]
) -> _Writes:
    running = {
        function: [library.bodies[function].names[number] for number in numbers]
        for function, numbers in reach.runs.items()
    }
    ops = {library.bodies[f].ops[number] for f, numbers in reach.runs.items() for number in numbers}
    if not any(effect_of(op) == "variable" for op in ops - library.definitions.keys()):
        return _Writes()
    outputs = list(tensor_names(meta_graph.signature_def[key].outputs.values()))
    try:
        flow = Flow(Graph(meta_graph.graph_def))
        writes = flow.writes(running)
        unread = flow.unread(outputs, writes, declared)
        training = find_training(flow, outputs, writes, unread)
    except (LookupError, ValueError):  # a damaged graph: every write counts
        return _Writes()
    return _Writes(frozenset(write.place for write in unread), training)


def _inspect(
    saved_model: Any,
    meta_graph: Any,
    variables: Iterable[LargeTensor],
    declared: Collection[str],
) -> Inspection:
    objects = has_objects(saved_model, meta_graph)
    library = Library(meta_graph.graph_def)
    signatures = read_signatures(meta_graph)
    loading = library.reach(loading_roots(meta_graph, objects=objects))
    reached = {
        s.key: library.reach(signature_roots(meta_graph, s.key, objects=objects))
        for s in signatures
    }
    feeds = {key: _feeds(meta_graph.signature_def[key]) for key in reached}
    writes = {
        s.key: _writes(meta_graph, library, s.key, reached[s.key], declared) for s in signatures
    }
    sizes = Sizes(library, (node for names in feeds.values() for node in names.values()))
    findings = {key: _found(library, sizes, reach) for key, reach in reached.items()}
    return Inspection(
        written_by=meta_graph.meta_info_def.tensorflow_version,
        tags=tuple(meta_graph.meta_info_def.tags),
        signatures=tuple(
            _with_valid_values(s, feeds[s.key], findings[s.key].demands) for s in signatures
        ),
        ops=tuple(_tabulate(_Model(meta_graph, library), reached, loading, writes)),
        assets=tuple(sorted(asset.filename for asset in meta_graph.asset_file_def)),
        graph_bytes=saved_model.ByteSize(),
        nodes=sum(len(body.nodes) for body in library.bodies.values()),
        functions=len(library.definitions),
        marked={key: _marks(library, reach) for key, reach in reached.items()},
        composites={
            key: names for key, reach in reached.items() if (names := _composites(library, reach))
        },
        training={key: write.training for key, write in writes.items() if write.training},
        costs={key: _cost(library, reach, findings[key]) for key, reach in reached.items()},
        loading=_cost(library, loading, _found(library, sizes, loading)),
        largest=largest_stored(library, variables),
    )


def _feeds(definition: Any) -> dict[str, str]:
    """The node that is fed, for each input of a signature."""
    return {name: node_name(info.name) for name, info in definition.inputs.items()}


def _marks(library: Library, reach: Reach) -> dict[str, int]:
    """How many of the functions that a signature runs have a mark of each name."""
    names = (mark_of(library.definitions[name]).name for name in reach.values if name)
    return dict(sorted(Counter(filter(None, names)).items()))


def _composites(library: Library, reach: Reach) -> dict[str, int]:
    """How many composites of each name are in the modules that a signature runs."""
    counts: Counter[str] = Counter()
    for function, numbers in reach.runs.items():
        body = library.bodies[function]
        for number in numbers:
            if body.ops[number] == MODULE_OP:
                counts.update(composites_of(body.nodes[number]))
    return dict(sorted(counts.items()))


def _with_valid_values(
    signature: SignatureInfo, feeds: Mapping[str, str], demands: Demands
) -> SignatureInfo:
    inputs = tuple(
        tensor.model_copy(update={"valid": valid_values(tensor, feeds[tensor.name], demands)})
        for tensor in signature.inputs
    )
    tables = tables_of(feeds, demands)
    return signature.model_copy(update={"inputs": inputs, "tables": tables})


def _found(library: Library, sizes: Sizes, reach: Reach) -> Found:
    return sizes.of(reach, library.inlined(reach)[1])


def _cost(library: Library, reach: Reach, findings: Found) -> Cost:
    nodes, depth, deepest = library.inlined(reach)
    for function, numbers in reach.runs.items():
        body = library.bodies[function]
        for number in numbers:
            if body.ops[number] == MODULE_OP:
                module = cost_of(body.nodes[number])
                nodes = min(nodes + module.nodes, 10**18)
                if module.depth > depth:
                    depth, deepest = module.depth, module.deepest
    return Cost(
        nodes=nodes,
        depth=depth,
        deepest=deepest,
        largest=findings.largest,
        loops=findings.long_loops,
        constants=tuple(findings.constants.values()),
    )


@dataclass
class _Uses:
    """Where one kind of operation is used, in some part of the model."""

    count: int = 0
    layers: dict[str, None] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)

    def add(self, function: str, node: str) -> None:
        self.count += 1
        if self.count > _NODES_NAMED:  # naming the layers of 100 000 nodes takes a second
            return
        for names, name in ((self.layers, layer_name(node)), (self.functions, function)):
            if len(names) < _NAMES_KEPT:
                names[name] = None

    def describe(self) -> SignatureUse:
        return SignatureUse(count=self.count, layers=tuple(self.layers))


@dataclass
class _Kinds:
    """All uses of one kind of operation."""

    everywhere: _Uses = field(default_factory=_Uses)
    values: dict[str, _Uses] = field(default_factory=lambda: defaultdict(_Uses))
    beside: dict[str, _Uses] = field(default_factory=lambda: defaultdict(_Uses))
    loading: _Uses = field(default_factory=_Uses)
    unread: dict[str, _Uses] = field(default_factory=lambda: defaultdict(_Uses))


@dataclass(frozen=True)
class _Model:
    meta_graph: Any
    library: Library


def _tabulate(
    model: _Model, reached: Mapping[str, Reach], loading: Reach, writes: Mapping[str, _Writes]
) -> Iterator[OpUse]:
    kinds: dict[_Kind, _Kinds] = defaultdict(_Kinds)
    for function in model.library.bodies:
        _tabulate_body(model, function, reached, loading, writes, kinds)
    for (op, support, dtypes, effect), uses in sorted(kinds.items()):
        yield OpUse(
            op=op,
            dtypes=dtypes,
            support=support,
            effect=effect,
            folded=effect in _FOLDED and may_be_folded(op),
            count=uses.everywhere.count,
            functions=tuple(uses.everywhere.functions),
            layers=tuple(uses.everywhere.layers),
            signatures={key: use.describe() for key, use in sorted(uses.values.items())},
            beside={key: use.describe() for key, use in sorted(uses.beside.items())},
            loading=uses.loading.describe() if uses.loading.count else None,
            unread={key: use.describe() for key, use in sorted(uses.unread.items())},
        )


def _tabulate_body(
    model: _Model,
    function: str,
    reached: Mapping[str, Reach],
    loading: Reach,
    writes: Mapping[str, _Writes],
    kinds: dict[_Kind, _Kinds],
) -> None:
    body, none = model.library.bodies[function], frozenset[int]()
    runs = [
        (key, reach.values.get(function, none), reach.runs[function])
        for key, reach in reached.items()
        if function in reach.runs
    ]
    loaded = loading.runs.get(function, none)
    for number, node in enumerate(body.nodes):
        if node.op in model.library.definitions:
            continue
        name = body.names[number]
        restores = node.op == "RestoreV2" and restores_checkpoint(
            model.meta_graph, model.library, function, number
        )
        for kind in _kinds_of_node(node):
            uses = kinds[kind]
            uses.everywhere.add(function, name)
            for key, values, everything in runs:
                if number in values:
                    uses.values[key].add(function, name)
                elif number in everything and (function, name) in writes[key].unread:
                    uses.unread[key].add(function, name)
                elif number in everything:
                    uses.beside[key].add(function, name)
            if number in loaded and not restores:
                uses.loading.add(function, name)


def _kinds_of_node(node: Any) -> Iterator[_Kind]:
    """Its own kind, and those of the operations in a StableHLO module that it holds."""
    support, dtypes = support_of(node)
    yield node.op, support, dtypes, effect_of(node.op)
    if node.op == MODULE_OP:
        for label, kind in kinds_of(node).items():
            yield label, kind.support, "", kind.effect
