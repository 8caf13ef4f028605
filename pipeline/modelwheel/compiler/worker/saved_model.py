"""Reads a SavedModel: as a message, without running anything, and as functions to call.

The format is described in tensorflow/core/protobuf/saved_model.proto and meta_graph.proto.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.eager import wrap_function

from ...errors import UnsupportedModelError
from ..inspection import SignatureInfo, TensorInfo
from .kernels import type_name

_INTERNAL_PREFIX = "__saved_model_"
_SERVE = "serve"
_OTHER_FORMS = {"saved_model.pbtxt": "the text form", "saved_model.cpb": "the form in chunks"}
_MAX_BYTES = (2 << 30) - 1  # protobuf's own limit


def parse_saved_model(directory: Path) -> Any:
    """The SavedModel message: the bytes that TensorFlow loads later, parsed but not run.

    Raises:
        UnsupportedModelError: There is no SavedModel, or it is damaged or too large to parse.
    """
    path = directory / "saved_model.pb"
    # TensorFlow reads these too; nothing must be loaded that was not judged.
    others = [name for name in _OTHER_FORMS if (directory / name).exists()]
    if others or not path.is_file():
        hint = (
            f"{others[0]} is {_OTHER_FORMS[others[0]]}; load it and save it again"
            if others
            else "name the directory that holds saved_model.pb"
        )
        only = "only saved_model.pb is read" if path.is_file() else "there is no SavedModel"
        raise UnsupportedModelError(f"{only} in this directory; {hint}")
    if path.stat().st_size > _MAX_BYTES:
        raise UnsupportedModelError(
            f"saved_model.pb exceeds {_MAX_BYTES >> 30} GiB, more than TensorFlow parses; "
            "save large constants as variables"
        )
    try:
        return saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except DecodeError:
        raise UnsupportedModelError(
            "saved_model.pb is damaged or not a SavedModel; export or fetch the model again"
        ) from None


def read_meta_graph(directory: Path) -> Any:
    """The MetaGraphDef for serving, parsed but not run.

    Raises:
        UnsupportedModelError: There is no SavedModel, or not exactly one graph for serving.
    """
    return serving_graph(parse_saved_model(directory))


def serving_graph(saved_model: Any) -> Any:
    """The only MetaGraphDef for serving.

    Raises:
        UnsupportedModelError: There is none, or more than one.
    """
    graphs = saved_model.meta_graphs
    served = [graph for graph in graphs if _SERVE in graph.meta_info_def.tags]
    if len(served or graphs) != 1:
        tags = "; ".join(", ".join(graph.meta_info_def.tags) for graph in graphs)
        raise UnsupportedModelError(
            f"the SavedModel has {len(graphs)} graphs (tags: {tags}) and not one for serving; "
            "export it with the tag 'serve'"
        )
    return (served or graphs)[0]


def read_signatures(meta_graph: Any) -> tuple[SignatureInfo, ...]:
    """The signatures that users see, sorted by key."""
    return tuple(
        SignatureInfo(
            key=key,
            inputs=_read_tensors(definition.inputs),
            outputs=_read_tensors(definition.outputs),
        )
        for key, definition in sorted(meta_graph.signature_def.items())
        if not key.startswith(_INTERNAL_PREFIX)
    )


def _read_tensors(infos: Mapping[str, Any]) -> tuple[TensorInfo, ...]:
    return tuple(_read_tensor(name, info) for name, info in sorted(infos.items()))


def _read_tensor(name: str, info: Any) -> TensorInfo:
    encodings = {"coo_sparse": "sparse", "composite_tensor": "composite"}
    shape = info.tensor_shape
    return TensorInfo.model_validate(
        {
            "name": name,
            "dtype": type_name(info.dtype),
            "shape": None
            if shape.unknown_rank
            else tuple(None if dim.size < 0 else dim.size for dim in shape.dim),
            "encoding": encodings.get(info.WhichOneof("encoding"), "dense"),
        }
    )


@dataclass(frozen=True)
class LoadedSignature:
    """A signature of a loaded model, called by the names that its users see."""

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
        """The outputs, sorted."""
        return [tensor.name for tensor in self.info.outputs]

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name; also inside a `tf.function`."""
        result = self.function(**{self.keywords[name]: value for name, value in inputs.items()})
        return dict(result)


def load_signature(directory: Path, key: str) -> LoadedSignature:
    """Loads a model, which runs its initialisers, and returns one signature.

    Raises:
        UnsupportedModelError: It cannot be loaded, or has no such signature.
    """
    meta_graph = read_meta_graph(directory)
    info = {signature.key: signature for signature in read_signatures(meta_graph)}.get(key)
    if info is None:
        raise UnsupportedModelError(f"the model has no signature {key!r}")
    try:
        # TensorFlow finds a graph by exactly the tags that it was saved with.
        model = tf.saved_model.load(str(directory), tags=list(meta_graph.meta_info_def.tags))
        function = model.signatures[key]
    except Exception as error:
        explained = _explain(error)
        if explained is None:
            raise
        raise UnsupportedModelError(explained) from error
    specs = function.structured_input_signature[1]
    keywords = {spec.name: keyword for keyword, spec in specs.items()}
    keywords |= {name: name for name in specs if name not in keywords}
    return LoadedSignature(info, function, keywords, model)


def _explain(error: Exception) -> str | None:
    """Explains a failure to load; None if the cause is unknown."""
    text = str(error)
    unregistered = re.search(r"Op type not registered '(\w+)'", text)
    if unregistered:
        return (
            f"the operation {unregistered[1]} comes from a custom op library, which XLA cannot compile; "
            "write it with TensorFlow's own operations"
        )
    if isinstance(error, AttributeError) and "_UserObject" in text:
        return (
            f"TensorFlow cannot restore the model's objects without the Keras that saved it ({text}); "
            "load it once with `import tf_keras` before tf.saved_model.load, and save it again with "
            "tf.saved_model.save(model, DIRECTORY, signatures=model.signatures)"
        )
    if isinstance(error, (OSError, IndexError, tf.errors.NotFoundError, tf.errors.DataLossError)):
        return (
            f"the model's files are incomplete or damaged ({text.splitlines()[0]}); fetch it again"
        )
    return None
