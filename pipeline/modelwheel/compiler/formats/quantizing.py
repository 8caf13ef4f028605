"""Layers of narrower numbers in place of layers of float32: the arithmetic of scales, and what a format does.

Data are unsigned with a zero point, weights signed with a scale for each feature, as in Jacob et al., Quantization and Training of Neural
Networks for Efficient Integer-Arithmetic-Only Inference, CVPR 2018. Of the range of the data, the part is taken with the least square error.

bfloat16 numbers are the nearest ones, ties to even, as CPUs convert. Weights that are such numbers are stored as 16 bits by
`codegen`, also where the author of a model has rounded them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from ...model.quantization import QuantizedLayer
from ...spec.compute import Narrow
from ...thresholds import SMALLEST_HALVED, fill_panels

if TYPE_CHECKING:
    from ..loaded.base import Arrays, LoadedModel

Array = np.ndarray[Any, Any]

_FEWEST_WEIGHTS = 1024
"""Of a layer."""
_FEWEST_USES = 64
"""Of each value that a layer reads, in its products: converting one takes as long as some thirty of them gain. Filters for single features
have a use for each tap."""
_KEPT = 1 << 16
"""Values of a layer's data that are kept from each call."""
_PARTS = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Of the range, what is tried."""

Observer: TypeAlias = "Callable[[Arrays], Mapping[str, Array]]"
"""The data of layers in a call, by their names."""


@dataclass(frozen=True)
class FloatLayer:
    """A product or convolution of float32 by constants."""

    name: str
    weights: Array
    features: int
    """The axis of its weights along which each has its own scale."""
    channels: int
    """How many it reads at each place."""

    def gains_by(self, numbers: Narrow) -> bool:
        """Whether it computes faster with narrower numbers."""
        if numbers == "bf16":
            return self._gains_by_bfloat16
        # Integers must gain more than converting its data to them takes.
        uses = self.weights.size // max(self.channels, 1)
        finite = bool(np.all(np.isfinite(self.weights)))
        return finite and self.weights.size >= _FEWEST_WEIGHTS and uses >= _FEWEST_USES

    @property
    def _gains_by_bfloat16(self) -> bool:
        if self.weights.ndim != 2 or self.weights.nbytes < SMALLEST_HALVED:
            return False
        columns = self.weights.shape[self.features]
        return fill_panels(columns) and bool(np.all(np.isfinite(as_bfloat16(self.weights))))


class Quantizer(Protocol):
    """A model whose layers can compute with narrower numbers."""

    def layers(self, shapes: Mapping[str, tuple[int, ...]]) -> Sequence[FloatLayer]:
        """The layers that can, whether they gain by it or not, for inputs of these shapes, in the order of the model."""

    def observer(
        self, shapes: Mapping[str, tuple[int, ...]], layers: Sequence[FloatLayer]
    ) -> Observer:
        """A function of inputs of these shapes."""

    def quantized(self, layers: Sequence[QuantizedLayer]) -> LoadedModel:
        """The model with these layers."""


class Bytes(NamedTuple):
    """Weights as 8-bit integers."""

    values: Array
    """int8, of the shape of the weights."""
    scales: Array
    """float32, one for each feature."""


def as_bytes(layer: FloatLayer) -> Bytes:
    """The weights from -127 to 127, whose zero is exact."""
    others = tuple(axis for axis in range(layer.weights.ndim) if axis != layer.features)
    largest = np.abs(layer.weights).max(others)
    scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)
    wide = np.expand_dims(scales, others)
    return Bytes(np.clip(np.rint(layer.weights / wide), -127, 127).astype(np.int8), scales)


def as_bfloat16(weights: Array) -> Array:
    """The nearest bfloat16 numbers, as float32: their lower halves are 0."""
    bits = np.ascontiguousarray(weights, np.float32).view(np.uint32)
    nearest: Array = (bits + (bits >> 16 & 1) + np.uint32(0x7FFF)) & np.uint32(0xFFFF0000)
    return nearest.view(np.float32)


def bfloat16_error(layer: FloatLayer) -> float:
    """The mean square of what bfloat16 changes, over that of the weights."""
    return _ratio(as_bfloat16(layer.weights) - layer.weights, layer.weights)


def weights_error(layer: FloatLayer) -> float:
    """The mean square of what the integers change, over that of the weights."""
    values, scales = as_bytes(layer)
    others = tuple(axis for axis in range(layer.weights.ndim) if axis != layer.features)
    change = values * np.expand_dims(scales, others) - layer.weights
    return _ratio(change, layer.weights)


@dataclass
class DataRange:
    """The data of a layer, over some calls."""

    low: float = 0.0
    """Zero is always in the range: it is what windows find beyond an image."""
    high: float = 0.0
    _kept: list[Array] = field(default_factory=list)

    def add(self, data: Array) -> None:
        """The data of a call; values that are not finite do not count."""
        flat = np.ravel(data)
        flat = flat[np.isfinite(flat)]
        if flat.size:
            self.low = min(self.low, float(flat.min()))
            self.high = max(self.high, float(flat.max()))
            self._kept.append(flat[:: max(flat.size // _KEPT, 1)])

    def choose(self) -> tuple[float, int, float]:
        """Scale and zero point, and the mean square of what they change over that of the data."""
        if self.high == self.low:
            return 1.0, 0, 0.0
        kept = np.concatenate(self._kept)
        return min((self._with_part(kept, part) for part in _PARTS), key=lambda found: found[2])

    def _with_part(self, kept: Array, part: float) -> tuple[float, int, float]:
        scale = float(np.float32(part * (self.high - self.low) / 255))
        zero = int(np.clip(np.rint(-part * self.low / scale), 0, 255))
        numbers = np.clip(np.rint(kept / scale) + zero, 0, 255)
        return scale, zero, _ratio((numbers - zero) * scale - kept, kept)


def _ratio(change: Array, values: Array) -> float:
    size = float(np.mean(np.square(values, dtype=np.float64)))
    return float(np.mean(np.square(change, dtype=np.float64))) / size if size else 0.0
