"""Reads a SavedModel as a message, without running anything.

The format is described in tensorflow/core/protobuf/saved_model.proto and meta_graph.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2

from ...errors import UnsupportedModelError
from ...model.inspection import OrderedBy, SignatureInfo, TensorInfo
from ...model.renames import in_order
from ..graphs.kernels import type_name
from .signature_order import ArgumentOrders

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
            f"saved_model.pb exceeds {(_MAX_BYTES + 1) >> 30} GiB, more than TensorFlow parses; "
            "save large constants as variables"
        )
    try:
        return saved_model_pb2.SavedModel.FromString(path.read_bytes())
    except DecodeError:
        raise UnsupportedModelError(
            "saved_model.pb is damaged or not a SavedModel; export or fetch the model again",
            code="MW416",
        ) from None


def read_meta_graph(directory: Path, tags: Sequence[str] = ()) -> Any:
    """One MetaGraphDef, parsed but not run; see `select_graph`."""
    return select_graph(parse_saved_model(directory), tags)


def select_graph(saved_model: Any, tags: Sequence[str] = ()) -> Any:
    """The MetaGraphDef that was saved with exactly these tags.

    Without tags: the only one, or the one with the tag `serve` alone, or the only one that has it.

    Raises:
        UnsupportedModelError: There is none, or several fit.
    """
    graphs = saved_model.meta_graphs
    wanted = set(tags or [_SERVE])
    matches = [graph for graph in graphs if set(graph.meta_info_def.tags) == wanted]
    if not tags and not matches:
        matches = [graph for graph in graphs if _SERVE in graph.meta_info_def.tags] or list(graphs)
    if len(matches) != 1:
        sets = ", ".join(f"[{', '.join(graph.meta_info_def.tags)}]" for graph in graphs)
        problem = (
            f"no graph with the tags [{', '.join(tags)}]"
            if tags and not matches
            else f"{len(matches)} graphs that could be meant"
        )
        raise UnsupportedModelError(
            f"the SavedModel has {problem}; set source.tags to the tags of one of its graphs: "
            f"{sets or 'it has none'}"
        )
    return matches[0]


def read_signatures(meta_graph: Any) -> tuple[SignatureInfo, ...]:
    """The signatures that users see, sorted by key; inputs are in the order of the exported function."""
    orders = ArgumentOrders(meta_graph)
    return tuple(
        _read_signature(orders, key, definition)
        for key, definition in sorted(meta_graph.signature_def.items())
        if not key.startswith(_INTERNAL_PREFIX)
    )


def _read_signature(orders: ArgumentOrders, key: str, definition: Any) -> SignatureInfo:
    order = orders.of(definition)
    inputs = in_order((_read_tensor(*item) for item in definition.inputs.items()), "natural")
    if order is not None:
        by_name = {tensor.name: tensor for tensor in inputs}
        inputs = tuple(by_name[name] for name in order)
    # Results of a tuple are called output_0, output_1, ...; those of a dictionary have no order.
    outputs = in_order((_read_tensor(*item) for item in definition.outputs.items()), "natural")
    ordered_by: OrderedBy = "natural" if order is None else "model"
    return SignatureInfo(key=key, inputs=inputs, outputs=outputs, ordered_by=ordered_by)


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
