"""Changes files of TensorFlow Lite before anything of them is read: what is compiled and what the interpreter evaluates are the same.

Variables that calls change become inputs and outputs, so that the caller of the interpreter holds them. Weights of 8 bits of
operators that compute with floating-point numbers become such numbers: the interpreter would round what it multiplies them by, in each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

_READ, _ASSIGN, _HANDLE = "READ_VARIABLE", "ASSIGN_VARIABLE", "VAR_HANDLE"
_WITH_SCALES = frozenset({"DEQUANTIZE", "QUANTIZE"})
"""Operators whose operands and results differ in type."""


def separate_state(model: Any, codes: Sequence[str]) -> list[str]:
    """Makes variables that the main subgraph assigns the last of its inputs and outputs, in place.

    Those that other subgraphs take stay variables.

    Returns:
        Their names, in the order of these inputs and outputs.
    """
    main = model.subgraphs[0]
    operators = list(main.operators or ())
    ops = [codes[operator.opcodeIndex] for operator in operators]
    handles = {
        int(operator.outputs[0]): variable_name(operator.builtinOptions)
        for op, operator in zip(ops, operators, strict=True)
        if op == _HANDLE
    }
    assigned, passed = set[int](), set[int]()
    for op, operator in zip(ops, operators, strict=True):
        if op == _ASSIGN:
            assigned.add(int(operator.inputs[0]))
        elif op != _READ:
            passed.update(map(int, _list(operator.inputs)))
    changed = {handles[n] for n in assigned & handles.keys()}
    changed -= {handles[n] for n in passed & handles.keys()}
    read: dict[str, int] = {}
    held: dict[str, int] = {}
    others: dict[int, int] = {}
    left = []
    for op, operator in zip(ops, operators, strict=True):
        operator.inputs = _renumbered(operator.inputs, others)
        accesses = op in (_READ, _ASSIGN, _HANDLE)
        number = operator.outputs[0] if op == _HANDLE else operator.inputs[0] if accesses else -1
        name = handles.get(int(number), "")
        if name not in changed:
            left.append(operator)
        elif op == _ASSIGN:
            held[name] = int(operator.inputs[1])
        elif op == _READ and name in held:
            others[int(operator.outputs[0])] = held[name]
        elif op == _READ:
            read[name] = held[name] = int(operator.outputs[0])
    main.operators = left
    main.inputs = np.array([*_list(main.inputs), *read.values()], np.int32)
    outputs = [*_renumbered(main.outputs, others), *(held[name] for name in read)]
    main.outputs = np.array(outputs, np.int32)
    if read:
        model.signatureDefs = None  # which list the inputs
    return list(read)


def variable_name(options: Any) -> str:
    """The name of the variable of a `VAR_HANDLE`, by its attributes."""
    container, name = (
        text.decode("utf-8", "replace") if isinstance(text, bytes) else text or ""
        for text in (options.container, options.sharedName)
    )
    return f"{container}/{name}"


def widen_weights(model: Any, codes: Sequence[str]) -> None:
    """Makes constants of 8-bit integers with a scale that operators on floats read float32, in place."""
    for graph in model.subgraphs:
        tensors = graph.tensors
        known: dict[int, int] = {}
        for operator in graph.operators or ():
            results = [tensors[n] for n in _list(operator.outputs) if n >= 0]
            floats = results and all(t.type == schema.TensorType.FLOAT32 for t in results)
            if codes[operator.opcodeIndex] in _WITH_SCALES or not floats:
                continue
            for number in map(int, _list(operator.inputs)):
                if number >= 0 and number not in known and _is_stored(model, tensors[number]):
                    known[number] = len(tensors)
                    tensors.append(_wide(model, tensors[number]))
            operator.inputs = _renumbered(operator.inputs, known)


def _is_stored(model: Any, tensor: Any) -> bool:
    """Whether it is a constant of 8-bit integers with a scale."""
    bytes_ = tensor.type in (schema.TensorType.INT8, schema.TensorType.UINT8)
    quantization = tensor.quantization
    scaled = quantization is not None and len(_list(quantization.scale)) > 0
    return bytes_ and scaled and len(_list(model.buffers[tensor.buffer].data)) > 0


def _wide(model: Any, tensor: Any) -> Any:
    """Another tensor, with the real numbers."""
    quantization = tensor.quantization
    dtype = np.int8 if tensor.type == schema.TensorType.INT8 else np.uint8
    shape = [int(extent) for extent in tensor.shape]
    numbers = np.frombuffer(bytes(model.buffers[tensor.buffer].data), dtype).reshape(shape)
    scales = np.asarray(quantization.scale, np.float32)
    zeros = np.asarray(_list(quantization.zeroPoint), np.int64)
    axis = [1] * len(shape)
    if scales.size > 1:
        axis[quantization.quantizedDimension] = -1
    values = (numbers - (zeros.reshape(axis) if zeros.size else 0)) * scales.reshape(axis)
    made, buffer = schema.TensorT(), schema.BufferT()
    buffer.data = np.frombuffer(np.ascontiguousarray(values, np.float32).tobytes(), np.uint8)
    model.buffers.append(buffer)
    made.name, made.shape, made.type = tensor.name, tensor.shape, schema.TensorType.FLOAT32
    made.buffer, made.hasRank = len(model.buffers) - 1, True
    return made


def _renumbered(numbers: Any, others: dict[int, int]) -> Any:
    return np.array([others.get(int(n), int(n)) for n in _list(numbers)], np.int32)


def _list(values: Any) -> Any:
    return () if values is None else values
