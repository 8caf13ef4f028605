"""Has ONNX Runtime multiply bytes exactly on all CPUs.

Without VNNI, it multiplies unsigned by signed bytes with `vpmaddubsw`, which adds two products in 16 bits and
saturates: 255 * 127 + 255 * 127 becomes 32767. Two unsigned or two signed operands are exact. So signed weights and
their zero point become unsigned: both grow by 128, and their difference stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from .exact_spectra import constants_of
from .operators.onnx_graph import subgraphs
from .operators.onnx_node import MICROSOFT

_OFFSET = 128


class _Operand(NamedTuple):
    """Numbers of inputs of an operator."""

    signed: int
    """Becomes unsigned where it is signed and the other is unsigned."""
    zero: int
    """Its zero point, which may be absent."""
    other: int | None = None
    """The other operand; None if the operator quantises it, to unsigned bytes."""
    other_zero: int | None = None
    """Has the type of the other, and is known more often."""


_PRODUCTS: Mapping[tuple[str, str], tuple[_Operand, ...]] = {
    ("", "MatMulInteger"): (_Operand(1, 3, 0, 2),),
    ("", "ConvInteger"): (_Operand(0, 2, 1, 3),),  # its weights are the operand on the left
    ("", "QLinearMatMul"): (_Operand(3, 5, 0, 2),),
    ("", "QLinearConv"): (_Operand(3, 5, 0, 2),),
    (MICROSOFT, "QGemm"): (_Operand(3, 5, 0, 2),),
    (MICROSOFT, "MatMulIntegerToFloat"): (_Operand(1, 5, 0, 4),),
    (MICROSOFT, "QAttention"): (_Operand(1, 7, 0, 6),),
    (MICROSOFT, "DynamicQuantizeMatMul"): (_Operand(1, 3),),
    (MICROSOFT, "DynamicQuantizeLSTM"): (_Operand(1, 9), _Operand(2, 11)),
}


def with_exact_bytes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without products of unsigned by signed bytes.

    Args:
        model: With its weights. Where the types of its bytes are not known, products stay as they are.
    """
    if not any(_operands(node) for node in _nodes(model.graph)):
        return model
    copy = shape_inference.infer_shapes(model)
    _rewrite(copy.graph, {}, {})
    return copy


def _operands(node: onnx.NodeProto) -> tuple[_Operand, ...]:
    domain = "" if node.domain == "ai.onnx" else node.domain
    return _PRODUCTS.get((domain, node.op_type), ())


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from _nodes(inner)


def _rewrite(
    graph: onnx.GraphProto, types: Mapping[str, int], constants: Mapping[str, TensorProto]
) -> None:
    """Rewrites a graph in place, and those inside its nodes.

    Args:
        types: Element types of the values that are known outside.
        constants: Those outside.
    """
    constants = {**constants, **constants_of(graph)}
    described = (*graph.input, *graph.value_info, *graph.output)
    types = {
        **types,
        **{value.name: value.type.tensor_type.elem_type for value in described},
        **{name: tensor.data_type for name, tensor in constants.items()},
    }
    nodes = list(graph.node)
    del graph.node[:]
    made: set[str] = set()
    for node in nodes:
        for inner in subgraphs(node):
            _rewrite(inner, types, constants)
        for operand in _operands(node):
            if _is_mixed(node, operand, types):
                for place in (operand.signed, operand.zero):
                    _make_unsigned(node, place, constants, graph, made)
        graph.node.append(node)


def _is_mixed(node: onnx.NodeProto, operand: _Operand, types: Mapping[str, int]) -> bool:
    def kind(*places: int | None) -> int | None:
        given = (node.input[at] for at in places if at is not None and at < len(node.input))
        return next((types[name] for name in given if types.get(name)), None)

    other = TensorProto.UINT8 if operand.other is None else kind(operand.other_zero, operand.other)
    return other == TensorProto.UINT8 and kind(operand.zero, operand.signed) == TensorProto.INT8


def _make_unsigned(
    node: onnx.NodeProto,
    place: int,
    constants: Mapping[str, TensorProto],
    graph: onnx.GraphProto,
    made: set[str],
) -> None:
    """Has a node read an input that is 128 larger, and unsigned."""
    node.input.extend([""] * (place + 1 - len(node.input)))
    name = node.input[place]
    result = f"{name}/unsigned"
    node.input[place] = result
    if result in made:
        return
    made.add(result)
    if not name or name in constants:
        signed = numpy_helper.to_array(constants[name]) if name else np.zeros((), np.int8)
        unsigned = (signed.astype(np.int16) + _OFFSET).astype(np.uint8)
        graph.initializer.append(numpy_helper.from_array(unsigned, result))
        return
    offset = f"{result}/offset"
    graph.initializer.append(numpy_helper.from_array(np.array(_OFFSET, np.int32), offset))
    wide, larger = f"{result}/wide", f"{result}/larger"
    graph.node.extend(
        [
            helper.make_node("Cast", [name], [wide], to=TensorProto.INT32),
            helper.make_node("Add", [wide, offset], [larger]),
            helper.make_node("Cast", [larger], [result], to=TensorProto.UINT8),
        ]
    )
