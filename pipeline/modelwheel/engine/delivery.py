"""Delivers what a build made: wheels with their reports, and source distributions, to `--out`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import EnvironmentProblemError, UsageError
from ..model.reference_result import FrameworkTimes
from ..packaging.checksums import CHECKSUMS
from ..store.records import Record
from ..store.store import Store
from ..util.files import replace_directory, sync_tree, write_atomically
from ..util.unfinished import temporary_directory
from ..wheelfile.reports import (
    BENCH_SUFFIX,
    REPORT_SUFFIX,
    Timing,
    write_framework,
)
from ..wheelfile.unverified import mark_unverified
from ..wheelfile.wheel import open_wheel


def deliver(record: Record, store: Store, out: Path) -> Path:
    """Writes the one file of a result to `out`; returns its path."""
    (name,) = record.files
    content = store.read_bytes(record, name)
    with writing_to(out):
        if not _is_there(out / name, content):
            (out / f"{name}{BENCH_SUFFIX}").unlink(missing_ok=True)  # it timed another file
            write_atomically(out / name, content)
    return out / name


def _is_there(path: Path, content: bytes) -> bool:
    """Whether a file has this content already: then it is not written again, which takes the disk's time."""
    return path.is_file() and not path.is_symlink() and path.read_bytes() == content


def deliver_unverified(record: Record, store: Store, reason: str, out: Path) -> Path:
    """Writes a wheel that did not pass verification to `out`, marked as such; returns its path."""
    with writing_to(out), temporary_directory("delivery", out) as scratch:
        wheel = deliver(record, store, scratch)
        marked = mark_unverified(open_wheel(wheel), reason, scratch)
        return marked.replace(out / marked.name)


def deliver_directory(record: Record, store: Store, path: Path) -> Path:
    """Writes all files of a result to a directory, whose earlier content is replaced as a whole; returns it.

    Raises:
        UsageError: There is something else at this place.
    """
    with writing_to(path):
        if path.exists() and not (path / CHECKSUMS).is_file():
            raise UsageError(
                f"{path} exists and is not a bundle; remove it, or choose another --out",
                code="MW203",
            )
        with temporary_directory("delivery", path.parent) as scratch:
            store.materialize(record, scratch / "new")
            sync_tree(scratch / "new")
            replace_directory(scratch / "new", path)
    return path


def deliver_report(content: bytes, wheel: Path) -> None:
    """Writes the report of a verified wheel next to it."""
    with writing_to(wheel.parent):
        report = wheel.with_name(wheel.name + REPORT_SUFFIX)
        if not _is_there(report, content):
            write_atomically(report, content)


def deliver_times(content: bytes, path: Path) -> None:
    """Writes how long the framework takes next to a wheel or source distribution, beside what else was timed of the same file.

    Args:
        content: A `FrameworkTimes`.
        path: The wheel or source distribution.
    """
    measured = FrameworkTimes.model_validate_json(content)
    theirs = [
        Timing(
            level="",
            rows=time.rows,
            rule="",
            nanoseconds=time.nanoseconds,
            cpu=measured.cpu,
            framework=measured.framework,
        )
        for time in measured.times
    ]
    with writing_to(path.parent):
        write_framework(theirs, path)


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Turns an OSError into one sentence: which path cannot be written, and why."""
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else path
        raise EnvironmentProblemError(
            f"cannot write to {place}: {error.strerror or error}; fix that, or choose another directory",
            code="MW726",
        ) from error
