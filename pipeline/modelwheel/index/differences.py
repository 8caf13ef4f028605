"""The changes of a new version of a model for its users: inputs, outputs, levels, batch sizes, licences and files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..assembly.manifest import Manifest
from ..signature import Tensor
from ..util.words import count, first_few, shape_text
from ..wheelfile.wheel import Wheel

_FILES = 8
"""Names of files that are listed."""


def wheel_differences(older: Wheel, newer: Wheel) -> tuple[str, ...]:
    """Clauses about what is not as it was, those that break programs first; none if nothing differs."""
    before, now = older.manifest, newer.manifest
    return (
        *manifest_differences(before, now, before.levels, now.levels),
        *_names("requirement", before.model.requirements, now.model.requirements),
        *_names("file", _files(older), _files(newer)),
    )


def manifest_differences(
    before: Manifest, now: Manifest, old_levels: Sequence[str], new_levels: Sequence[str]
) -> Iterator[str]:
    """The changes that manifests show; the levels are those of all wheels of a version, or of one."""
    yield from _tensors("input", before.signature.inputs, now.signature.inputs)
    yield from _tensors("output", before.signature.outputs, now.signature.outputs)
    yield from _names("CPU level", old_levels, new_levels)
    yield from _names("batch size", _texts(before.batching.sizes), _texts(now.batching.sizes))
    old, new = before.model, now.model
    for kind, was, now_is in (
        ("licence of the code", old.license, new.license),
        ("licence of the weights", old.weights_license, new.weights_license),
        ("kind of bindings", old.bindings, new.bindings),
        ("storage of the weights", old.weights_storage, new.weights_storage),
    ):
        if was != now_is:
            yield f"{kind} is {now_is or 'not stated'}, was {was or 'not stated'}"


def _tensors(kind: str, before: Sequence[Tensor], now: Sequence[Tensor]) -> Iterator[str]:
    old, new = ({tensor.name: _describe(tensor) for tensor in tensors} for tensors in (before, now))
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new:
            yield f"{kind} {name} is gone: {old[name]}"
        elif name not in old:
            yield f"{kind} {name} is new: {new[name]}"
        elif old[name] != new[name]:
            yield f"{kind} {name} is {new[name]}, was {old[name]}"


def _describe(tensor: Tensor) -> str:
    shape = shape_text(tensor.shape, tensor.leading_per_row or 1, tensor.extents)
    valid = f", {tensor.valid_text}" if tensor.valid_text else ""
    real = f" for {tensor.real}" if tensor.real else ""
    return f"{tensor.dtype}{real} {shape}{valid}"


def _names(kind: str, before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    for word, names in (
        ("added", [name for name in now if name not in before]),
        ("removed", [name for name in before if name not in now]),
    ):
        if names:
            yield f"{count(len(names), kind)} {word}: {first_few(names, _FILES)}"


def _texts(numbers: Sequence[int]) -> list[str]:
    return [str(number) for number in numbers]


def _files(wheel: Wheel) -> list[str]:
    """The names of all files; that of the directory of metadata without the version."""
    return sorted(re.sub(r"^[^/]+(\.dist-info/)", r"*\1", name) for name in wheel.members)
