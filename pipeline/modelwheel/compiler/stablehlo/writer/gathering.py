"""Gathers and scatters."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import numpy as np

from .builder import Value
from .fold import foldable
from .mlir_types import DType
from .pointwise import select
from .reducing import Kind
from .reshaping import concatenate, iota, numbers, reshape

Update: TypeAlias = Literal["set"] | Kind


def wrap_negative(indices: Value, extent: int) -> Value:
    """Indices where those below zero count from the end."""
    return select(indices < 0, indices + extent, indices) if indices.dtype.kind == "i" else indices


def take(x: Value, indices: Value, axis: int) -> Value:
    """Slices of the value at positions along an axis, as NumPy's `take`; indices are in range."""
    axis %= x.rank
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    if foldable([x, indices], math.prod(shape)):
        assert x.known is not None
        assert indices.known is not None
        return x.builder.constant(np.take(x.known, indices.known.astype(np.int64), axis))
    offsets = [*range(axis), *range(axis + indices.rank, len(shape))]
    sizes = [1 if a == axis else e for a, e in enumerate(x.shape)]
    attributes = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = {offsets}, "
        f"collapsed_slice_dims = [{axis}], start_index_map = [{axis}], "
        f"index_vector_dim = {indices.rank}>, slice_sizes = {numbers(sizes)}, "
        "indices_are_sorted = false"
    )
    return x.builder.emit("stablehlo.gather", [x, indices], x.dtype, shape, attributes)


def gather_nd(x: Value, indices: Value, batch: int = 0) -> Value:
    """Slices at the positions that the last axis of the indices holds (`GatherND` of ONNX)."""
    outer, depth = indices.shape[batch:-1], indices.shape[-1]
    rest = x.shape[batch + depth :]
    shape = (*x.shape[:batch], *outer, *rest)
    offsets = list(range(batch + len(outer), len(shape)))
    together = list(range(batch))
    collapsed = list(range(batch, batch + depth))
    sizes = [1] * (batch + depth) + list(rest)
    attributes = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = {offsets}, "
        f"collapsed_slice_dims = {collapsed}, operand_batching_dims = {together}, "
        f"start_indices_batching_dims = {together}, start_index_map = {collapsed}, "
        f"index_vector_dim = {indices.rank - 1}>, slice_sizes = {numbers(sizes)}, "
        "indices_are_sorted = false"
    )
    return x.builder.emit("stablehlo.gather", [x, indices], x.dtype, shape, attributes)


def take_along(x: Value, indices: Value, axis: int) -> Value:
    """For each element of the indices the element at that position along an axis (`GatherElements`)."""
    return gather_nd(x, _coordinates(indices, axis % x.rank))


def scatter_along(x: Value, indices: Value, updates: Value, axis: int, update: Update) -> Value:
    """The value with elements replaced or combined at positions along an axis (`ScatterElements`)."""
    return scatter_nd(x, _coordinates(indices, axis % x.rank), updates, update)


def _coordinates(indices: Value, axis: int) -> Value:
    """The position in the whole tensor of each index along one axis."""
    parts = [
        indices if a == axis else iota(indices.builder, indices.dtype, indices.shape, a)
        for a in range(indices.rank)
    ]
    return concatenate([reshape(part, [*indices.shape, 1]) for part in parts], indices.rank)


def scatter_nd(x: Value, indices: Value, updates: Value, update: Update) -> Value:
    """The value with slices replaced or combined at positions (`ScatterND`); those out of range are left out.

    Args:
        x: The value.
        indices: [..., depth], positions along the first axes of the value.
        updates: The slices, [..., *rest].
        update: What becomes of an element that is there.
    """
    depth = indices.shape[-1]
    window = list(range(indices.rank - 1, updates.rank))
    inserted = list(range(depth))
    pair: list[tuple[DType, tuple[int, ...]]] = [(x.dtype, ()), (x.dtype, ())]
    region, _ = x.builder.region(
        pair,
        lambda both: [
            both[1] if update == "set" else x.builder.emit(f"stablehlo.{update}", both, x.dtype, ())
        ],
    )
    attributes = (
        f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {window}, "
        f"inserted_window_dims = {inserted}, scatter_dims_to_operand_dims = {inserted}, "
        f"index_vector_dim = {indices.rank - 1}>, indices_are_sorted = false, unique_indices = false"
    )
    return x.builder.emit(
        "stablehlo.scatter", [x, indices, updates], x.dtype, x.shape, attributes, [region]
    )
