"""The files stored beside a wheel: the report of its self-test, its timings, and when it was released.

The first two come from the wheel itself (`python -m model_NAME selftest --json` and `bench --json`). All are
named after it. The catalogue shows them; `modelwheel download` copies them with the wheel. A source distribution has
the times of the framework beside it, which its wheels get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, TypeAdapter, ValidationError

from ..accuracy import Deviation, Truth, lines_of, notes_on, truth_lines
from ..errors import WheelError
from ..util.files import write_atomically
from ..util.names import UnsafePathError
from ..util.records import first_mistake
from ..util.text import one_line
from ..util.trees import open_plain
from ..util.words import size_text

REPORT_SUFFIX = ".report.json"
"""Follows a wheel's whole file name: the report of `modelwheel verify`."""

BENCH_SUFFIX = ".bench.json"
"""Follows a wheel's whole file name: the output of `python -m model_NAME bench --json`."""

PROVENANCE_SUFFIX = ".intoto.jsonl"
"""Follows a file's whole name: signed statements of its provenance, as in-toto names them."""

UPLOAD_SUFFIX = ".upload.json"
"""Follows a wheel's whole file name: when it was uploaded, as the index says that it was downloaded from."""

COMPANIONS = (REPORT_SUFFIX, BENCH_SUFFIX, PROVENANCE_SUFFIX, UPLOAD_SUFFIX)

MAX_REPORT = 16 << 20
"""Bytes of a report that is read; they have some kilobytes."""

_T = TypeVar("_T")


class _Stored(BaseModel):
    # NaN and infinity are not JSON; a page could not show them either.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Comparison(Deviation):
    """One output at one CPU level and number of rows, compared with the truth, or with float32."""

    level: str
    rule: str
    """The rows and the batch sizes that they ran as (`7:4,1,1,1`)."""
    limit: float
    """Largest absolute error that is allowed."""
    passed: bool
    state: bool = False
    """Whether `output` is a variable after the last call in a row."""
    exact: bool = False
    """Whether it was compared with the truth: the same model in float64."""

    @property
    def label(self) -> str:
        """The compared value, for people: the name of an output, or `state NAME`."""
        return f"state {self.output}" if self.state else self.output

    @property
    def share(self) -> float:
        """The part of the allowed error that was used; 1 is the limit."""
        # A limit of 0 means that the outputs must be equal.
        return self.absolute / max(self.limit, 1e-300)


class Report(BaseModel):
    """All comparisons of a self-test."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    passed: bool
    comparisons: tuple[Comparison, ...]
    skipped: dict[str, str]
    """CPU levels that the machine could not run, with the reason."""
    emulated: tuple[str, ...] = ()
    """CPU levels that were run by qemu."""
    truth: Truth = Truth(missing="the wheel is of an earlier version of modelwheel")
    """The errors of the reference itself."""
    weights_storage: str = "float32"
    """How the wheel stores its weights: with fewer bits, part of its error is what that loses."""

    @property
    def worst(self) -> Comparison | None:
        """The comparison that came closest to its limit, or exceeded it most."""
        return max(self.comparisons, key=lambda comparison: comparison.share, default=None)


def notes_on_report(report: Report) -> Iterator[str]:
    """Sentences about what was not measured or compared, and what was not run on a processor."""
    yield from notes_on(report.truth)
    for level, reason in report.skipped.items():
        yield f"Not run: {level} ({reason})"
    if report.emulated:
        yield f"Run by qemu: {', '.join(report.emulated)}"


class Line(NamedTuple):
    """One line of the table of errors."""

    cells: tuple[str, ...]
    """See `accuracy.COLUMNS`."""
    limit: str = ""
    """What a wheel is allowed."""
    passed: bool | None = None
    """None for what is not a wheel's."""


def report_lines(report: Report) -> Iterator[Line]:
    """The largest errors of the reference, and of the wheel at every level, over all numbers of rows."""
    yield from map(Line, truth_lines(report.truth))
    levels: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in report.comparisons:
        levels.setdefault((comparison.label, comparison.level), []).append(comparison)
    for (label, level), comparisons in levels.items():
        # Limits differ, because each grows with the largest output and with what rounding makes of a row.
        failed = [c for c in comparisons if not c.passed]
        worst = max(failed or comparisons, key=lambda c: c.absolute)
        stored = report.weights_storage
        evaluator = level if stored == "float32" else f"{level}, {stored} weights"
        for cells in lines_of(evaluator, comparisons):
            passed = all(c.passed for c in comparisons)
            yield Line((label, *cells[1:]), f"{worst.limit:.2e}", passed)


class Timing(_Stored):
    """How long one call takes."""

    level: str
    rows: int
    rule: str
    nanoseconds: float
    cpu: str = ""
    """What the maker calls the CPU; empty if it is not known."""
    framework: str = ""
    """What ran the model instead of the wheel, with its version; empty for the wheel."""


class Upload(_Stored):
    """When a wheel was uploaded."""

    time: AwareDatetime


_TIMINGS = TypeAdapter(tuple[Timing, ...])


def parse_report(content: bytes) -> Report:
    """Parses a report; raises pydantic's ValidationError."""
    return Report.model_validate_json(content)


def parse_timings(content: bytes) -> tuple[Timing, ...]:
    """Parses timings; raises pydantic's ValidationError."""
    return _TIMINGS.validate_json(content)


def parse_upload(content: bytes) -> datetime:
    """Parses the time of an upload; raises pydantic's ValidationError."""
    return Upload.model_validate_json(content).time


def dump_report(report: Report) -> bytes:
    """A report as it is stored."""
    return f"{report.model_dump_json(indent=1)}\n".encode()


def read_report(wheel: Path) -> Report | None:
    """The report beside a wheel, if there is one.

    Raises:
        WheelError: It is not valid.
    """
    return _read(_beside(wheel, REPORT_SUFFIX), parse_report)


def read_timings(wheel: Path) -> tuple[Timing, ...]:
    """The timings beside a wheel; none if there are none.

    Raises:
        WheelError: They are not valid.
    """
    return _read(_beside(wheel, BENCH_SUFFIX), parse_timings) or ()


def read_upload(wheel: Path) -> datetime | None:
    """When a wheel was uploaded; None if no file beside it says so.

    Raises:
        WheelError: The file is not valid.
    """
    return _read(_beside(wheel, UPLOAD_SUFFIX), parse_upload)


def write_upload(time: datetime, wheel: Path) -> None:
    """Stores when a wheel was uploaded; `time` has a time zone."""
    write_atomically(_beside(wheel, UPLOAD_SUFFIX), Upload(time=time).model_dump_json().encode())


def write_report(report: Report, wheel: Path) -> None:
    """Stores a report beside its wheel."""
    write_atomically(_beside(wheel, REPORT_SUFFIX), dump_report(report))


def write_timings(timings: Sequence[Timing], wheel: Path) -> None:
    """Stores timings beside their wheel."""
    content = _TIMINGS.dump_json(tuple(timings), indent=1, exclude_defaults=True)
    write_atomically(_beside(wheel, BENCH_SUFFIX), content + b"\n")


def write_framework(theirs: Sequence[Timing], wheel: Path) -> None:
    """Stores the times of a framework beside a wheel or source distribution, with the wheel's own that are there.

    Raises:
        WheelError: What is there is not valid.
    """
    ours = [timing for timing in read_timings(wheel) if not timing.framework]
    if ours or theirs:
        write_timings([*ours, *theirs], wheel)


def fastest(rounds: Iterable[Sequence[Timing]]) -> tuple[Timing, ...]:
    """The best time of each call over several rounds of the same calls."""
    return tuple(
        min(same, key=lambda timing: timing.nanoseconds) for same in zip(*rounds, strict=True)
    )


def read_companions(path: Path) -> dict[str, str]:
    """The files beside a wheel or source distribution as texts, by the endings of their names.

    Raises:
        WheelError: One cannot be read.
    """
    contents = {}
    for ending in COMPANIONS:
        content = _content(_beside(path, ending))
        if content is not None:
            contents[ending] = content.decode(errors="replace")
    return contents


def _beside(wheel: Path, suffix: str) -> Path:
    return wheel.with_name(wheel.name + suffix)


def _read(path: Path, parse: Callable[[bytes], _T]) -> _T | None:
    return parse_beside(_content(path), str(path), parse)


def _content(path: Path) -> bytes | None:
    """A file beside a wheel; None if there is none."""
    if not path.exists():
        return None
    try:
        with open_plain(path) as file:
            content = file.read(MAX_REPORT + 1)
    except UnsafePathError as error:
        raise WheelError(f"{path}: {one_line(error)}; remove it", code="MW602") from None
    except OSError as error:
        raise WheelError(f"cannot read {path}: {error.strerror or error}", code="MW602") from None
    if len(content) > MAX_REPORT:
        raise WheelError(
            f"{path}: has more than {size_text(MAX_REPORT)}. Remove it, or write it again with `modelwheel report`.",
            code="MW602",
        )
    return content


def parse_beside(content: bytes | None, origin: str, parse: Callable[[bytes], _T]) -> _T | None:
    """Parses what is beside a wheel, if there is anything; `origin` names it in messages.

    Raises:
        WheelError: It is not valid.
    """
    if content is None:
        return None
    try:
        return parse(content)
    except ValidationError as error:
        raise WheelError(
            f"{origin}: {first_mistake(error)}. Remove it, or write it again with `modelwheel report`.",
            code="MW602",
        ) from None
