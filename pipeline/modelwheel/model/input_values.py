"""The values with which a model is compared: random ones, within what the model can use and the spec allows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from .inspection import ColumnValues, Mask, SignatureInfo, ValidValues

MAX_PARTS = 1 << 20
"""Most parts that the bounds of an input are divided into."""
Ranges = Mapping[str, tuple[float, float]]
"""[low, high) by input, or by some columns of one: `x`, `x[3]`, `x[4:6]`."""


def usable_ranges(signature: SignatureInfo, ranges: Ranges) -> dict[str, tuple[float, float]]:
    """The bounds of random inputs: those of the spec, then those that follow from the model."""
    derived = {t.name: t.valid.bounds for t in signature.inputs if t.valid is not None}
    names = {tensor.name for tensor in signature.inputs}
    own = {name: bounds for name, bounds in ranges.items() if name in names}
    return {n: bounds for n, bounds in derived.items() if bounds is not None} | own


def usable_columns(signature: SignatureInfo, ranges: Ranges) -> dict[str, tuple[ColumnValues, ...]]:
    """The columns with bounds of their own; those of the spec come last, as the last ones count."""
    by_name = {}
    for tensor in signature.inputs:
        derived = tensor.valid.columns if tensor.valid and tensor.name not in ranges else ()
        columns = (*derived, *given_columns(signature, ranges, tensor.name))
        if columns:
            by_name[tensor.name] = columns
    return by_name


def given_columns(signature: SignatureInfo, ranges: Ranges, name: str) -> Iterator[ColumnValues]:
    """The columns of one input that the spec describes."""
    for key, (low, high) in ranges.items():
        part = split_columns(signature, key)
        if part is not None and part[0] == name:
            dtype = next(tensor.dtype for tensor in signature.inputs if tensor.name == name)
            parts = parts_of(dtype, low, high)
            yield ColumnValues(first=part[1], end=part[2], low=low, high=high, parts=parts)


def usable_parts(signature: SignatureInfo, ranges: Ranges) -> dict[str, int]:
    """Into how many parts the bounds of inputs are divided; those of the spec only if every integer is one."""
    by_name = {t.name: t.valid.parts for t in signature.inputs if t.valid is not None}
    for tensor in signature.inputs:
        if tensor.name in ranges:
            by_name[tensor.name] = parts_of(tensor.dtype, *ranges[tensor.name])
    return {name: parts for name, parts in by_name.items() if parts}


def usable_some(signature: SignatureInfo, ranges: Ranges) -> tuple[str, ...]:
    """The masks, of which each row has an element that is not 0."""
    return tuple(
        tensor.name
        for tensor in signature.inputs
        if tensor.name not in ranges
        and (tensor.dtype == "bool" or (tensor.valid is not None and tensor.valid.some))
    )


def wide_ranges(signature: SignatureInfo, ranges: Ranges) -> tuple[str, ...]:
    """The inputs whose boundary rows go to the ends of their type, whatever their bounds are."""
    return tuple(
        t.name for t in signature.inputs if t.valid and t.valid.wide and t.name not in ranges
    )


def parts_of(dtype: str, low: float, high: float) -> int:
    """One part for each integer within bounds; 0 if there are too many, or if it is another type."""
    count = math.ceil(high) - math.ceil(low)
    return count if "int" in dtype and 1 < count <= MAX_PARTS else 0


def valid_values(signature: SignatureInfo, ranges: Ranges) -> dict[str, ValidValues]:
    """The values that callers may pass, by input: those of the spec, or else those beyond which the model fails."""
    by_name = {}
    for tensor in signature.inputs:
        derived = tensor.valid or ValidValues()
        hard = derived.every_bounds
        low, high = ranges.get(tensor.name, (None, None))
        columns = tuple(given_columns(signature, ranges, tensor.name))
        if tensor.name in ranges:
            derived = ValidValues()
        elif derived.bounds in hard:
            low, high = derived.low, derived.high
        columns = (*(c for c in derived.columns if (c.low, c.high) in hard), *columns)
        if low is not None or columns:
            update = {"low": low, "high": high, "columns": columns}
            by_name[tensor.name] = derived.model_copy(update=update)
    return by_name


def split_columns(signature: SignatureInfo, key: str) -> tuple[str, int, int] | None:
    """The input and its columns that `x[3]` or `x[4:6]` means, the end not reached; None for another name."""
    match = re.fullmatch(r"(.+)\[(\d{1,9})(?::(\d{1,9}))?\]", key)
    names = {tensor.name for tensor in signature.inputs}
    if match is None or key in names or match[1] not in names:
        return None
    return match[1], int(match[2]), int(match[3] or int(match[2]) + 1)


def usable_masks(signature: SignatureInfo, ranges: Ranges) -> dict[str, tuple[Mask, ...]]:
    """The values that random inputs must hold now and then, if the bounds of the spec allow them."""
    by_name = {}
    for tensor in signature.inputs:
        masks = tensor.valid.masks if tensor.valid is not None else ()
        allowed = [ranges[tensor.name]] if tensor.name in ranges else []
        allowed += [(c.low, c.high) for c in given_columns(signature, ranges, tensor.name)]
        masks = tuple(m for m in masks if all(low <= m.value < high for low, high in allowed))
        if masks:
            by_name[tensor.name] = masks
    return by_name
