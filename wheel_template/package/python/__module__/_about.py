"""What the package says of itself to programs: `about()`, and `python -m ... --json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import _paths
from ._core import library
from ._model import Model

if TYPE_CHECKING:
    from ._model import TensorSpec


def about() -> dict[str, Any]:
    """The description in the library, with the inputs and outputs, as JSON has them."""
    tensors = {"inputs": Model.inputs, "outputs": Model.outputs, "states": Model.states}
    described = {key: list(map(_describe, specs)) for key, specs in tensors.items()}
    return {**json.loads(library.about), **described, "lengths": list(Model.lengths)}


def installed() -> dict[str, Any]:
    """The same with what only this machine knows: the library's place, and the CPU level in use."""
    try:
        level: str | None = Model().level
    except ValueError:  # this CPU has none of them, or MODELWHEEL_LEVEL is wrong
        level = None
    return {**about(), "library": _paths.get_library(), "level": level}


def _describe(spec: TensorSpec) -> dict[str, Any]:
    return {
        **spec._asdict(),
        "dtype": spec.dtype.name,
        "shape": list(spec.shape),
        "valid": [one._asdict() for one in spec.valid],
        "labels": list(Model.labels.get(spec.name, ())),
    }
