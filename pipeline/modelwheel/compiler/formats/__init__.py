"""Readers of models, one module for each format; `of` chooses one.

A module reads a model in two ways: `inspect` by parsing alone, before anything is executed, and `load`
once it has been judged.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from ...errors import UnsupportedModelError
from ...model.inspection import Inspection
from ...model.readings import Reading
from ...model.renames import arrange
from ..loaded.guarded import GuardedModel, reading_errors
from ..loaded.renamed import renamed

if TYPE_CHECKING:
    from ..loaded.base import LoadedModel

DEFAULT_SIGNATURE = "serving_default"
"""The signature of formats whose models have one without a name."""

_FORMATS = ("graph_def", "keras", "onnx", "pytorch", "saved_model", "stablehlo")
"""Each has a folder, and in it a module of its name."""


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


def load(model: Path, reading: Reading, key: str, names: Mapping[str, str]) -> LoadedModel:
    """One signature, whose inputs and outputs have the names and the order of the interface.

    Args:
        model: The directory of the model.
        reading: How it is read.
        key: The signature.
        names: New names of inputs and outputs, by those in the model.

    Raises:
        UnsupportedModelError: It cannot be loaded, or has no such signature.
    """
    with reading_errors(reading):
        loaded = of(reading).load(model, reading, key)
    return renamed(GuardedModel(loaded, reading), names, reading.order)
