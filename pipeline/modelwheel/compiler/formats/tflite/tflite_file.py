"""Parses files of TensorFlow Lite, without executing anything of them.

The format is described in tensorflow/compiler/mlir/lite/schema/schema.fbs; TensorFlow has its parser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from ....errors import UnsupportedModelError
from ....model.inspection import SignatureInfo, TensorInfo
from ....util.text import one_line
from .. import DEFAULT_SIGNATURE
from .lite_rewriting import separate_state, widen_weights
from .lite_sparse import dense

Array = np.ndarray[Any, Any]

_IDENTIFIER = b"TFL3"
_FIX = "convert the model again"
_CUSTOM = schema.BuiltinOperator.CUSTOM


def _names(enumeration: type) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


_OPERATORS = _names(schema.BuiltinOperator)
_DTYPES = {
    schema.TensorType.FLOAT32: "float32",
    schema.TensorType.FLOAT16: "float16",
    schema.TensorType.FLOAT64: "float64",
    schema.TensorType.BFLOAT16: "bfloat16",
    schema.TensorType.INT8: "int8",
    schema.TensorType.INT16: "int16",
    schema.TensorType.INT32: "int32",
    schema.TensorType.INT64: "int64",
    schema.TensorType.UINT8: "uint8",
    schema.TensorType.UINT16: "uint16",
    schema.TensorType.UINT32: "uint32",
    schema.TensorType.UINT64: "uint64",
    schema.TensorType.BOOL: "bool",
    schema.TensorType.COMPLEX64: "complex64",
    schema.TensorType.COMPLEX128: "complex128",
    schema.TensorType.STRING: "string",
    schema.TensorType.RESOURCE: "resource",
}


@dataclass(frozen=True)
class Scaling:
    """Integers that stand for real numbers, (integer - zero point) * scale."""

    scales: Array
    """Of float32: one, or one for each position of an axis."""
    zeros: Array
    """Of int64, as many."""
    axis: int

    def __str__(self) -> str:
        zero = int(self.zeros[0])
        numbers = f"(x {'-' if zero > 0 else '+'} {abs(zero)})" if zero else "x"
        return f"{numbers} * {float(self.scales[0]):.9g}"


@dataclass(frozen=True)
class LiteTensor:
    """A tensor of a subgraph."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    """None for an extent that calls may change."""
    scaling: Scaling | None
    """How its integers stand for real numbers, if they do."""
    content: bytes | None
    """Of a constant, in the order of its rows."""
    state: bool
    """Whether an operator keeps it from call to call; it is zeros before the first one."""
    sparsity: Any
    """Where the elements of a constant are that holds only those which are not 0; None for any other."""

    @cached_property
    def value(self) -> Array | None:
        """The elements of a constant; None for any other tensor.

        Raises:
            UnsupportedModelError: Its shape says another number of elements.
        """
        if self.dtype in ("string", "resource"):
            return None
        shape, dtype = [extent or 0 for extent in self.shape], np.dtype(self.dtype)
        if self.content is None:  # one without elements has no content
            return np.zeros(shape, dtype) if 0 in shape else None
        elements = np.frombuffer(self.content, dtype)
        try:
            if self.sparsity is not None:
                return dense(elements, shape, self.sparsity)
            return elements.reshape(shape)
        except (ValueError, IndexError):
            raise UnsupportedModelError(
                f"the file is damaged: {one_line(repr(self.name))} has {elements.size} elements and the shape "
                f"{shape}; {_FIX}",
                code="MW416",
            ) from None


@dataclass(frozen=True)
class LiteOperator:
    """An operator of a subgraph."""

    op: str
    """Its name in the schema: `CONV_2D`; `CUSTOM NAME` for one that no schema has."""
    inputs: Sequence[int]
    """Numbers of tensors; -1 for one that is left out."""
    outputs: Sequence[int]
    options: Any
    """Its attributes, as the schema names them; None if it has none."""


@dataclass(frozen=True)
class LiteGraph:
    """A subgraph: the main one, or one that an operator calls."""

    tensors: Sequence[LiteTensor]
    operators: Sequence[LiteOperator]
    inputs: Sequence[int]
    outputs: Sequence[int]


@dataclass(frozen=True)
class LiteFile:
    """A file that was parsed."""

    graphs: Sequence[LiteGraph]
    description: str
    content: bytes
    """A file that was written from what was parsed: what is judged is what is evaluated."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Names of inputs and outputs in the signature, by the numbers of their tensors."""
    states: Sequence[str] = ()
    """Names of variables that calls change: the last inputs and outputs of the main graph."""

    @property
    def inputs(self) -> Sequence[int]:
        """The tensors that users feed."""
        return self.graphs[0].inputs[: self._users(self.graphs[0].inputs)]

    @property
    def state_inputs(self) -> Sequence[int]:
        """The tensors that hold variables before a call."""
        return self.graphs[0].inputs[self._users(self.graphs[0].inputs) :]

    @property
    def outputs(self) -> Sequence[int]:
        """The tensors that users fetch."""
        return self.graphs[0].outputs[: self._users(self.graphs[0].outputs)]

    @property
    def state_outputs(self) -> Sequence[int]:
        """The tensors that hold variables after a call."""
        return self.graphs[0].outputs[self._users(self.graphs[0].outputs) :]

    def _users(self, numbers: Sequence[int]) -> int:
        """How many of the inputs or outputs belong to users."""
        return len(numbers) - len(self.states)

    @property
    def has_integers(self) -> bool:
        """Whether operators compute with integers that have a scale."""
        results = (
            graph.tensors[number]
            for graph in self.graphs
            for operator in graph.operators
            for number in operator.outputs
        )
        return any(tensor.scaling is not None for tensor in results)

    @property
    def info(self) -> SignatureInfo:
        """The signature of the main graph."""
        main = self.graphs[0]
        return SignatureInfo(
            key=DEFAULT_SIGNATURE,
            inputs=tuple(self._describe(main, number) for number in self.inputs),
            outputs=tuple(self._describe(main, number) for number in self.outputs),
            ordered_by="model",
        )

    def _describe(self, graph: LiteGraph, number: int) -> TensorInfo:
        tensor = graph.tensors[number]
        real = "" if tensor.scaling is None else str(tensor.scaling)
        name = self.name_of(number)
        return TensorInfo(name=name, dtype=tensor.dtype, shape=tensor.shape, real=real)

    def name_of(self, number: int) -> str:
        """The name of an input or output of the main graph."""
        return self.names.get(number) or _short(self.graphs[0].tensors[number].name)


def read_file(path: Path) -> LiteFile:
    """Parses a file.

    Raises:
        UnsupportedModelError: It is not one of TensorFlow Lite, or is damaged.
    """
    content = path.read_bytes()
    if content[4:8] != _IDENTIFIER:
        raise UnsupportedModelError(
            f"{one_line(path.name)} is not a file of TensorFlow Lite, which has TFL3 as its bytes 4 to 8; {_FIX}",
            code="MW416",
        )
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    codes = [_code(code) for code in model.operatorCodes or ()]
    if not model.subgraphs:
        raise UnsupportedModelError(f"{one_line(path.name)} has no subgraph; {_FIX}", code="MW416")
    names = _signature_names(model)
    states = separate_state(model, codes)
    widen_weights(model, codes)
    graphs = [_graph(graph, codes, model.buffers) for graph in model.subgraphs]
    builder = flatbuffers.Builder(len(content))
    builder.Finish(model.Pack(builder), _IDENTIFIER)
    written = bytes(builder.Output())
    return LiteFile(graphs, _text(model.description), written, names, states)


def _code(code: Any) -> str:
    # Old files have the number in a field of eight bits.
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    if number == _CUSTOM:
        return f"CUSTOM {_text(code.customCode)}"
    return _OPERATORS.get(number, f"number {number}")


def _graph(graph: Any, codes: Sequence[str], buffers: Sequence[Any]) -> LiteGraph:
    tensors = [_tensor(tensor, buffers) for tensor in _list(graph.tensors)]
    operators = [
        LiteOperator(
            codes[operator.opcodeIndex],
            [int(number) for number in _list(operator.inputs)],
            [int(number) for number in _list(operator.outputs)],
            operator.builtinOptions or operator.builtinOptions2,
        )
        for operator in _list(graph.operators)
    ]
    inputs, outputs = ([int(n) for n in _list(part)] for part in (graph.inputs, graph.outputs))
    numbers = [n for operator in operators for n in (*operator.inputs, *operator.outputs)]
    for number in (*inputs, *outputs, *numbers):
        if not -1 <= number < len(tensors):
            raise UnsupportedModelError(
                f"the file is damaged: it names the tensor {number} of {len(tensors)}; {_FIX}",
                code="MW416",
            )
    return LiteGraph(tensors, operators, inputs, outputs)


def _tensor(tensor: Any, buffers: Sequence[Any]) -> LiteTensor:
    dtype = _DTYPES.get(tensor.type)
    name = _text(tensor.name)
    if dtype is None:
        raise UnsupportedModelError(
            f"{one_line(repr(name))} has elements of the type number {tensor.type}, which modelwheel does not read; "
            "convert the model with other types",
            code="MW404",
        )
    shape = [int(extent) for extent in _list(tensor.shape)]
    signature = [int(extent) for extent in _list(tensor.shapeSignature)]
    free = len(signature) == len(shape)
    buffer = buffers[tensor.buffer]
    if buffer.offset > 1:
        raise UnsupportedModelError(
            f"{one_line(repr(name))} is stored behind the tables of the file, as in files above 2 GB, which modelwheel does "
            "not read; convert a part of the model",
        )
    data = bytes(buffer.data) if len(_list(buffer.data)) else None
    return LiteTensor(
        name,
        dtype,
        tuple(None if free and signature[n] < 0 else extent for n, extent in enumerate(shape)),
        _scaling(name, dtype, shape, tensor.quantization),
        data,
        bool(tensor.isVariable),
        tensor.sparsity,
    )


def _scaling(name: str, dtype: str, shape: Sequence[int], quantization: Any) -> Scaling | None:
    scales = np.asarray(() if quantization is None else _list(quantization.scale), np.float32)
    if not scales.size or not dtype.lstrip("u").startswith("int"):
        return None
    zeros = np.asarray(_list(quantization.zeroPoint), np.int64)
    zeros = zeros if zeros.size else np.zeros(scales.size, np.int64)
    axis, kind = int(quantization.quantizedDimension), np.iinfo(dtype)
    usable = (
        zeros.size == scales.size
        and np.all(np.isfinite(scales) & (scales > 0))
        and np.all((zeros >= kind.min) & (zeros <= kind.max))
        and (scales.size == 1 or (0 <= axis < len(shape) and shape[axis] == scales.size))
    )
    if not usable:
        raise UnsupportedModelError(
            f"the file is damaged: the scales and zero points of {one_line(repr(name))} do not fit its {dtype} elements of the "
            f"shape {list(shape)}; {_FIX}",
            code="MW416",
        )
    return Scaling(scales, zeros, axis)


def _signature_names(model: Any) -> dict[int, str]:
    """Names of the inputs and outputs of the main graph, by the numbers of their tensors, from its signature."""
    for signature in model.signatureDefs or ():
        if signature.subgraphIndex == 0:
            ports = (*_list(signature.inputs), *_list(signature.outputs))
            return {int(port.tensorIndex): _text(port.name) for port in ports}
    return {}


def _list(values: Any) -> Any:
    return () if values is None else values


def _text(value: bytes | str | None) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value or ""


def _short(name: str) -> str:
    """The name of a tensor without what the converter wrote around it: `serving_default_x:0` is `x`."""
    return name.removesuffix(":0").removeprefix("serving_default_")
