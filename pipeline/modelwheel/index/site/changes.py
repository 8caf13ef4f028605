"""The differences between a version of a model and the one before it."""

from __future__ import annotations

from collections.abc import Iterator

from ...assembly.manifest import Manifest
from ...util.words import size_text
from ..differences import manifest_differences
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
    yield from manifest_differences(before, now, older.levels, newer.levels)
    yield from moved_tensors(before.signature, now.signature)
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
