"""Warns where the inputs or outputs of a model have another order than in the version before.

Calls by position, and those from C and C++, would take one for another, of the same type and shape perhaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from packaging.version import Version

from ..errors import ModelwheelError
from ..signature import Signature, Tensor
from ..util.text import one_line
from ..util.unfinished import temporary_directory
from ..util.words import first_few
from ..versions import RUNTIME
from ..wheelfile.wheel import Wheel, open_wheel
from .client import PackageIndex
from .released import ReleasedWheel, list_wheels


def moved_tensors(older: Signature, newer: Signature) -> Iterator[str]:
    """`inputs [b, a] were [a, b]`, for each kind of tensors of which any has moved; names that are gone or new count not."""
    for kind, before, now in (
        ("inputs", older.inputs, newer.inputs),
        ("outputs", older.outputs, newer.outputs),
    ):
        places = {tensor.name: number for number, tensor in enumerate(before)}
        if any(places.get(tensor.name, n) != n for n, tensor in enumerate(now)):
            yield f"{kind} [{_names(now)}] were [{_names(before)}]"


def order_warning(older: Signature, version: object, newer: Signature) -> str:
    """The inputs and outputs that moved since a version, and advice, as the end of a sentence; empty if none has."""
    moved = " and ".join(moved_tensors(older, newer))
    if not moved:
        return ""
    return (
        f"{moved} in {one_line(version)}, so calls by position and those from C and C++ take one for another; "
        "keep the older order, in the model's file or by `interface_order`, or tell the users of the model"
    )


def warn_of_order(wheels: Iterable[Path], index: PackageIndex) -> Iterator[str]:
    """One sentence for each model whose wheels differ in that from the newest earlier version on an index.

    Args:
        wheels: Of one version of each model; of several wheels of it, one is looked at.
        index: The index, from which one wheel of each model is downloaded.

    Raises:
        PublishError: The index cannot be read.
    """
    first = {(wheel.distribution, wheel.version): wheel for wheel in map(open_wheel, wheels)}
    for (distribution, version), wheel in sorted(first.items()):
        newer = _signature(wheel)
        previous = None if newer is None else _newest_before(index, distribution, version)
        if newer is None or previous is None:
            continue
        try:
            older = _released_signature(index, previous)
        except ModelwheelError as error:
            yield f"{distribution} {previous.version} could not be compared: {one_line(error)}"
            continue
        if warning := order_warning(older, previous.version, newer):
            yield f"{distribution} {version}: {warning}"


def _newest_before(index: PackageIndex, project: str, version: Version) -> ReleasedWheel | None:
    earlier = [wheel for wheel in list_wheels(index, project) if wheel.version < version]
    return earlier[-1] if earlier else None


def _signature(wheel: Wheel) -> Signature | None:
    """The signature of a model; None for modelwheel-runtime, and for other wheels, which `audit` refuses."""
    try:
        return None if wheel.distribution == RUNTIME else wheel.manifest.signature
    except ModelwheelError:
        return None


def _released_signature(index: PackageIndex, released: ReleasedWheel) -> Signature:
    with temporary_directory("released") as directory:
        path = directory / released.name
        index.download(released.file, path)
        return open_wheel(path).manifest.signature


def _names(tensors: Sequence[Tensor]) -> str:
    return first_few([tensor.name for tensor in tensors], 12)
