"""What is different in a version of a model, compared with the one before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...assembly.manifest import Manifest
from ...signature import Tensor
from ...util.words import first_few, shape_text, size_text
from ..order import moved_tensors
from .projects import Release

_NOTABLE = 0.05
"""The part of its size by which a wheel grows or shrinks before a page says so."""


def changes_of(older: Release | None, newer: Release) -> list[str]:
    """Short sentences; empty if only the weights or the tools differ in a way that manifests do not show."""
    if older is None:
        return ["first version"]
    return list(_changes(older, newer))


def _changes(older: Release, newer: Release) -> Iterator[str]:
    before, now = older.manifest, newer.manifest
    yield from _tensor_changes("input", before.signature.inputs, now.signature.inputs)
    yield from _tensor_changes("output", before.signature.outputs, now.signature.outputs)
    yield from moved_tensors(before.signature, now.signature)
    yield from _list_changes("batch sizes", before.batching.sizes, now.batching.sizes)
    yield from _list_changes("CPU levels", older.levels, newer.levels)
    for field in ("license", "weights_license", "bindings", "weights_storage"):
        old, new = getattr(before.model, field), getattr(now.model, field)
        if old != new:
            name = field.replace("_", " ").replace("license", "licence")
            yield f"{name} {new or 'not stated'}, was {old or 'not stated'}"
    if before.provenance.tree_sha256 != now.provenance.tree_sha256:
        yield _model_change(before, now)
    if before.compiler.tensorflow != now.compiler.tensorflow:
        yield f"compiled by TensorFlow {now.compiler.tensorflow}, was {before.compiler.tensorflow}"
    small, large = (min(wheel.size for wheel in side.wheels) for side in (older, newer))
    if abs(large - small) > _NOTABLE * small:
        yield f"wheel of {size_text(large)}, was {size_text(small)}"


def _model_change(before: Manifest, now: Manifest) -> str:
    commits = [side.provenance.source.get("commit", "")[:12] for side in (before, now)]
    if all(commits) and commits[0] != commits[1]:
        return f"model of commit {commits[1]}, was {commits[0]}"
    return "new weights or graph"


def _tensor_changes(kind: str, before: Sequence[Tensor], now: Sequence[Tensor]) -> Iterator[str]:
    old, new = ({tensor.name: tensor for tensor in side} for side in (before, now))
    for title, names in (
        (f"new {kind}", [name for name in new if name not in old]),
        (f"no {kind}", [name for name in old if name not in new]),
    ):
        if names:
            yield f"{title}{'s' if len(names) > 1 else ''} {first_few(names)}"
    for name in new:
        if name in old and _text(new[name]) != _text(old[name]):
            yield f"{kind} {name} is {_text(new[name])}, was {_text(old[name])}"


def _text(tensor: Tensor) -> str:
    return f"{tensor.dtype} {shape_text(tensor.shape, tensor.leading_per_row, tensor.extents)}"


def _list_changes(name: str, before: Sequence[object], now: Sequence[object]) -> Iterator[str]:
    if list(before) != list(now):
        yield f"{name} {', '.join(map(str, now))}, were {', '.join(map(str, before))}"
