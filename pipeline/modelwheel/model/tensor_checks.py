"""Findings about the inputs and outputs of a signature by themselves: names, types, sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..dtypes import DTYPES
from .findings import Finding
from .inspection import SignatureInfo, TensorInfo
from .shapes import show

_MAX_NAME_BYTES = 4096
_MAX_ELEMENTS = 1 << 40
"""Of one row, or of a tensor without rows: terabytes."""


def check_tensors(signature: SignatureInfo) -> Iterator[Finding]:
    """All findings, inputs first."""
    for role, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        names = {tensor.name for tensor in tensors}
        for tensor in tensors:
            problem = _name_problem(tensor.name, names)
            if problem:
                yield Finding(
                    "error",
                    "name",
                    f"{role} {_shown(tensor.name)!r} {problem}",
                    "rename it in the model, or under `names` in the spec",
                )
            yield from _check_type(role, tensor)
            yield from _check_size(role, tensor)
    yield from _check_outputs(signature.outputs)


def _name_problem(name: str, others: set[str]) -> str:
    """Why a name cannot be that of an array in a file of NumPy, as the rest of a sentence."""
    if not name:
        return "has an empty name"
    if "\0" in name:
        return "has a name with a NUL, where names of arrays in files end"
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        return f"has a name of more than {_MAX_NAME_BYTES} bytes"
    if name.endswith(".npy") and name.removesuffix(".npy") in others:
        return "has the name of another one with .npy, which files of NumPy do not tell apart"
    return ""


def _shown(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:80]}..."


def _check_type(role: str, tensor: TensorInfo) -> Iterator[Finding]:
    name = f"{role} {_shown(tensor.name)!r}"
    if tensor.encoding != "dense":
        yield Finding(
            "error",
            "encoding",
            f"{name} is a {tensor.encoding} tensor, but compiled models take dense ones only",
            "export a signature with dense tensors",
        )
    elif tensor.dtype == "string":
        yield Finding(
            "error",
            "string-tensor",
            f"{name} is a string tensor, which cannot be compiled",
            "process text outside the model and use or export a signature of numbers",
        )
    elif tensor.dtype not in DTYPES:
        yield Finding(
            "error",
            "dtype",
            f"{name} has the type {tensor.dtype}, which the runtime does not support",
            "cast it inside the model, for example to float32, float16 or int8",
        )


def _check_size(role: str, tensor: TensorInfo) -> Iterator[Finding]:
    if math.prod(extent or 1 for extent in tensor.shape or ()) > _MAX_ELEMENTS:
        yield Finding(
            "error",
            "size",
            f"{role} {_shown(tensor.name)!r} has the shape {show(tensor.shape or ())}, more elements than a "
            "machine can hold",
            "correct the sizes in the model",
        )


def _check_outputs(outputs: Sequence[TensorInfo]) -> Iterator[Finding]:
    if not outputs:
        yield Finding(
            "error",
            "no-outputs",
            "the signature has no outputs",
            "export a model that returns a tensor",
        )
    empty = [tensor for tensor in outputs if 0 in (tensor.shape or ())]
    for tensor in empty:
        yield Finding(
            # A wheel that returns nothing would pass every comparison.
            "error" if len(empty) == len(outputs) else "warning",
            "empty-output",
            f"output {_shown(tensor.name)!r} has the shape {show(tensor.shape or ())}, which has no elements",
            "check the sizes in the model: one may be 0, or beyond the 32 bits of its framework",
        )
