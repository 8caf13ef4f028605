"""Gate: a wheel holds all that it should, and every file is the one that RECORD lists."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import WheelError
from ..opened import OpenedWheel
from .finding import Finding

_CYCLONEDX = "CycloneDX"
_WITHOUT_HASH = ("RECORD", "RECORD.jws", "RECORD.p7s")
"""Files of `.dist-info` that RECORD does not hash (the wheel format, PEP 427)."""


def check(wheel: OpenedWheel) -> Iterator[Finding]:
    """Model card, licences, bill of materials, and the hashes of all files."""
    metadata, place = wheel.contents.metadata, f"{wheel.dist_info}/METADATA"
    if not (metadata.description or "").strip():
        yield Finding(place, "has no model card (README) for the page of the package index")
    if not metadata.license_expression:
        yield Finding(place, "has no License-Expression; set `license` in the spec")
    files = wheel.contents.files
    if not metadata.license_files:
        yield Finding(place, "names no licence file; set `license-files` in pyproject.toml")
    for name in metadata.license_files or ():
        text = f"{wheel.dist_info}/licenses/{name}"
        if text not in files:
            yield Finding(text, "is missing, though METADATA names it; build the wheel again")
    if wheel.manifest is not None:
        yield from _check_bill(wheel)
    yield from _check_record(wheel)


def _check_bill(wheel: OpenedWheel) -> Iterator[Finding]:
    bills = wheel.contents.sboms
    if not any(bill.get("bomFormat") == _CYCLONEDX for bill in bills.values()):
        yield Finding(
            f"{wheel.dist_info}/sboms",
            "holds no CycloneDX bill of materials (PEP 770); build the wheel from a model source "
            "distribution of this modelwheel",
        )


def _check_record(wheel: OpenedWheel) -> Iterator[Finding]:
    place = f"{wheel.dist_info}/RECORD"
    try:
        recorded = wheel.contents.recorded
    except WheelError as error:
        yield Finding(place, str(error))
        return
    for name, file in sorted(wheel.contents.files.items()):
        exempt = name.startswith(wheel.dist_info) and name.rpartition("/")[2] in _WITHOUT_HASH
        if name not in recorded and not exempt:
            yield Finding(place, f"does not list {name}; installers would leave it behind")
        elif not exempt and recorded[name] != file.sha256:
            yield Finding(
                name, "is not the file whose hash RECORD has; build or fetch the wheel again"
            )
    for name in sorted(recorded.keys() - wheel.contents.files.keys()):
        yield Finding(place, f"lists {name}, which is not in the wheel; build it again")
