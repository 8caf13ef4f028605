"""Reads ONNX files: as messages, with weights beside the file, and judged without executing anything.

The format is described in https://github.com/onnx/onnx/blob/main/docs/IR.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, defs, helper
from onnx.external_data_helper import uses_external_data

from ....errors import UnsupportedModelError
from ....model.inspection import SignatureInfo, TensorInfo
from ....model.readings import OnnxReading
from ....util.text import one_line
from .. import DEFAULT_SIGNATURE
from .onnx_nodes import bits_of, check_nodes, check_tensor
from .operators.onnx_graph import describe, subgraphs

OPSETS = range(6, defs.onnx_opset_version() + 1)
"""Versions of ONNX's operations that are read."""
STANDARD = ("", "ai.onnx")
_MAX_BYTES = (2 << 30) - 1  # protobuf's own limit
_MAX_DEPTH = 32
_EXPORT = "export it with opset 17 or later"


def read_model(model: Path, reading: OnnxReading) -> onnx.ModelProto:
    """The message of a file, parsed and checked for what nothing later can do without.

    Raises:
        UnsupportedModelError: It is not an ONNX file, damaged, or of an opset that is not read.
    """
    path = _find_file(model, reading.file)
    name = one_line(path.name)
    if path.stat().st_size > _MAX_BYTES:
        raise UnsupportedModelError(
            f"{name} exceeds {_MAX_BYTES >> 30} GiB; save its weights in a file of their own with "
            "onnx.save(..., save_as_external_data=True)"
        )
    try:
        parsed = onnx.ModelProto.FromString(path.read_bytes())
    except DecodeError:
        parsed = onnx.ModelProto()
    if not parsed.HasField("graph"):
        raise UnsupportedModelError(
            f"{name} is damaged or not an ONNX file; export or fetch the model again", code="MW416"
        )
    # ONNX Runtime gets the message: nothing must be in it that is not judged here.
    parsed.DiscardUnknownFields()
    parsed.ClearField("training_info")
    _check_opset(parsed, name)
    _check_graphs(parsed)
    return parsed


def _find_file(model: Path, name: str) -> Path:
    """The file, or the only one of a directory, which may have weights beside it."""
    if name and (model / name).is_file():
        return model / name
    files = sorted(model.glob("*.onnx"))
    if len(files) != 1:
        raise UnsupportedModelError(
            f"source.path is a directory with {len(files)} ONNX files; name one of them, or a directory that "
            "holds one with its weights beside it"
        )
    return files[0]


def _check_opset(model: onnx.ModelProto, name: str) -> None:
    opset = max((o.version for o in model.opset_import if o.domain in STANDARD), default=0)
    if opset not in OPSETS:
        version = f"opset {opset}" if opset else "no opset of ONNX's own operations"
        raise UnsupportedModelError(
            f"{name} has {version}; modelwheel reads {OPSETS[0]} to {OPSETS[-1]}: {_EXPORT}, or convert it "
            "with onnx.version_converter.convert_version",
            code="MW417",
        )


def opsets_of(imports: Iterable[Any]) -> dict[str, int]:
    """The version of each domain that a model or one of its functions imports, the main one as ''."""
    return {("" if opset.domain in STANDARD else opset.domain): opset.version for opset in imports}


def every_graph(model: onnx.ModelProto) -> Iterator[Any]:
    """The graph, the functions, and the graphs inside their nodes.

    Raises:
        UnsupportedModelError: Graphs are nested too deeply.
    """
    for graph in (model.graph, *model.functions):
        yield from graphs_of(graph)


def graphs_of(graph: Any) -> Iterator[Any]:
    """A graph or function, and the graphs inside its nodes.

    Raises:
        UnsupportedModelError: They are nested too deeply.
    """
    waiting: list[tuple[Any, int]] = [(graph, 0)]
    while waiting:
        holder, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise UnsupportedModelError(
                f"graphs are nested more than {_MAX_DEPTH} levels deep; export the model with fewer "
                "nested conditions and loops"
            )
        yield holder
        waiting += [(inner, depth + 1) for node in holder.node for inner in subgraphs(node)]


def tensors_of(graph: Any) -> Iterator[tuple[str, TensorProto]]:
    """The constants of a graph or function, with the names of their nodes."""
    for tensor in getattr(graph, "initializer", ()):
        yield tensor.name, tensor
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield node_name(node), attribute.t
            for tensor in attribute.tensors:
                yield node_name(node), tensor


def _check_graphs(model: onnx.ModelProto) -> None:
    functions = {(function.domain, function.name) for function in model.functions}
    opsets = opsets_of(model.opset_import)
    for top in (model.graph, *model.functions):
        own = {**opsets, **opsets_of(getattr(top, "opset_import", ()))}
        for graph in graphs_of(top):
            _check_constants(graph)
            check_nodes(graph, own, functions, within_function=top is not model.graph)
    for role, values in (("input", model.graph.input), ("output", model.graph.output)):
        if not all(value.name for value in values):
            raise UnsupportedModelError(
                f"the ONNX file is damaged: one of the model's {role}s has no name; export it again",
                code="MW416",
            )


def _check_constants(graph: Any) -> None:
    sparse = [tensor.values.name for tensor in getattr(graph, "sparse_initializer", ())]
    for node in graph.node:
        if any(
            attribute.HasField("sparse_tensor") or attribute.sparse_tensors
            for attribute in node.attribute
        ):
            sparse.append(node.name or next(iter(node.output), node.op_type))
    if sparse:
        raise UnsupportedModelError(
            f"the weight {one_line(repr(sparse[0]))} is sparse; save the model with dense weights"
        )
    for name, tensor in tensors_of(graph):
        if tensor.data_type == TensorProto.STRING:
            raise UnsupportedModelError(
                f"{one_line(repr(name))} holds strings, which cannot be compiled; process text outside "
                "the model and pass numbers",
                code="MW403",
            )
        check_tensor(name, tensor)
        if uses_external_data(tensor):
            _external_file(tensor)


# --- weights beside the file ----------------------------------------------------------------------


def _external_file(tensor: TensorProto) -> str:
    """The name of the file that holds a tensor.

    Raises:
        UnsupportedModelError: It is not a plain name below the model's directory.
    """
    name = _external(tensor).get("location", "")
    parts = re.split(r"[/\\]", name)
    if not name or name.startswith(("/", "\\")) or ".." in parts or ":" in name or "\0" in name:
        raise UnsupportedModelError(
            f"the weight {one_line(repr(tensor.name))} is in the file {one_line(repr(name))}, outside the "
            "model's directory; save the model again with onnx.save(..., save_as_external_data=True)"
        )
    return name


def load_external(model: onnx.ModelProto, directory: Path) -> None:
    """Reads the weights that are in other files into the message.

    Raises:
        UnsupportedModelError: A file is missing, too short, or outside the directory.
    """
    files: dict[Path, Any] = {}
    for graph in every_graph(model):
        for _, tensor in tensors_of(graph):
            if uses_external_data(tensor):
                tensor.raw_data = _read_external(tensor, directory, files)
                tensor.data_location = TensorProto.DEFAULT
                del tensor.external_data[:]


def _read_external(tensor: TensorProto, directory: Path, files: dict[Path, Any]) -> bytes:
    entries, name = _external(tensor), _external_file(tensor)
    # The tree of a single file has the files beside it at its top.
    places = (directory / name, directory / re.split(r"[/\\]", name)[-1])
    path = next((p for p in places if p.is_file()), None)
    shown, weight = one_line(repr(name)), one_line(repr(tensor.name))
    if path is None or not path.resolve().is_relative_to(directory.resolve()):
        raise UnsupportedModelError(
            f"the weight {weight} is in the file {shown}, which is not there; put it beside the "
            "model's file, or set source.path to the directory that holds both"
        )
    size = math.prod(tensor.dims) * bits_of(tensor) // 8
    offset, length = (_whole(entries.get(key), n) for key, n in (("offset", 0), ("length", size)))
    if path not in files:
        files[path] = (
            np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
        )
    if offset < 0 or length != size or offset + length > len(files[path]):
        raise UnsupportedModelError(
            f"the weight {weight} asks for {size} bytes at {offset} of {shown}, which has "
            f"{len(files[path])}; fetch or save the model again"
        )
    content: bytes = files[path][offset : offset + length].tobytes()
    return content


def _external(tensor: TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _whole(text: str | None, default: int) -> int:
    """A number of bytes; -1 for what is none, which no file has."""
    return default if text is None else int(text) if re.fullmatch(r"\d{1,18}", text) else -1


# --- interface ------------------------------------------------------------------------------------


def read_signature(model: onnx.ModelProto, constants: Mapping[str, Any]) -> SignatureInfo:
    """The interface: names and order as in the graph, without weights and what the spec makes constant."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights and v.name not in constants]
    return SignatureInfo(
        key=DEFAULT_SIGNATURE,
        inputs=tuple(map(_read_value, inputs)),
        outputs=tuple(map(_read_value, model.graph.output)),
        ordered_by="model",
    )


def _read_value(value: onnx.ValueInfoProto) -> TensorInfo:
    kind = value.type.WhichOneof("value")
    if kind not in (None, "tensor_type"):
        return TensorInfo(
            name=value.name,
            dtype="variant",
            shape=None,
            encoding="sparse" if kind == "sparse_tensor_type" else "composite",
        )
    tensor = value.type.tensor_type
    shape = tuple(_extent(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    symbols = tuple(dim.dim_param for dim in tensor.shape.dim)
    return TensorInfo(
        name=value.name,
        dtype=_type_name(tensor.elem_type),
        shape=shape,
        symbols=symbols if any(symbols) else (),
    )


def _extent(dim: Any) -> int | None:
    """Some exporters write -1 for a free extent."""
    return int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def _type_name(element: int) -> str:
    if element == TensorProto.STRING:
        return "string"
    try:
        return str(np.dtype(helper.tensor_dtype_to_np_dtype(element)).name)
    except KeyError:
        return f"of number {element}"


def node_name(node: onnx.NodeProto) -> str:
    """A node by its own name or its first output."""
    return describe(node).partition(" ")[2].strip("'")
