"""Replaces calls of marked functions, and patterns, in a graph by what is registered for them."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ...errors import EnvironmentProblemError, UnsupportedModelError
from ...model.fusions.interface import (
    Place,
    Tensor,
    check_arguments,
    check_results,
    mismatch,
    read_attributes,
)
from ...model.fusions.patterns import captures
from ...model.fusions.registry import (
    LAYERS,
    ON_REQUEST,
    AttributeValue,
    Fusion,
    Provider,
    Replaced,
    is_pattern,
)
from ...util.text import one_line
from ..graphs.body_graphs import as_graph, body_graphs, tensors_of
from ..graphs.graphs import GRAPH, call_function, layer_name, rename_tensor
from ..graphs.inlining import called_by, flat_tensors
from ..graphs.marks import mark_of
from ..stablehlo.judge_module import MODULE_OP
from .matching import Found, GraphView, find_patterns
from .module_fusions import replace_in_module


def replace(
    graph_def: Any, providers: Sequence[Provider], fetches: Collection[str]
) -> tuple[Replaced, ...]:
    """Replaces calls and patterns in a graph and all its functions, in place.

    Args:
        graph_def: The graph; the shapes of its placeholders are fixed.
        providers: Who implements what.
        fetches: Nodes of the graph whose values are wanted.

    Returns:
        What was replaced, sorted by name.

    Raises:
        EnvironmentProblemError: An implementation cannot be loaded.
        UnsupportedModelError: A call does not have the interface that its mark stands for, or something that was asked for is nowhere.
    """
    by_name = {provider.name: provider for provider in providers}
    functions = {function.signature.name: function for function in graph_def.library.function}
    if not by_name:
        return ()
    marked = {name for name, function in functions.items() if mark_of(function).name in by_name}
    fusions = {name: load_fusion(provider) for name, provider in by_name.items()}
    graphs = body_graphs(graph_def, functions, marked)
    calls = list(_calls(graph_def, functions, graphs, marked))
    matches = list(_patterns(graphs, fusions, fetches))
    replacing = _Replacing(graph_def, functions, fusions, graphs)
    counts: Counter[str] = Counter()
    for node, tensors in _modules(graph_def, functions, graphs):
        counts += replace_in_module(node, tensors, fusions, replacing.make)
    for node, arguments in calls:
        counts[replacing.replace_call(node, arguments)] += 1
    for body, match in matches:
        replacing.replace_pattern(body, match)
        counts[match.name] += 1
    _require_applied(by_name, counts)
    return tuple(
        Replaced(name=name, provider=str(by_name[name]), calls=calls)
        for name, calls in sorted(counts.items())
    )


def _require_applied(names: Iterable[str], counts: Mapping[str, int]) -> None:
    """Refuses what a spec asked for if it is nowhere."""
    for name in names:
        if not name.startswith(ON_REQUEST) or counts[name]:
            continue
        if is_pattern(name):
            why = "nothing in the graph of the signature has this form, or something else reads what it computes on the way"
        else:
            why = "no layer of the signature has the form that it replaces, such as one without a mask"
        raise UnsupportedModelError(
            f"{name!r} of compilation.fusions cannot be applied: {why}; remove it from compilation.fusions"
        )


def load_fusion(provider: Provider) -> Fusion:
    """Imports an implementation.

    Raises:
        EnvironmentProblemError: That fails, or it is something else.
    """
    module, _, name = provider.target.partition(":")
    try:
        fusion = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise EnvironmentProblemError(
            f"the fusion {provider.name!r} of {provider} cannot be imported "
            f"({type(error).__name__}: {error}); correct or uninstall that package",
            code="MW727",
        ) from error
    if not isinstance(fusion, Fusion) or fusion.name != provider.name:
        raise EnvironmentProblemError(
            f"{provider.target} of {provider} is not a Fusion with the name {provider.name!r}; "
            "correct or uninstall that package",
            code="MW727",
        )
    names = {argument.name for argument in fusion.arguments}
    if is_pattern(fusion.name) != (fusion.pattern is not None):
        raise EnvironmentProblemError(
            f"{provider.target} of {provider} has {'no pattern' if fusion.pattern is None else 'a pattern'}: the names "
            "of fusions with one, and no others, begin with 'pattern.'; correct that package",
            code="MW727",
        )
    if fusion.pattern is not None and not captures(fusion.pattern) <= names:
        raise EnvironmentProblemError(
            f"the pattern of {provider.target} of {provider} captures what is no argument of it; correct that package",
            code="MW727",
        )
    return fusion


class _Replacing:
    def __init__(
        self,
        graph_def: Any,
        functions: dict[str, Any],
        fusions: dict[str, Fusion],
        graphs: Mapping[str, Any],
    ) -> None:
        self._graphs = graphs
        self._graph = graphs[GRAPH]
        self._graph_def = graph_def
        self._functions = functions
        self._fusions = fusions
        self._made: dict[tuple[object, ...], str] = {}
        self._of_modules: dict[tuple[object, ...], Any] = {}

    def replace_call(self, node: Any, arguments: tuple[Tensor, ...]) -> str:
        """Makes a node call the implementation; returns the name of the fusion."""
        called = called_by(node, self._functions)
        function = self._functions[called]
        mark = mark_of(function)
        key = (called, arguments)
        if key not in self._made:
            fusion = self._fusions[mark.name]
            place = Place(_name_of(function))
            check_arguments(fusion, arguments, place)
            with self._graph.as_default():  # has the functions that this one calls
                wanted = tensors_of(as_graph(function, arguments).outputs)
            attributes = mark.attributes
            if mark.name.startswith(LAYERS):  # which have more settings than most fusions need
                attributes = {n: attributes[n] for n in attributes if n in fusion.attributes}
            self._made[key] = self._add(fusion, arguments, attributes, wanted, place)
        if node.op == called:
            node.op = self._made[key]
        else:
            node.attr["f"].func.name = self._made[key]
        return mark.name

    def replace_pattern(self, body: str, match: Found) -> None:
        """Makes the node that computes the result of a pattern call the implementation."""
        fusion, root = self._fusions[match.name], self._graphs[body].get_tensor_by_name(match.root)
        place = Place(layer_name(root.op.name), "layer")
        captured = {
            name: self._graphs[body].get_tensor_by_name(t) for name, t in match.captured.items()
        }
        tensors = [captured[a.name] for a in fusion.arguments if a.name in captured]
        arguments, wanted = tuple(tensors_of(tensors)), tensors_of([root])
        check_arguments(fusion, arguments, place)
        key = (match.name, arguments, tuple(sorted(match.attributes.items())))
        if key not in self._made:
            self._made[key] = self._add(fusion, arguments, match.attributes, wanted, place)
        nodes = self._nodes(body)
        names = _Names(self._functions.get(body), self._functions)
        node = next(other for other in nodes if other.name == root.op.name)
        old = names.of(root)
        node.input[:] = [names.of(tensor) for tensor in tensors]
        types = [tensor.dtype.as_datatype_enum for tensor in tensors]
        call_function(node, self._made[key], types, [root.dtype.as_datatype_enum])
        if body != GRAPH:
            rename_tensor(self._functions[body], old, f"{node.name}:output:0")

    def _nodes(self, body: str) -> Any:
        return self._graph_def.node if body == GRAPH else self._functions[body].node_def

    def make(
        self,
        fusion: Fusion,
        arguments: Sequence[Tensor],
        attributes: Mapping[str, AttributeValue | None],
        wanted: Sequence[Tensor],
        place: Place,
    ) -> Any:
        """The implementation for a module, which is in the library then; the same one for all layers that are alike."""
        key = (fusion.name, tuple(arguments), tuple(sorted(attributes.items())), tuple(wanted))
        if key not in self._of_modules:
            check_arguments(fusion, arguments, place)
            self._of_modules[key] = self._make(fusion, arguments, attributes, wanted, place)
        return self._of_modules[key]

    def _add(
        self,
        fusion: Fusion,
        arguments: Sequence[Tensor],
        attributes: Mapping[str, AttributeValue | None],
        wanted: Sequence[Tensor],
        place: Place,
    ) -> str:
        """Adds the implementation to the library; returns the name of its function."""
        made = self._make(fusion, arguments, attributes, wanted, place)
        return str(made.function_def.signature.name)

    def _make(
        self,
        fusion: Fusion,
        arguments: Sequence[Tensor],
        values: Mapping[str, AttributeValue | None],
        wanted: Sequence[Tensor],
        place: Place,
    ) -> Any:
        attributes: dict[str, Any] = dict(read_attributes(fusion, values, place))
        if fusion.needs_results:
            attributes["results"] = [result.shape for result in wanted]
        made = _trace(fusion, arguments, attributes, place)
        check_results(fusion, wanted, tensors_of(made.outputs), place)
        library = self._graph_def.library
        library.function.extend(made.graph.as_graph_def().library.function)
        library.function.append(made.function_def)
        return made


class _Names:
    """The names by which nodes of a body call its tensors."""

    def __init__(self, function: Any, functions: Mapping[str, Any]) -> None:
        self._arguments: Collection[str] = ()
        self._of: dict[str, str] = {}
        if function is not None:
            self._arguments = {argument.name for argument in function.signature.input_arg}
            flat = flat_tensors(function, functions, "")
            self._of = {tensor: name for name, tensor in flat.items()}

    def of(self, tensor: Any) -> str:
        """The name of one of TensorFlow's tensors."""
        if tensor.op.name in self._arguments:
            return str(tensor.op.name)
        name = str(tensor.name)
        return self._of.get(name, name)


def _name_of(function: Any) -> str:
    """The name of a function as its author wrote it."""
    name = str(function.signature.name)
    written = re.fullmatch(r"__inference_(.+)_\d+", name)
    return written[1] if written else name


def _trace(
    fusion: Fusion, arguments: Sequence[Tensor], attributes: dict[str, Any], place: Place
) -> Any:
    """The implementation as a function of TensorFlow."""
    specs = [
        tf.TensorSpec(tensor.shape, tf.dtypes.as_dtype(tensor.dtype), f"argument_{number}")
        for number, tensor in enumerate(arguments)
    ]

    def call(*tensors: Any) -> Any:
        # A result that is an argument would have no node of its own.
        return tf.nest.map_structure(tf.identity, fusion.build(*tensors, **attributes))

    try:
        made = tf.function(call, autograph=False).get_concrete_function(*specs)
    except ValueError as error:  # also what TensorFlow says about shapes
        reason = one_line(str(error).strip().partition("\n")[0])
        raise mismatch(fusion, place, f"cannot be computed for its arguments ({reason})") from error
    except Exception as error:
        raise EnvironmentProblemError(
            f"the fusion {fusion.name!r} failed for {', '.join(map(str, arguments))} "
            f"({type(error).__name__}: {error}); correct or uninstall its package",
            code="MW727",
        ) from error
    if made.captured_inputs:
        raise EnvironmentProblemError(
            f"the fusion {fusion.name!r} uses tensors that were made outside of it; make them in `build`",
            code="MW727",
        )
    return made


# --- where they are -------------------------------------------------------------------------------


def _calls(
    graph_def: Any, functions: dict[str, Any], graphs: Mapping[str, Any], marked: Iterable[str]
) -> Iterator[tuple[Any, tuple[Tensor, ...]]]:
    """The nodes that call marked functions, with what is known about their arguments."""
    for body, graph in graphs.items():
        nodes = graph_def.node if body == GRAPH else functions[body].node_def
        by_name = {node.name: node for node in nodes}
        for operation in graph.get_operations():
            node = by_name.get(operation.name)  # None for an argument
            if node is not None and called_by(node, functions) in marked:
                yield node, tuple(tensors_of(operation.inputs))


def _patterns(
    graphs: Mapping[str, Any],
    fusions: Mapping[str, Fusion],
    fetches: Collection[str],
) -> Iterator[tuple[str, Found]]:
    """Patterns, with the names of the bodies that they are in."""
    patterns = {
        name: fusion.pattern for name, fusion in fusions.items() if fusion.pattern is not None
    }
    for body, graph in graphs.items():
        if body == GRAPH:
            outputs = [graph.get_tensor_by_name(f"{name}:0") for name in fetches]
        else:
            outputs = list(graph.outputs)
        for match in find_patterns(GraphView(graph, outputs), patterns) if patterns else ():
            yield body, match


def _modules(
    graph_def: Any, functions: Mapping[str, Any], graphs: Mapping[str, Any]
) -> Iterator[tuple[Any, Sequence[Any]]]:
    """The nodes that hold StableHLO modules, with what they take."""
    for body, graph in graphs.items():
        nodes = graph_def.node if body == GRAPH else functions[body].node_def
        by_name = {node.name: node for node in nodes if node.op == MODULE_OP}
        for operation in graph.get_operations() if by_name else ():
            if operation.name in by_name:
                yield by_name[operation.name], list(operation.inputs)
