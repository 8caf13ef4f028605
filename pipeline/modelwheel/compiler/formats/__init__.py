"""Readers of models, one module for each format; `of` chooses one.

A module reads a model in two ways: `inspect` by parsing alone, before anything is executed, and `load`
once it has been judged.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from ...errors import UnsupportedModelError
from ...model.inspection import Inspection
from ...model.quantization import QuantizedLayer
from ...model.readings import Reading
from ...model.renames import arrange
from ...spec.formats import FORMATS
from ..loaded.guarded import GuardedModel, reading_errors
from ..loaded.renamed import renamed

if TYPE_CHECKING:
    from ..loaded.base import LoadedModel
    from .quantizing import FloatLayer, Observer, Quantizer

_T = TypeVar("_T")

DEFAULT_SIGNATURE = "serving_default"
"""The signature of formats whose models have one without a name."""

_FORMATS = ("graph_def", "keras", "onnx", "pytorch", "saved_model", "stablehlo", "tflite")
"""Each has a folder, and in it a module of its name."""
_QUANTIZERS: Mapping[str, str] = {
    **dict.fromkeys(("graph_def", "keras", "saved_model"), ".graph_layers"),
    "onnx": ".onnx.onnx_quantize",
}
"""The modules whose function `quantizer` makes a `Quantizer` of a loaded model."""


class Format(Protocol):
    """A module of this package; `reading` is the record of its format."""

    def inspect(self, model: Path, reading: Any) -> Inspection:
        """Finds what the model holds, without executing anything of it.

        Raises:
            UnsupportedModelError: It is not a model of this format, or is damaged.
        """

    def load(self, model: Path, reading: Any, key: str) -> LoadedModel:
        """One signature, ready to be evaluated and to become a graph.

        Raises:
            UnsupportedModelError: It cannot be loaded, or has no such signature.
        """


def of(reading: Reading) -> Format:
    """The module that reads a model.

    Raises:
        UnsupportedModelError: There is none for this format.
    """
    name = reading.format
    if name not in _FORMATS:
        raise UnsupportedModelError(f"models of the format {reading.format} cannot be read yet")
    return cast("Format", importlib.import_module(f".{name}.{name}", __package__))


def inspect(model: Path, reading: Reading) -> Inspection:
    """Finds what the model holds, with inputs and outputs in the order that the reading asks for.

    Raises:
        UnsupportedModelError: It is not a model of this format, or is damaged.
    """
    with reading_errors(reading):
        inspection = of(reading).inspect(model, reading)
    signatures = tuple(arrange(signature, reading.order) for signature in inspection.signatures)
    return inspection.model_copy(update={"signatures": signatures})


def load(
    model: Path,
    reading: Reading,
    key: str,
    names: Mapping[str, str],
    layers: Sequence[QuantizedLayer] = (),
) -> LoadedModel:
    """One signature, whose inputs and outputs have the names and the order of the interface.

    Args:
        model: The directory of the model.
        reading: How it is read.
        key: The signature.
        names: New names of inputs and outputs, by those in the model.
        layers: Those that compute with narrower numbers.

    Raises:
        UnsupportedModelError: It cannot be loaded, or has no such signature.
    """
    if layers:
        return open_quantizer(model, reading, key, names).load(layers)
    return _with_names(_load(model, reading, key), reading, names)


def open_quantizer(
    model: Path,
    reading: Reading,
    key: str,
    names: Mapping[str, str],
    keep: Collection[str] = (),
) -> OpenQuantizer:
    """A signature whose layers can compute with narrower numbers; see `load`.

    Args:
        model: The directory of the model.
        reading: How it is read.
        key: The signature.
        names: New names of inputs and outputs, by those in the model.
        keep: Functions whose layers stay as they are.

    Raises:
        UnsupportedModelError: Models of this format have no such layers.
    """
    loaded, place = _load(model, reading, key), _QUANTIZERS.get(reading.format)
    if place is None:
        raise UnsupportedModelError(
            f"package.compute: layers of {FORMATS[reading.format].title} models stay as they are; export the model to ONNX, or "
            "remove it from the spec"
        )
    module = importlib.import_module(place, __package__)
    return OpenQuantizer(module.quantizer(loaded, keep), reading, names)


@dataclass(frozen=True)
class OpenQuantizer:
    """A `Quantizer` for what users of the model see: its names, in the order of the interface."""

    quantizer: Quantizer
    reading: Reading
    names: Mapping[str, str]

    def load(self, layers: Sequence[QuantizedLayer]) -> LoadedModel:
        """The model with these layers."""
        with reading_errors(self.reading):
            quantized = self.quantizer.quantized(layers)
        return _with_names(quantized, self.reading, self.names)

    def layers(self, shapes: Mapping[str, tuple[int, ...]]) -> Sequence[FloatLayer]:
        """See `Quantizer`."""
        return self.quantizer.layers(self._own(shapes))

    def observer(
        self, shapes: Mapping[str, tuple[int, ...]], layers: Sequence[FloatLayer]
    ) -> Observer:
        """See `Quantizer`."""
        observe = self.quantizer.observer(self._own(shapes), layers)
        return lambda inputs: observe(self._own(inputs))

    def _own(self, values: Mapping[str, _T]) -> dict[str, _T]:
        old = {new: name for name, new in self.names.items()}
        return {old.get(name, name): value for name, value in values.items()}


def _load(model: Path, reading: Reading, key: str) -> LoadedModel:
    with reading_errors(reading):
        return of(reading).load(model, reading, key)


def _with_names(loaded: LoadedModel, reading: Reading, names: Mapping[str, str]) -> LoadedModel:
    return renamed(GuardedModel(loaded, reading), names, reading.order)
