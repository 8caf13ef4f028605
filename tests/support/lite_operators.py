"""Files of TensorFlow Lite with one operator, which its converter does not write or writes as others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from tests.support.lite import packed

X = np.array([[-4.5, -0.3, 0.0], [0.7, 2.5, 8.0]], np.float32)
_IMAGE = np.arange(32, dtype=np.float32).reshape(4, 2, 2, 2)
_POOL = {"padding": 1, "strideW": 1, "strideH": 1, "filterWidth": 2, "filterHeight": 2}
SINGLE: Mapping[str, tuple[list[Any], str, Mapping[str, Any]]] = {
    "BATCH_TO_SPACE_ND": ([_IMAGE, [2, 2], [[0, 0], [1, 0]]], "BatchToSpaceNDOptionsT", {}),
    "BITCAST": ([X], "BitcastOptionsT", {}),
    "BITWISE_XOR": ([np.arange(6, dtype=np.int32), [3]], "BitwiseXorOptionsT", {}),
    "BROADCAST_ARGS": ([np.array([2, 1], np.int32), [1, 3]], "", {}),
    "DYNAMIC_UPDATE_SLICE": (
        [X, np.array([[6], [9]], np.float32), [1, 2]],
        "DynamicUpdateSliceOptionsT",
        {},
    ),
    "EMBEDDING_LOOKUP": ([np.array([1, 0, 1], np.int32), X], "", {}),
    "EXPAND_DIMS": ([X, [1]], "ExpandDimsOptionsT", {}),
    "FILL": ([np.array([2, 3], np.int32), np.float32(4)], "FillOptionsT", {}),
    "GREATER_EQUAL": ([X, X * X], "GreaterEqualOptionsT", {}),
    "HARD_SWISH": ([X], "HardSwishOptionsT", {}),
    "L2_POOL_2D": ([_IMAGE], "Pool2DOptionsT", _POOL),
    "LOGICAL_NOT": ([X > 0], "LogicalNotOptionsT", {}),
    "MATRIX_DIAG": ([X], "MatrixDiagOptionsT", {}),
    "MATRIX_SET_DIAG": ([X, np.array([5, 6], np.float32)], "MatrixSetDiagOptionsT", {}),
    "PRELU": ([X, np.array([0.5, -1, 2], np.float32)], "", {}),
    "RANK": ([X], "RankOptionsT", {}),
    "RELU6": ([X], "", {}),
    "RELU_0_TO_1": ([X], "", {}),
    "RIGHT_SHIFT": ([np.arange(6, dtype=np.int32), [1]], "RightShiftOptionsT", {}),
    "SEGMENT_SUM": ([X, [0, 0]], "SegmentSumOptionsT", {}),
    "SELECT_V2": ([X > 0, X, np.float32(9)], "SelectV2OptionsT", {}),
    "SHAPE": ([X], "ShapeOptionsT", {"outType": schema.TensorType.INT32}),
    "SPARSE_TO_DENSE": (
        [np.array([0, 2], np.int32), [4], np.array([5, 6], np.float32), np.float32(1)],
        "SparseToDenseOptionsT",
        {},
    ),
    "SQUARE": ([X], "SquareOptionsT", {}),
    "SQUEEZE": ([X[:1]], "SqueezeOptionsT", {"squeezeDims": [0]}),
    **{
        f"UNSORTED_SEGMENT_{name.upper()}": (
            [X, [1, 0], np.int32(2)],
            f"UnsortedSegment{name}OptionsT",
            {},
        )
        for name in ("Max", "Min", "Prod", "Sum")
    },
    "ZEROS_LIKE": ([X], "ZerosLikeOptionsT", {}),
}
"""Operators that no model above has: the first input is one of the model, the others are constants."""
_RESULTS = {
    **dict.fromkeys(("GREATER_EQUAL", "LOGICAL_NOT"), np.bool_),
    **dict.fromkeys(("BITCAST", "RANK", "SHAPE"), np.int32),
    **dict.fromkeys(("EMBEDDING_LOOKUP", "SELECT_V2", "FILL", "SPARSE_TO_DENSE"), np.float32),
}
"""Types of results that are not those of the first input."""
_TYPES = {"float32": 0, "int32": 2, "bool": 6}
"""Numbers of TensorType in the schema."""


def single(op: str) -> bytes:
    """A file with one operator."""
    values, kind, options = SINGLE[op]
    arrays = [np.asarray(v, None if hasattr(v, "dtype") else np.int32) for v in values]
    made = schema.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = 0, list(range(len(arrays))), [len(arrays)]
    if kind:
        made.builtinOptions = getattr(schema, kind)()
        name = kind.removesuffix("T")
        second = hasattr(schema.BuiltinOptions2, name)
        made.builtinOptionsType = getattr(schema.BuiltinOptions, name, 0)
        if second:
            made.builtinOptions2, made.builtinOptions = made.builtinOptions, None
            made.builtinOptions2Type = getattr(schema.BuiltinOptions2, name)
        for field, value in options.items():
            setattr(made.builtinOptions, field, value)
    empty = np.zeros(arrays[0].shape, _RESULTS.get(op, arrays[0].dtype))
    graph = schema.SubGraphT()
    graph.operators, graph.inputs, graph.outputs = [made], [0], [len(arrays)]
    model = schema.ModelT()
    model.version, model.subgraphs, model.buffers = 3, [graph], [schema.BufferT()]
    graph.tensors = []
    for number, array in enumerate((*arrays, empty)):
        tensor = schema.TensorT()
        tensor.name, tensor.shape = f"t{number}", list(array.shape)
        tensor.type = _TYPES[array.dtype.name]
        if 0 < number < len(arrays):
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(array.tobytes(), np.uint8)
            tensor.buffer = len(model.buffers)
            model.buffers.append(buffer)
        graph.tensors.append(tensor)
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, op)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
    model.operatorCodes = [code]
    return packed(model)
