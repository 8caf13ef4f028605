"""SavedModels: functions and variables in a directory, as TensorFlow saves them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import wrap_function
from tensorflow.python.framework import convert_to_constants
from tensorflow.python.saved_model import load as object_loading
from tensorflow.python.saved_model import load_v1_in_v2 as graph_loading
from tensorflow.python.saved_model import path_helpers

from ....errors import UnsupportedModelError
from ....model.frozen_signature import c_names
from ....model.inspection import Inspection, SignatureInfo
from ....model.messages import weights_within_limit
from ....model.readings import SavedModelReading
from ...graphs.data_flow import drop_unread_writes
from ...graphs.inlining import inline_tf1_control_flow
from ...graphs.marks import calls_kept
from ...inspect.inspect_meta_graph import inspect_message
from ...inspect.meta_graph import parse_saved_model, read_signatures, select_graph
from ...inspect.roots import has_objects
from ...loaded.base import TENSORFLOW, Arrays, Fetch, SignatureGraph, StateVariable, StaticShapes
from ...loaded.state import captured_variables, keep_variables, snapshot, written_resources
from ...stablehlo.graph_modules import keep_integers_of_modules, restore_functions_of_modules
from .variables import check_variables

# Without this, disable_lower_using_switch_merge overlooks them, and freezing lowers a switch with
# more than two branches to nodes that XLA refuses.
convert_to_constants._CONTROL_FLOW_OPS.update({"Case", "StatelessCase"})

_OPTIMIZER, _PLAIN_OBJECT = "optimizer", "_generic_user_object"
"""Identifiers of objects: TensorFlow imports Keras for the first one."""


def inspect(model: Path, reading: SavedModelReading) -> Inspection:
    """See `Format.inspect`."""
    saved_model = parse_saved_model(model)
    return inspect_message(saved_model, check_variables(model), reading.tags)


@dataclass(frozen=True)
class LoadedSignature:
    """A signature of a loaded model, called by the names that its users see."""

    evaluator = TENSORFLOW

    info: SignatureInfo
    function: Any
    """TensorFlow's ConcreteFunction."""
    keywords: Mapping[str, str]
    """The function's keyword for each input: TensorFlow changes names that are not identifiers."""
    model: Any
    """Keeps the variables alive."""

    @property
    def is_tf1(self) -> bool:
        """Whether the model is one graph, as TensorFlow 1 saves it, instead of functions."""
        return isinstance(self.function, wrap_function.WrappedFunction)

    @property
    def output_names(self) -> list[str]:
        """The outputs, in the order of the interface."""
        return [tensor.name for tensor in self.info.outputs]

    def __call__(self, inputs: Arrays) -> Arrays:
        """See `LoadedModel`."""
        results = self._call({name: tf.constant(values) for name, values in inputs.items()})
        return {name: results[name].numpy() for name in self.output_names}

    def snapshot(self) -> Callable[[], None]:
        """See `StatefulModel`."""
        return snapshot(self.function.graph.variables)

    def graph(self, shapes: StaticShapes, keep: Collection[str] = ()) -> SignatureGraph:
        """See `LoadedModel`."""
        names, outputs, function = self._input_function(shapes)
        nodes = {name: t.op.name for name, t in zip(names, function.inputs, strict=False)}
        fetches = {
            name: Fetch(tensor.name, tensor.dtype)
            for name, tensor in zip(outputs, function.outputs, strict=True)
        }
        graph_def, state = replace_variables(function, keep)
        return SignatureGraph(
            graph_def,
            {name: nodes[name] for name in shapes},  # in function.inputs, captured ones follow
            {name: fetches[name] for name in self.output_names},
            state,
        )

    def _call(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The outputs by name; also inside a `tf.function`."""
        return dict(self.function(**{self.keywords[name]: v for name, v in inputs.items()}))

    def _input_function(self, shapes: StaticShapes) -> tuple[list[str], list[str], Any]:
        """A function of the inputs, with the names of its arguments and results in its order."""
        if self.is_tf1:
            # Such a graph cannot be inlined into another function; TensorFlow sorts its results.
            return list(self.function._arg_keywords), sorted(self.output_names), self.function
        specs = [
            tf.TensorSpec(shapes[tensor.name], tensor.dtype, f"arg_{name}")
            for tensor, name in zip(self.info.inputs, c_names(shapes), strict=True)
        ]

        def call(*tensors: Any) -> list[Any]:
            results = self._call(dict(zip(shapes, tensors, strict=True)))
            return [results[name] for name in self.output_names]

        # Nothing in `call` is for AutoGraph, whose translation takes half of the time of freezing.
        function = tf.function(call, input_signature=specs, autograph=False)
        return list(shapes), self.output_names, function.get_concrete_function()


def load(model: Path, reading: SavedModelReading, key: str) -> LoadedSignature:
    """See `Format.load`; loading a SavedModel runs its initialisers."""
    saved_model = parse_saved_model(model)
    meta_graph = select_graph(saved_model, reading.tags)
    info = {signature.key: signature for signature in read_signatures(meta_graph)}.get(key)
    if info is None:
        raise UnsupportedModelError(f"the model has no signature {key!r}", code="MW412")
    keep_integers_of_modules(meta_graph.graph_def)
    try:
        if has_objects(saved_model, meta_graph):
            loaded = _load_objects(model, saved_model)
        else:
            with tf.init_scope():
                # TensorFlow finds a graph by exactly the tags that it was saved with.
                loaded = _GraphLoader(model, saved_model).load(list(meta_graph.meta_info_def.tags))
        function = loaded.signatures[key]
    except Exception as error:
        explained = _explain(error)
        if explained is None:
            raise
        raise UnsupportedModelError(explained) from error
    specs = function.structured_input_signature[1]
    keywords = {spec.name: keyword for keyword, spec in specs.items()}
    keywords |= {name: name for name in specs if name not in keywords}
    return LoadedSignature(info, function, keywords, loaded)


class _GraphLoader(graph_loading._EagerSavedModelLoader):  # type: ignore[misc]
    """TensorFlow's loader of graphs, with the message that was judged in place of what is in the file."""

    def __init__(self, directory: Path, saved_model: Any) -> None:
        """As in tensorflow/python/saved_model/loader_impl.py, but for the last line there, which parses the file."""
        self._export_dir = str(directory)
        self._variables_path = path_helpers.get_variables_path(str(directory))
        self._saved_model = saved_model


def _load_objects(directory: Path, saved_model: Any) -> Any:
    """Restores the objects, functions and variables of a model from the message that was judged.

    As tf.saved_model.load does (tensorflow/python/saved_model/load.py), but without the slots of
    optimizers: these need the classes of the Keras that saved them, and no signature needs them.
    """
    objects = saved_model.meta_graphs[0].object_graph_def
    for node in objects.nodes:
        node.ClearField("slot_variables")
        if node.user_object.identifier == _OPTIMIZER:
            node.user_object.identifier = _PLAIN_OBJECT
    with tf.init_scope():
        loader = object_loading.Loader(
            objects,
            saved_model,
            str(directory),
            tf.train.CheckpointOptions(),
            tf.saved_model.LoadOptions(),
            None,
        )
    return loader.get(0)


def replace_variables(
    function: Any, keep: Collection[str] = (), read: Collection[Any] = ()
) -> tuple[Any, tuple[StateVariable, ...]]:
    """The function's graph, calls inlined, with constants for all variables that it does not write.

    Error functions that its modules have written out are operations again. Writes that no output depends on, now or in a later call, are left out.

    These are the steps of convert_variables_to_constants_v2
    (tensorflow/python/framework/convert_to_constants.py) without the last one, which would convert
    the graph to a function again and copy all weights several times.

    Args:
        function: TensorFlow's ConcreteFunction.
        keep: Calls of functions with these marks stay calls.
        read: Variables that users of the model read.
    """
    with calls_kept(function.graph, keep):
        graph_def, state = _replaced(function, read)
    restore_functions_of_modules(graph_def)
    return graph_def, state


def _replaced(function: Any, read: Collection[Any]) -> tuple[Any, tuple[StateVariable, ...]]:
    graph_def, state = _converted(function, read, lower_control_flow=False)
    if inline_tf1_control_flow(graph_def):
        # tfcompile converts control flow of TensorFlow 1 in the graph itself, not in the functions
        # of an If or a While: these become control flow of TensorFlow 1 too.
        graph_def, state = _converted(function, read, lower_control_flow=True)
        inline_tf1_control_flow(graph_def)
    return graph_def, state


def _converted(
    function: Any, read: Collection[Any], *, lower_control_flow: bool
) -> tuple[Any, tuple[StateVariable, ...]]:
    with weights_within_limit():
        # Private, but the version of TensorFlow is pinned. Its docstring calls aggressive inlining
        # unsafe where functions have state.
        data = convert_to_constants._FunctionConverterDataInEager(
            func=function,
            lower_control_flow=lower_control_flow,
            aggressive_inlining=lower_control_flow,
        )
        outputs = [tensor.name for tensor in function.outputs]
        handles = {id(variable.handle) for variable in read}
        captures = function.graph.captures
        drop_unread_writes(
            data.graph_def,
            outputs,
            [inner.op.name for outer, inner in captures if id(outer) in handles],
        )
        written = written_resources(data.graph_def, outputs)
        kept = captured_variables(function, written)
        for node in kept:
            del data.tensor_data[node]
        graph_def = convert_to_constants._replace_variables_by_constants(converter_data=data)[0]
    return graph_def, keep_variables(graph_def, kept)


def _explain(error: Exception) -> str | None:
    """Explains a failure to load; None if the cause is unknown."""
    text = str(error)
    unregistered = re.search(r"Op type not registered '(\w+)'", text)
    if unregistered:
        return (
            f"the operation {unregistered[1]} comes from a custom op library, which XLA cannot compile; "
            "write it with TensorFlow's own operations"
        )
    if isinstance(error, (OSError, IndexError, tf.errors.NotFoundError, tf.errors.DataLossError)):
        return (
            f"the model's files are incomplete or damaged ({text.splitlines()[0]}); fetch it again"
        )
    return None
