"""Generates the tables of a model that was compiled for several lengths."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ..signature import Signature, Tensor
from .cpp import braces


def length_tables(signature: Signature) -> str:
    """The lengths, how the axes of all tensors follow them, and what inputs are padded with; empty without lengths."""
    if not signature.lengths:
        return ""
    lengths = f"constexpr std::size_t lengths[] = {braces(signature.lengths)};\n"
    extents = _extents("input", signature.inputs) + _extents("output", signature.outputs)
    return lengths + extents + _pads(signature.inputs)


def _extents(kind: str, tensors: Sequence[Tensor]) -> str:
    # A scalar has no axes, and C++ has no empty arrays: one element that is never read.
    tables = "".join(
        f"constexpr modelwheel_extent {kind}_{number}_extents[] = "
        f"{braces(map(braces, tensor.extents or ((0, 0),)))};\n"
        for number, tensor in enumerate(tensors)
    )
    names = [f"{kind}_{number}_extents" for number in range(len(tensors))]
    return f"{tables}constexpr const modelwheel_extent *{kind}_extents[] = {braces(names)};\n"


def _pads(inputs: Sequence[Tensor]) -> str:
    tables, names = "", []
    for number, tensor in enumerate(inputs):
        names.append("nullptr" if tensor.pad is None else f"pad_{number}")
        if tensor.pad is not None:
            content = braces(pad_bytes(tensor, tensor.pad))
            tables += f"constexpr unsigned char pad_{number}[] = {content};\n"
    return f"{tables}constexpr const void *pads[] = {braces(names)};\n"


def pad_bytes(tensor: Tensor, value: float) -> bytes:
    """One element with this value, as a little-endian machine has it in memory."""
    dtype = tensor.dtype
    if dtype == "bfloat16":
        return struct.pack("<f", value)[2:]  # cut off: `check` accepts only values that it holds
    if dtype == "bool":
        return bytes([value != 0])
    if dtype.startswith("complex"):
        return struct.pack("<2f" if dtype == "complex64" else "<2d", value, 0)
    if dtype.startswith("float"):
        return struct.pack({"float16": "<e", "float32": "<f", "float64": "<d"}[dtype], value)
    return int(value).to_bytes(tensor.element_type.item_bytes, "little", signed=value < 0)
