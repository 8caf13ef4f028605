"""The layers of a model that compute with narrower numbers because its spec asks for it (`package.compute`), and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import Field

from ..spec.compute import Narrow
from ..util.records import JsonRecord, omitted

QUANTIZATION = "quantization.json"
"""The file with a `Quantization`."""


class Rounding(NamedTuple):
    """How data x become 8-bit integers: round(x / scale) + zero, from 0 to 255."""

    scale: float
    zero: int


class QuantizedLayer(JsonRecord):
    """A product or convolution by constants. Without a scale, its weights are bfloat16. With one, its data become 8-bit
    integers, and its weights -127 to 127 with a scale for each feature."""

    name: str
    """The operation's, unique in the model."""
    scale: float | None = omitted(None)
    zero: int | None = omitted(None)

    @property
    def rounding(self) -> Rounding | None:
        """How its data are rounded; None if they are not."""
        if self.scale is None or self.zero is None:
            return None
        return Rounding(self.scale, self.zero)


class MeasuredLayer(QuantizedLayer):
    """A layer with what its numbers gain and lose."""

    error: float
    """Estimated from its data and weights: the root mean square of the error of its results over that of its results."""
    saved_bytes: int
    """Of its weights."""

    @property
    def plain(self) -> QuantizedLayer:
        """The layer without what was measured, which changes nothing of what is compiled."""
        return QuantizedLayer(name=self.name, scale=self.scale, zero=self.zero)


class Quantization(JsonRecord):
    """The layers of a model, and what their numbers change."""

    type: Narrow = "int8"
    layers: tuple[MeasuredLayer, ...] = ()
    """In the order of the model."""
    left: tuple[str, ...] = ()
    """Layers that compute in float32, since all of them would be over the budget."""
    rows: int = Field(ge=0, default=0)
    """The rows of the samples with which errors were measured, none of which has decided a scale if there were enough."""
    errors: Mapping[str, float] = {}
    """For every output, the root mean square of its change over its range in float32."""
    changed_decisions: float = 0.0
    """The part of the rows whose largest score is another one, or whose only score is on the other side of the middle."""
