"""What a SavedModel holds, found by reading it: signatures, operations, files.

A worker writes it as `inspection.json`; `modelwheel.compiler.check` needs no TensorFlow to check it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from ..util.records import JsonRecord

INSPECTION = "inspection.json"

Shape: TypeAlias = tuple[int | None, ...]
"""Extents; None where the extent is free."""

Support: TypeAlias = Literal["compiled", "frozen", "unsupported", "unregistered"]
"""XLA compiles the operation; freezing removes it; XLA lacks it for these types; it comes from a
custom op library, so that TensorFlow does not know it either."""


class TensorInfo(JsonRecord):
    """One input or output of a signature."""

    name: str
    dtype: str
    """TensorFlow's name of the element type: `float32`, `string`, ..."""
    shape: Shape | None
    """None if even the rank is unknown."""
    encoding: Literal["dense", "sparse", "composite"] = "dense"


class SignatureInfo(JsonRecord):
    """One function that the model offers; inputs and outputs are sorted by name."""

    key: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class SignatureUse(JsonRecord):
    """How one signature uses an operation."""

    count: int
    layers: tuple[str, ...]
    """The first few names of layers."""


class OpUse(JsonRecord):
    """One kind of operation, over all functions of the model."""

    op: str
    dtypes: str = ""
    """The types that XLA does not accept, as `T=string`; empty if types do not matter."""
    support: Support
    count: int
    functions: tuple[str, ...]
    """The first few functions that hold it; "" is the graph itself."""
    layers: tuple[str, ...]
    """The first few names of layers."""
    signatures: Mapping[str, SignatureUse]
    """The signatures whose outputs depend on it, or that change a variable with it."""


class Inspection(JsonRecord):
    """Everything that is known about a SavedModel before it is loaded."""

    version: Literal[1] = 1
    written_by: str
    """The version of TensorFlow that wrote the model."""
    tags: tuple[str, ...]
    signatures: tuple[SignatureInfo, ...]
    """Sorted by key."""
    ops: tuple[OpUse, ...]
    """Sorted by name."""
    assets: tuple[str, ...]
    """Names of files that the model reads when it is loaded."""
    initializers: tuple[str, ...]
    """Operations that run when the model is loaded, except those that restore variables."""

    def signature(self, key: str) -> SignatureInfo | None:
        """The signature of that name, or None."""
        return next((s for s in self.signatures if s.key == key), None)
