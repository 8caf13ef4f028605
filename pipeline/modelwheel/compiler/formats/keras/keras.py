"""Models in files of Keras: `.keras`, and `.h5` of Keras 2 and 3.

The file is judged before Keras is imported. Keras 3 reads some files of Keras 2 as another model without an
error. So Keras 2 (tf_keras) reads those that name anything that does not mean the same in both (`keras_versions`),
and those of which Keras 3 makes other inputs or weights than the file declares.
"""

from __future__ import annotations

import importlib
import math
import os
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from ....errors import UnsupportedModelError
from ....extras import require
from ....model.frozen_signature import c_names
from ....model.fusions.registry import LAYERS
from ....model.inspection import Inspection, SignatureInfo, TensorInfo
from ....model.keras.keras_file import (
    EXPORT_FIX,
    KerasFile,
    judge_config,
    read_keras_file,
    write_judged,
)
from ....model.messages import first_line
from ....model.readings import KerasReading
from ....util.python import left_out
from ...inspect.inspect_meta_graph import inspect_message
from ...loaded.base import SignatureGraph, StaticShapes
from .. import DEFAULT_SIGNATURE
from ..saved_model.saved_model import LoadedSignature
from .keras_versions import OTHER_LAYERS, differs, with_first_defaults
from .layer_calls import calls_marked, layers_by_mark, layers_named

_NAMESPACES = (
    *("layers", "initializers", "regularizers", "constraints", "dtype_policies", "quantizers"),
)
_MODELS = frozenset({"Functional", "Model", "Sequential", "DTypePolicy", "DTypePolicyMap"})
_KERAS_2 = frozenset({"Policy", "TFOpLambda", "SlicingOpLambda"})
"""What only Keras 2 has, beside layers."""


def inspect(model: Path, reading: KerasReading) -> Inspection:
    """See `Format.inspect`; the model is built once its file has been judged."""
    file, loaded = _load(model / reading.file)
    message = saved_model_pb2.SavedModel()
    meta_graph = message.meta_graphs.add()
    meta_graph.graph_def.CopyFrom(_graph_def(loaded.function.graph))
    meta_graph.meta_info_def.tensorflow_version = f"Keras {file.version or '1'}"
    signature = meta_graph.signature_def[DEFAULT_SIGNATURE]
    arguments = {tensor.op.name: tensor for tensor in loaded.function.inputs}
    for name, keyword in loaded.keywords.items():
        _describe(signature.inputs[name], arguments[keyword])
    results = loaded.function.structured_outputs
    for name, tensor in results.items():
        _describe(signature.outputs[name], tensor)
    inspection = inspect_message(message, file.arrays)
    # The model orders inputs and outputs, a message does not.
    info = loaded.info.with_valid_values(inspection.signatures[0])
    inspection = inspection.model_copy(update={"signatures": (info,)})
    if not isinstance(loaded, _Keras3Signature):
        return inspection
    marked = {DEFAULT_SIGNATURE: layers_by_mark(loaded.model)}
    return inspection.model_copy(update={"marked": marked})


def _graph_def(graph: Any) -> Any:
    """The definition of a function's graph, with the shapes of the variables that it is given."""
    graph_def = graph.as_graph_def()
    shapes = {tensor.op.name: handle.shape for handle, tensor in _variables(graph)}
    for node in graph_def.node:
        if node.op == "Placeholder" and node.name in shapes:
            node.attr["_handle_shapes"].list.shape.add().CopyFrom(shapes[node.name])
    return graph_def


def _variables(graph: Any) -> Iterator[tuple[Any, Any]]:
    """The shape and type of each variable that a function's graph captures, and what stands for it there."""
    for variable, tensor in graph.captures:
        data = getattr(variable, "_handle_data", None)
        if tensor.dtype == tf.resource and data is not None and data.shape_and_type:
            yield data.shape_and_type[0], tensor


def load(model: Path, reading: KerasReading, key: str) -> LoadedSignature:
    """See `Format.load`."""
    if key != DEFAULT_SIGNATURE:
        raise UnsupportedModelError(
            f"a file of Keras has no signature {key!r}; remove model.serving_key from the spec",
            code="MW412",
        )
    return _load(model / reading.file)[1]


def _describe(info: Any, tensor: Any) -> None:
    info.name, info.dtype = tensor.name, tensor.dtype.as_datatype_enum
    info.tensor_shape.CopyFrom(tensor.shape.as_proto())


# --- loading --------------------------------------------------------------------------------------


def _load(path: Path) -> tuple[KerasFile, LoadedSignature]:
    """Judges a file and loads its model as one function; see `read_model`."""
    file, keras, model = read_model(path)
    interface = _interface(keras, model)
    loaded = _trace(interface)
    if keras.__name__ == "keras":
        loaded = _Keras3Signature(**vars(loaded), interface=interface)
    return file, loaded


def read_model(path: Path) -> tuple[KerasFile, Any, Any]:
    """Judges a file and makes its model.

    Returns:
        What the file holds, the Keras that reads it as the one that wrote it meant it, and the model.

    Raises:
        UnsupportedModelError: It is refused, or cannot be loaded.
        EnvironmentProblemError: It needs the Keras that wrote it, which is not installed.
    """
    file = read_keras_file(path)
    if file.is_keras_2:
        file = replace(file, config=with_first_defaults(file.config))
    judge_config(file.config, lambda _: True)
    # Keras knows the names of its classes; nothing has asked it to make one yet.
    keras = _import_keras("keras")
    judge_config(file.config, lambda name: _is_known(keras, name, file))
    with tempfile.TemporaryDirectory() as directory:
        # Keras reads nothing that was not judged, whatever else the file is.
        judged = write_judged(path, file, Path(directory))
        if not file.is_keras_2 or not differs(file.config):
            model = _read_with(keras, judged, path.name, file)
            if model is not None:
                return file, keras, model
        require("keras", f"reading {path.name}, which Keras {file.version or '1'} wrote,")
        keras = _import_keras("tf_keras")
        model = _read_with(keras, judged, path.name, file)
    if model is None:
        raise UnsupportedModelError(
            f"{path.name} is loaded with other inputs or weights than it declares; {EXPORT_FIX}"
        )
    return file, keras, model


_OPTIONAL = ("jax", "matplotlib", "pandas", "scipy", "sklearn")
"""What Keras imports where it is installed, for training and plots: two seconds of every job."""


def _import_keras(name: str) -> Any:
    # A configuration file in the home directory could choose other defaults for the same model.
    os.environ.update(KERAS_BACKEND="tensorflow", KERAS_HOME=os.devnull, TF_USE_LEGACY_KERAS="0")
    with left_out(_OPTIONAL):
        return importlib.import_module(name)


def _is_known(keras: Any, name: str, file: KerasFile) -> bool:
    if file.is_keras_2 and name in OTHER_LAYERS | _KERAS_2:
        return True
    return name in _MODELS or any(hasattr(getattr(keras, n), name) for n in _NAMESPACES)


def _read_with(keras: Any, judged: Path, name: str, file: KerasFile) -> Any:
    """The model; None if a file of Keras 2 is not what was loaded, or Keras 3 cannot load it.

    Args:
        keras: The Keras that reads it.
        judged: The file that was written from what was judged.
        name: Of the file that the user knows.
        file: What was judged.
    """
    # Keras 2 forgets its safe mode for .h5 files.
    saving = importlib.import_module(f"{keras.__name__}.src.saving.serialization_lib")
    try:
        with _quiet(), saving.SafeModeScope(safe_mode=True):
            model = keras.models.load_model(str(judged), compile=False, safe_mode=True)
    except Exception as error:  # Keras raises what its layers raise
        if file.is_keras_2 and keras.__name__ == "keras":
            return None
        raise UnsupportedModelError(
            f"Keras cannot load {name}: {first_line(error)}; {EXPORT_FIX}", code="MW417"
        ) from error
    if file.is_keras_2 and not _agrees(model, file):
        return None
    if not getattr(model, "inputs", None):
        raise UnsupportedModelError(
            f"{name} does not say which inputs its model takes; {EXPORT_FIX}"
        )
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_OF_TRAINING = ("/optimizer_weights/", "/optimizer/", "/metrics/")
"""Groups of arrays beside those of a model: the first one in .h5 files, the others in .keras files."""


def _agrees(model: Any, file: KerasFile) -> bool:
    """Whether the inputs of a model and the number of its weights are those of its file."""
    declared = file.input_shapes()
    if declared is None or not getattr(model, "inputs", None):
        return False
    shapes = [tuple(tensor.shape) for tensor in model.inputs]
    if sorted(map(str, shapes)) != sorted(map(str, declared.values())):
        return False
    stored = sum(a.elements for a in file.arrays if not a.node.startswith(_OF_TRAINING))
    return bool(stored == sum(math.prod(weight.shape) for weight in model.weights))


# --- the interface --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Interface:
    model: Any
    inputs: Mapping[str, Any]
    """Symbolic tensors by name, in the order of `model.inputs`."""
    outputs: tuple[str, ...]
    """Names, in the order of `model.outputs`."""
    input_order: tuple[str, ...]
    """Names in the order of the file: `model.inputs` has those of a dictionary sorted."""
    output_order: tuple[str, ...]


def _interface(keras: Any, model: Any) -> _Interface:
    """The names that Keras has for inputs and outputs: those of layers, or the keys of dictionaries."""
    if keras.__name__ == "tf_keras":
        names, outputs = model.input_names, _output_names(model, model.output_names)
    else:
        functional = getattr(model, "_functional", None) or model
        names = [tensor._keras_history.operation.name for tensor in functional.inputs]
        structure = _structures(functional)[0]
        if isinstance(structure, dict):
            by_id = {id(tensor): key for key, tensor in structure.items()}
            names = [by_id.get(id(t), n) for t, n in zip(functional.inputs, names, strict=True)]
        outputs = _output_names(functional, functional.output_names)
    inputs = dict(zip(names, model.inputs, strict=True))
    taken, returned = _structures(model)
    order = tuple(inputs)
    if isinstance(taken, dict):
        by_identity = {id(tensor): name for name, tensor in inputs.items()}
        parameters = tuple(by_identity.get(id(tensor), "") for tensor in taken.values())
        order = parameters if set(parameters) == set(inputs) else order
    by_key = isinstance(returned, dict) and set(returned) == set(outputs)
    return _Interface(model, inputs, outputs, order, tuple(returned) if by_key else outputs)


def _structures(model: Any) -> tuple[Any, Any]:
    """The arguments and results of a functional model: a tensor, or lists and dictionaries of tensors."""
    taken, returned = (
        getattr(model, f"_{kind}_struct", getattr(model, f"_nested_{kind}", None))
        for kind in ("inputs", "outputs")
    )
    return taken, returned


@dataclass(frozen=True)
class _Keras3Signature(LoadedSignature):
    """A model of Keras 3, which is called again where fusions want its layers to be marked."""

    interface: _Interface

    def graph(self, shapes: StaticShapes, keep: Collection[str] = ()) -> SignatureGraph:
        """See `LoadedModel`."""
        names = [name for name in keep if name.startswith(LAYERS)]
        if not names:
            return super().graph(shapes, keep)
        keras, model = _import_keras("keras"), self.interface.model
        with calls_marked(keras, model, names):
            marked = _trace(self.interface)
        return marked.graph(shapes, keep)


def _output_names(model: Any, layers: list[str]) -> tuple[str, ...]:
    structure = _structures(model)[1]
    if isinstance(structure, dict) and len(structure) == len(layers):
        return tuple(sorted(structure))
    names: list[str] = []
    for layer in layers:
        # One layer may have several outputs, or be called several times.
        name, number = layer, 1
        while name in names:
            name, number = f"{layer}_{number}", number + 1
        names.append(name)
    return tuple(names)


def _trace(interface: _Interface) -> LoadedSignature:
    """The model as one function of its inputs by name."""
    keywords = dict(zip(interface.inputs, c_names(interface.inputs), strict=True))
    keywords = {name: f"arg_{keyword}" for name, keyword in keywords.items()}
    specs = {
        keywords[name]: tf.TensorSpec(tuple(tensor.shape), tensor.dtype, keywords[name])
        for name, tensor in interface.inputs.items()
    }
    structure = getattr(interface.model, "_inputs_struct", None)

    def call(**tensors: Any) -> dict[str, Any]:
        by_name = {name: tensors[keyword] for name, keyword in keywords.items()}
        values: Any = list(by_name.values())
        if isinstance(structure, dict):
            values = by_name
        elif len(values) == 1:
            (values,) = values
        results = tf.nest.flatten(interface.model(values, training=False))
        return {
            # Otherwise an input that is an output too would have no tensor of its own.
            name: tf.identity(result)
            for name, result in zip(interface.outputs, results, strict=True)
        }

    try:
        with layers_named(interface.model):
            function = tf.function(call).get_concrete_function(**specs)
    except Exception as error:
        raise UnsupportedModelError(
            f"the model cannot be called: {first_line(error)}; {EXPORT_FIX}"
        ) from error
    info = SignatureInfo(
        key=DEFAULT_SIGNATURE,
        inputs=_tensors({name: specs[keywords[name]] for name in interface.input_order}),
        outputs=_tensors({n: function.structured_outputs[n] for n in interface.output_order}),
        ordered_by="model",
    )
    return LoadedSignature(info, function, keywords, interface.model)


def _tensors(specs: Mapping[str, Any]) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(
            name=name,
            dtype=spec.dtype.name,
            shape=None if spec.shape.rank is None else tuple(spec.shape.as_list()),
        )
        for name, spec in specs.items()
    )
