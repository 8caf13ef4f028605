"""Gate: the wheel is complete, and its files have the hashes in RECORD."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import WheelError
from ...versions import ADOPTED, PINNED_TENSORFLOW
from ..opened import OpenedWheel
from .finding import GateFinding

_CYCLONEDX = "CycloneDX"


def check(wheel: OpenedWheel) -> Iterator[GateFinding]:
    """Checks the model card, licences, SBOM, and the hashes of all files."""
    metadata, place = wheel.contents.metadata, f"{wheel.dist_info}/METADATA"
    if not (metadata.description or "").strip():
        yield GateFinding(place, "has no description (README), which the package index shows")
    if not metadata.license_expression:
        yield GateFinding(place, "has no License-Expression; set `license` in the spec")
    files = wheel.contents.files
    if not metadata.license_files:
        yield GateFinding(place, "lists no licence file; set `license-files` in pyproject.toml")
    for name in metadata.license_files or ():
        # PEP 639 fixes this place.
        text = f"{wheel.dist_info}/licenses/{name}"
        if text not in files:
            yield GateFinding(text, "is missing, although METADATA lists it; build the wheel again")
    if wheel.manifest is not None:
        yield from _check_bill(wheel)
        yield from _check_compiler(wheel.name, wheel.manifest.compiler.tensorflow)
    yield from _check_record(wheel)


def _check_bill(wheel: OpenedWheel) -> Iterator[GateFinding]:
    bills = wheel.contents.sboms
    if not any(bill.get("bomFormat") == _CYCLONEDX for bill in bills.values()):
        yield GateFinding(
            f"{wheel.dist_info}/sboms",
            "contains no CycloneDX SBOM (PEP 770); build the wheel from a source distribution "
            "of this version of modelwheel",
        )


def _check_compiler(name: str, tensorflow: str) -> Iterator[GateFinding]:
    if tensorflow not in ADOPTED:
        yield GateFinding(
            name,
            f"was compiled by TensorFlow {tensorflow}, which this modelwheel only tries; compile it again with "
            f"{PINNED_TENSORFLOW}",
        )


def _check_record(wheel: OpenedWheel) -> Iterator[GateFinding]:
    place = f"{wheel.dist_info}/RECORD"
    try:
        for mismatch in wheel.contents.mismatches():
            yield GateFinding(
                mismatch.file, f"{mismatch.problem}; build or download the wheel again"
            )
    except WheelError as error:
        yield GateFinding(place, str(error))
