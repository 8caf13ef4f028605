"""Reads XLA's protobuf of a module (xla/service/hlo.proto) as the typed records of `compiler/ir/hlo.py`."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from ...dtypes import ElementType
from ..ir.hlo import (
    Computation,
    ConvolutionNumbers,
    DotNumbers,
    GatherNumbers,
    Instruction,
    Module,
    PadAxis,
    Scalar,
    Shape,
    SliceAxis,
    WindowAxis,
)

_FIELDS = {
    ElementType.BOOL: "preds",
    ElementType.INT32: "s32s",
    ElementType.INT64: "s64s",
    ElementType.UINT32: "u32s",
    ElementType.UINT64: "u64s",
    ElementType.FLOAT32: "f32s",
    ElementType.FLOAT64: "f64s",
}
"""The fields of `xla.LiteralProto` with a number for each element."""
_BYTES = {
    ElementType.INT8: ("s8s", "<i1"),
    ElementType.INT16: ("s16s", "<i2"),
    ElementType.UINT8: ("u8s", "<u1"),
    ElementType.UINT16: ("u16s", "<u2"),
    ElementType.FLOAT16: ("f16s", "<f2"),
}
"""The fields with the bytes of all elements."""
_COMPLEX = {ElementType.COMPLEX64: "c64s", ElementType.COMPLEX128: "c128s"}


def read_module(proto: Any) -> tuple[Module, Mapping[int, Instruction]]:
    """The module of an `xla.HloModuleProto`, and its instructions by their numbers there."""
    computations: dict[int, Computation] = {}
    instructions: dict[int, Instruction] = {}
    # XLA writes computations after those that they call, and instructions after their operands.
    for computation in proto.computations:
        for instruction in computation.instructions:
            instructions[instruction.id] = _instruction(instruction, instructions, computations)
        computations[computation.id] = Computation(
            name=computation.name,
            instructions=tuple(instructions[i.id] for i in computation.instructions),
            root=instructions[computation.root_id],
        )
    module = Module(
        name=proto.name,
        computations=tuple(computations.values()),
        entry=computations[proto.entry_computation_id],
    )
    return module, instructions


def _instruction(
    proto: Any, instructions: Mapping[int, Instruction], computations: Mapping[int, Computation]
) -> Instruction:
    shape = read_shape(proto.shape)
    return Instruction(
        name=proto.name,
        opcode=proto.opcode,
        shape=shape,
        operands=tuple(instructions[number] for number in proto.operand_ids),
        called=tuple(computations[number] for number in proto.called_computation_ids),
        dimensions=tuple(proto.dimensions),
        parameter_number=proto.parameter_number,
        tuple_index=proto.tuple_index,
        value=_value(proto.literal, shape) if proto.opcode == "constant" else None,
        direction=proto.comparison_direction,
        comparison=proto.comparison_type,
        slices=tuple(SliceAxis(s.start, s.limit, s.stride) for s in proto.slice_dimensions),
        slice_sizes=tuple(proto.gather_slice_sizes),
        padding=tuple(
            PadAxis(axis.edge_padding_low, axis.edge_padding_high, axis.interior_padding)
            for axis in proto.padding_config.dimensions
        ),
        window=read_window(proto.window),
        dot=(read_dot_numbers(proto.dot_dimension_numbers) if proto.opcode == "dot" else None),
        convolution=(
            read_convolution_numbers(proto.convolution_dimension_numbers)
            if proto.opcode == "convolution"
            else None
        ),
        gather=(
            _gather_numbers(proto.gather_dimension_numbers) if proto.opcode == "gather" else None
        ),
        feature_groups=proto.feature_group_count or 1,
        batch_groups=proto.batch_group_count or 1,
        op_name=proto.metadata.op_name,
    )


@cache
def _primitives(shape: Any) -> Mapping[int, str]:
    """XLA's names of element types by their numbers, from the descriptor of `xla.ShapeProto`."""
    values = shape.fields_by_name["element_type"].enum_type.values
    return {value.number: value.name.lower() for value in values}


def read_shape(proto: Any) -> Shape:
    """The shape of an `xla.ShapeProto`."""
    return Shape(
        primitive=_primitives(proto.DESCRIPTOR)[proto.element_type],
        dimensions=tuple(proto.dimensions),
        minor_to_major=tuple(proto.layout.minor_to_major),
        tuple_shapes=tuple(map(read_shape, proto.tuple_shapes)),
    )


def read_dot_numbers(proto: Any) -> DotNumbers:
    """The axes in an `xla.DotDimensionNumbers`."""
    return DotNumbers(
        lhs_batch=tuple(proto.lhs_batch_dimensions),
        lhs_contracting=tuple(proto.lhs_contracting_dimensions),
        rhs_batch=tuple(proto.rhs_batch_dimensions),
        rhs_contracting=tuple(proto.rhs_contracting_dimensions),
    )


def read_convolution_numbers(proto: Any) -> ConvolutionNumbers:
    """The axes in an `xla.ConvolutionDimensionNumbers`."""
    return ConvolutionNumbers(
        input_batch=proto.input_batch_dimension,
        input_feature=proto.input_feature_dimension,
        input_spatial=tuple(proto.input_spatial_dimensions),
        kernel_input_feature=proto.kernel_input_feature_dimension,
        kernel_output_feature=proto.kernel_output_feature_dimension,
        kernel_spatial=tuple(proto.kernel_spatial_dimensions),
        output_batch=proto.output_batch_dimension,
        output_feature=proto.output_feature_dimension,
        output_spatial=tuple(proto.output_spatial_dimensions),
    )


def read_window(proto: Any) -> tuple[WindowAxis, ...]:
    """The axes of an `xla.Window`, in which 0 is a stride or dilation that was not set."""
    return tuple(
        WindowAxis(
            size=axis.size,
            stride=axis.stride or 1,
            pad_low=axis.padding_low,
            pad_high=axis.padding_high,
            base_dilation=axis.base_dilation or 1,
            window_dilation=axis.window_dilation or 1,
            reversed=axis.window_reversal,
        )
        for axis in proto.dimensions
    )


def _gather_numbers(proto: Any) -> GatherNumbers:
    return GatherNumbers(
        offset_dims=tuple(proto.offset_dims),
        collapsed_slice_dims=tuple(proto.collapsed_slice_dims),
        start_index_map=tuple(proto.start_index_map),
        operand_batching_dims=tuple(proto.operand_batching_dims),
        start_indices_batching_dims=tuple(proto.start_indices_batching_dims),
        index_vector_dim=proto.index_vector_dim,
    )


def _value(literal: Any, shape: Shape) -> Scalar | None:
    """The element of a literal that has only one."""
    element = shape.element_type
    if element is None or shape.elements != 1:
        return None
    if element in _FIELDS:
        values: Any = getattr(literal, _FIELDS[element])
    elif element in _BYTES:
        name, dtype = _BYTES[element]
        values = np.frombuffer(getattr(literal, name), dtype).tolist()
    elif element == ElementType.BFLOAT16:
        # The upper half of a 32-bit float.
        values = [x for (x,) in struct.iter_unpack("<f", b"\0\0" + literal.bf16s)]
    else:
        values = [complex(*getattr(literal, _COMPLEX[element]))]
    (value,) = values
    return value  # type: ignore[no-any-return]
