"""The values with which a model is compared: random ones, within what the model can use and the spec allows."""

from __future__ import annotations

from collections.abc import Mapping

from .inspection import Mask, SignatureInfo

Ranges = Mapping[str, tuple[float, float]]
"""[low, high) by input."""


def usable_ranges(signature: SignatureInfo, given: Ranges) -> dict[str, tuple[float, float]]:
    """The bounds of random inputs: those of the spec, then those that follow from the model."""
    derived = {t.name: t.valid.bounds for t in signature.inputs if t.valid is not None}
    return {n: bounds for n, bounds in derived.items() if bounds is not None} | dict(given)


def usable_masks(signature: SignatureInfo, given: Ranges) -> dict[str, tuple[Mask, ...]]:
    """The values that random inputs must hold now and then, if the bounds of the spec allow them."""
    found = {}
    for tensor in signature.inputs:
        masks = tensor.valid.masks if tensor.valid is not None else ()
        if tensor.name in given:
            low, high = given[tensor.name]
            masks = tuple(mask for mask in masks if low <= mask.value < high)
        if masks:
            found[tensor.name] = masks
    return found
