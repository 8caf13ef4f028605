"""Compares what an index serves with what was sent to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ..errors import PublishError
from ..util.http import Patience
from ..util.urls import redact
from ..util.words import time_text
from .client import IndexedFile, PackageIndex
from .plan import KEEPS_VERSIONS, PlannedFile


def is_listed(index: PackageIndex, file: PlannedFile) -> bool:
    """Whether the index lists a file.

    Raises:
        PublishError: It does, with different contents.
    """
    listed = _find(index, file)
    if listed is None:
        return False
    if (listed.sha256 or index.sha256(listed)) != file.sha256:
        raise PublishError(
            f"{file.name} is on the index with different contents; {KEEPS_VERSIONS}", code="MW802"
        )
    return True


def compare(
    index: PackageIndex,
    files: Iterable[PlannedFile],
    patience: Patience,
    report: Callable[[str], None],
) -> None:
    """Downloads every file of a release and compares it with the local one.

    Raises:
        PublishError: A file is not listed, or not served as it was sent.
    """
    for file in files:
        report(f"comparing {file.name}")
        # Downloaded, whatever hash the page states: what counts is what users will get.
        served = index.sha256(_wait_for(index, file, patience, report))
        if served != file.sha256:
            raise PublishError(
                f"{file.name}: the index serves SHA-256 {served}, but {file.sha256} was sent; "
                "withdraw the file and report this to the operator of the index",
                code="MW802",
            )


def _wait_for(
    index: PackageIndex, file: PlannedFile, patience: Patience, report: Callable[[str], None]
) -> IndexedFile:
    """A file as its project's page lists it; caches may delay that after the upload."""
    for attempt in range(patience.attempts):
        listed = _find(index, file)
        if listed is not None:
            break
        if attempt + 1 < patience.attempts:
            seconds = patience.wait(attempt)
            report(f"{file.name} is not listed yet; asking again in {time_text(seconds)}")
            time.sleep(seconds)
    else:
        raise PublishError(
            f"{file.name} was uploaded, but {redact(index.url)} does not list it; run the same "
            "command again later, or pass the right --index-url",
            code="MW802",
        )
    if listed.sha256 not in (None, file.sha256):
        raise PublishError(
            f"{file.name}: the index lists SHA-256 {listed.sha256}, but {file.sha256} was sent",
            code="MW802",
        )
    return listed


def _find(index: PackageIndex, file: PlannedFile) -> IndexedFile | None:
    return (index.files(file.project) or {}).get(file.name)
