"""Replaces calls of marked functions in a graph by what is registered for their marks."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.function_def_to_graph import function_def_to_graph

from ...errors import EnvironmentProblemError
from ...util.text import one_line
from ..fusion_interface import Tensor, check_arguments, check_results, mismatch, read_attributes
from ..fusions import Fusion, Provider, Replaced
from .graphs import GRAPH
from .inlining import called_by
from .marks import mark_of

_LOOPS = frozenset({"While", "StatelessWhile"})
_BRANCHES = frozenset({"If", "StatelessIf", "Case", "StatelessCase"})
"""Their first input chooses a branch and is not passed to it."""


def replace_calls(graph_def: Any, providers: Sequence[Provider]) -> tuple[Replaced, ...]:
    """Replaces calls in a graph and all its functions, in place.

    Args:
        graph_def: The graph; the shapes of its placeholders are fixed.
        providers: Who implements what.

    Returns:
        What was replaced, sorted by name.

    Raises:
        EnvironmentProblemError: An implementation cannot be loaded.
        UnsupportedModelError: A call does not have the interface that its mark stands for.
    """
    by_name = {provider.name: provider for provider in providers}
    functions = {function.signature.name: function for function in graph_def.library.function}
    marked = {name for name, one in functions.items() if mark_of(one).name in by_name}
    if not marked:
        return ()
    fusions = {name: load_fusion(provider) for name, provider in by_name.items()}
    replacing = _Replacing(graph_def, functions, fusions)
    counts: Counter[str] = Counter()
    for node, arguments in _calls(graph_def, functions, marked):
        counts[replacing.replace(node, arguments)] += 1
    return tuple(
        Replaced(name=name, provider=str(by_name[name]), calls=calls)
        for name, calls in sorted(counts.items())
    )


def load_fusion(provider: Provider) -> Fusion:
    """Imports an implementation.

    Raises:
        EnvironmentProblemError: That fails, or it is something else.
    """
    module, _, name = provider.target.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:
        raise EnvironmentProblemError(
            f"the fusion {provider.name!r} of {provider} cannot be imported "
            f"({type(error).__name__}: {error}); correct or uninstall that package"
        ) from error
    if not isinstance(found, Fusion) or found.name != provider.name:
        raise EnvironmentProblemError(
            f"{provider.target} of {provider} is not a Fusion with the name {provider.name!r}; "
            "correct or uninstall that package"
        )
    return found


class _Replacing:
    def __init__(
        self, graph_def: Any, functions: dict[str, Any], fusions: dict[str, Fusion]
    ) -> None:
        self._library = graph_def.library
        self._functions = functions
        self._fusions = fusions
        self._made: dict[tuple[str, tuple[Tensor, ...]], str] = {}

    def replace(self, node: Any, arguments: tuple[Tensor, ...]) -> str:
        """Makes a node call the implementation; returns the name of the fusion."""
        called = called_by(node, self._functions)
        function = self._functions[called]
        mark = mark_of(function)
        key = (called, arguments)
        if key not in self._made:
            fusion = self._fusions[mark.name]
            name = _name_of(function)
            check_arguments(fusion, arguments, name)
            attributes = read_attributes(fusion, mark.attributes, name)
            wanted = _tensors_of(_as_graph(function, arguments).outputs)
            extra = {"results": [result.shape for result in wanted]} if fusion.needs_results else {}
            made = _trace(fusion, arguments, attributes | extra, name)
            check_results(fusion, wanted, _tensors_of(made.outputs), name)
            self._library.function.extend(made.graph.as_graph_def().library.function)
            self._library.function.append(made.function_def)
            self._made[key] = made.function_def.signature.name
        if node.op == called:
            node.op = self._made[key]
        else:
            node.attr["f"].func.name = self._made[key]
        return mark.name


def _name_of(function: Any) -> str:
    """The name of a function as its author wrote it."""
    name = str(function.signature.name)
    written = re.fullmatch(r"__inference_(.+)_\d+", name)
    return written[1] if written else name


def _trace(
    fusion: Fusion, arguments: Sequence[Tensor], attributes: dict[str, Any], function: str
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
        said = one_line(str(error).strip().partition("\n")[0])
        raise mismatch(
            fusion, function, f"cannot be computed for its arguments ({said})"
        ) from error
    except Exception as error:
        raise EnvironmentProblemError(
            f"the fusion {fusion.name!r} failed for {', '.join(map(str, arguments))} "
            f"({type(error).__name__}: {error}); correct or uninstall its package"
        ) from error
    if made.captured_inputs:
        raise EnvironmentProblemError(
            f"the fusion {fusion.name!r} uses tensors that were made outside of it; make them in `build`"
        )
    return made


# --- the shapes of arguments ----------------------------------------------------------------------


def _calls(
    graph_def: Any, functions: dict[str, Any], marked: Iterable[str]
) -> Iterator[tuple[Any, tuple[Tensor, ...]]]:
    """The nodes that call marked functions, with what is known about their arguments."""
    nodes = {GRAPH: {node.name: node for node in graph_def.node}}
    nodes |= {name: {n.name: n for n in f.node_def} for name, f in functions.items()}
    found: dict[tuple[str, str], tuple[Tensor, ...]] = {}
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        bodies: list[tuple[str, Any]] = [(GRAPH, graph)]
        seen: dict[str, tuple[Tensor, ...]] = {}
        for body, one in bodies:  # grows while it is walked
            for operation in one.get_operations():
                node = nodes[body].get(operation.name)
                if node is None:  # an argument
                    continue
                called = called_by(node, functions)
                if called in marked:
                    found[body, node.name] = tuple(_tensors_of(operation.inputs))
                    continue
                for name, arguments in _passed(operation, functions):
                    known = _in_common(seen.get(name, arguments), arguments)
                    if seen.get(name) != known:
                        seen[name] = known
                        bodies.append((name, _as_graph(functions[name], known)))
    for (body, name), arguments in found.items():
        yield nodes[body][name], arguments


def _passed(operation: Any, functions: dict[str, Any]) -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    """The functions that an operation runs, with what it passes to them."""
    definition = operation.node_def
    names = [r.name for a in definition.attr.values() for r in (a.func, *a.list.func) if r.name]
    if definition.op in functions:
        names.append(definition.op)
    # The shape of what a loop changes may differ from that of its first value.
    given = operation.outputs if definition.op in _LOOPS else operation.inputs
    tensors = tuple(_tensors_of(given[definition.op in _BRANCHES :]))
    for name in names:
        if name in functions:
            expected = [argument.type for argument in functions[name].signature.input_arg]
            if [tf.dtypes.as_dtype(t.dtype).as_datatype_enum for t in tensors] == expected:
                yield name, tensors
            else:  # an operation that passes something else
                types = [tf.dtypes.as_dtype(kind).name for kind in expected]
                yield name, tuple(Tensor(kind, None) for kind in types)


def _in_common(one: tuple[Tensor, ...], other: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What holds for two calls of the same function."""
    shapes = [
        tf.TensorShape(a.shape).most_specific_compatible_shape(tf.TensorShape(b.shape))
        for a, b in zip(one, other, strict=True)
    ]
    return tuple(
        Tensor(a.dtype, None if s.rank is None else tuple(s.as_list()))
        for a, s in zip(one, shapes, strict=True)
    )


def _as_graph(function: Any, arguments: Sequence[Tensor]) -> Any:
    """The body of a function for arguments of these shapes."""
    shapes = [None if t.shape is None else tf.TensorShape(t.shape) for t in arguments]
    return function_def_to_graph(function, input_shapes=shapes)


def _tensors_of(values: Iterable[Any]) -> list[Tensor]:
    """Types and shapes of TensorFlow's tensors."""
    return [
        Tensor(v.dtype.name, None if v.shape.rank is None else tuple(v.shape.as_list()))
        for v in values
    ]
