"""Runs the sides of one model in turn, each in a process of its own, and compares what they compute."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..sandbox.choose import Sandbox
from ..util.text import one_line
from .peak import measure_peak
from .process import Program, SideError, SideProcess
from .results import OURS, Case, Cell, Kind, Side, Timing, Trace
from .statistics import ratios, spread
from .usage import time_after_silence, time_new_arrays

if TYPE_CHECKING:
    import numpy as np

_EACH = 1000
"""Calls whose latency is measured one by one; fewer if they take longer than a round."""
_LEAST = 5
_SAID = 200
"""Characters of what a runtime says."""

ACCEPTED = 1e-3
"""How far outputs of two sides may be apart, relative to the largest value: float32 along deep networks. What differs
by more is another computation, and its time says nothing."""


@dataclass(frozen=True)
class Race:
    """How the sides of one model run.

    Attributes:
        programs: `side.py` for every runtime, the wheel's first.
        missing: Runtimes that cannot run this model, with the reason.
        inputs: The directory with `ROWS.npz`.
        rows: Numbers of rows.
        rules: How the wheel splits each of them.
        work: Multiplications and additions of a call by rows, where they are known.
        peak: The program that measures the peak.
        seconds: Of each side for each number of rows.
        rounds: Into how many turns these are divided.
        as_programs: Whether calls with new arrays and calls after silence are timed too.
        trace: The numbers of rows of calls that vary; none if they are not timed.
        accepted: By how much outputs may differ from the wheel's, as a part of the largest value.
    """

    programs: Mapping[Kind, Program]
    missing: Mapping[Kind, str]
    inputs: Path
    rows: Sequence[int]
    rules: Mapping[int, str]
    work: Mapping[int, int]
    peak: Path | None
    seconds: float = 1.0
    rounds: int = 7
    as_programs: bool = False
    trace: Sequence[int] = ()
    accepted: float = ACCEPTED


@dataclass
class _Turns:
    """A side while one number of rows is timed."""

    process: SideProcess
    calls: int = 0
    us: list[float] = field(default_factory=list)
    latency: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Outcome:
    """The results of a race."""

    sides: tuple[Side, ...]
    cases: tuple[Case, ...]
    trace: Trace | None


def run_race(race: Race, sandbox: Sandbox, directory: Path) -> Outcome:
    """Starts every side, and times them for every number of rows, then for rows that vary.

    Raises:
        SideError: The wheel fails; what other sides say is in their cells.
    """
    with ExitStack() as stack:
        sides = [Side(kind=kind, error=reason) for kind, reason in race.missing.items()]
        running: dict[Kind, SideProcess] = {}
        for kind, program in race.programs.items():
            side, process = _open(kind, program, sandbox, directory / kind)
            sides.append(side)
            if process is not None:
                running[kind] = stack.enter_context(process)
        cases = tuple(_case(race, rows, running) for rows in race.rows)
        trace = _trace(race, running) if race.trace else None
    return Outcome(tuple(sides), cases, trace)


def _open(
    kind: Kind, program: Program, sandbox: Sandbox, directory: Path
) -> tuple[Side, SideProcess | None]:
    try:
        process = SideProcess(program, sandbox, directory)
    except SideError as error:
        if kind == OURS:
            raise
        return Side(kind=kind, error=str(error)), None
    opened = process.opened
    side = Side(
        kind=kind,
        version=one_line(opened["version"]),
        first_ms=round(float(opened["seconds"]) * 1e3, 2),
        memory=opened["memory"],
        lowered=opened["lowered"],
    )
    return side, process


def _case(race: Race, rows: int, running: Mapping[Kind, SideProcess]) -> Case:
    bound: dict[Kind, _Turns] = {}
    cells: list[Cell] = []
    outputs = None
    for kind, process in running.items():
        try:
            bound[kind] = _bind(race, process, rows)
            results = _outputs(process, rows)
            outputs = results if outputs is None else outputs
            difference = first_difference(outputs, results, race.accepted)
            if difference is not None:
                del bound[kind]
                cells.append(Cell(kind=kind, error=difference))
        except SideError as error:
            bound.pop(kind, None)
            cells.append(Cell(kind=kind, error=str(error)))
            if kind == OURS:
                raise
    peaks = list(_turns(race, rows, bound))
    new, silent = _as_programs(race, rows, {kind: side.process for kind, side in bound.items()})
    for side in bound.values():
        side.process.ask("drop", rows)
    ours = bound[OURS].us
    work = race.work.get(rows)
    cells += [
        Cell(
            kind=kind,
            us=spread(side.us),
            ratio=None if kind == OURS else ratios(side.us, ours),
            new_arrays=new.get(kind),
            after_silence=silent.get(kind),
            latency=side.latency,
            gflops=None if not work else work / statistics.median(side.us) / 1e3,
        )
        for kind, side in bound.items()
    ]
    order = list(running)
    return Case(
        rows=rows,
        rule=race.rules[rows],
        work=work,
        peak_gflops=max(peaks, default=None),
        cells=tuple(sorted(cells, key=lambda cell: order.index(cell.kind))),
    )


def _bind(race: Race, process: SideProcess, rows: int) -> _Turns:
    """Puts the inputs in place, and finds out how many calls a round has."""
    turns = _Turns(process)
    once = process.ask("bind", rows)
    # The first calls are slower than later ones: measured again with more of them.
    seconds = race.seconds / race.rounds
    calls = max(1, int(seconds / 10 / max(once, 1e-7)))
    took = process.ask("time", rows, calls) / calls
    turns.calls = max(1, int(seconds / max(took, 1e-7)))
    return turns


def _turns(race: Race, rows: int, bound: Mapping[Kind, _Turns]) -> Iterator[float]:
    """Lets every side run in turn; yields the peaks that are measured between the rounds."""
    for _ in range(race.rounds):
        for side in bound.values():
            seconds = side.process.ask("time", rows, side.calls)
            side.us.append(seconds / side.calls * 1e6)
        if race.peak is not None:
            yield measure_peak(race.peak)
    for side in bound.values():
        times = side.process.ask("each", rows, max(_LEAST, min(side.calls * race.rounds, _EACH)))
        side.latency = (times[0], times[1], times[2])


# --- as programs call -----------------------------------------------------------------------------


def _as_programs(
    race: Race, rows: int, running: Mapping[Kind, SideProcess]
) -> tuple[dict[Kind, Timing], dict[Kind, Timing]]:
    """Calls with new arrays, and calls after silence."""
    if not race.as_programs:
        return {}, {}
    ready, errors = _plain(running, [rows], race.accepted)
    new = time_new_arrays(ready, [rows], race.seconds, race.rounds)
    silent = time_after_silence(ready, rows, race.seconds, race.rounds)
    return {**new, **errors}, {**silent, **errors}


def _trace(race: Race, running: Mapping[Kind, SideProcess]) -> Trace:
    """Calls whose numbers of rows vary."""
    ready, errors = _plain(running, sorted(set(race.trace)), race.accepted)
    timed = {**time_new_arrays(ready, race.trace, race.seconds, race.rounds), **errors}
    cells = (Cell(kind=kind, **dict(timed[kind])) for kind in running)
    return Trace(rows=tuple(race.trace), cells=tuple(cells))


def _plain(
    running: Mapping[Kind, SideProcess], rows: Sequence[int], accepted: float
) -> tuple[dict[Kind, SideProcess], dict[Kind, Timing]]:
    """The sides that give the wheel's outputs with plain calls, and why others do not.

    Raises:
        SideError: The wheel fails.
    """
    ready: dict[Kind, SideProcess] = {}
    errors: dict[Kind, Timing] = {}
    expected: list[dict[str, np.ndarray[Any, Any]]] = []
    for kind, process in running.items():
        try:
            error = process.ask("plain", *rows)
            results = [] if error else [_outputs(process, number) for number in rows]
        except SideError as ended:
            error = str(ended)
        if error and kind == OURS:
            raise SideError(one_line(error))
        if not error:
            expected = expected or results
            pairs = zip(expected, results, strict=True)
            error = next(filter(None, (first_difference(*pair, accepted) for pair in pairs)), None)
        if error:
            errors[kind] = Timing(error=one_line(error)[:_SAID])
        else:
            ready[kind] = process
    return ready, errors


# --- outputs --------------------------------------------------------------------------------------


def _outputs(process: SideProcess, rows: int) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    path = process.directory / f"{rows}.npz"
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError) as error:
        raise SideError(f"its outputs cannot be read: {one_line(error)}") from None
    finally:
        path.unlink(missing_ok=True)


def first_difference(
    ours: Mapping[str, np.ndarray[Any, Any]],
    theirs: Mapping[str, np.ndarray[Any, Any]],
    accepted: float = ACCEPTED,
) -> str | None:
    """How the outputs of another runtime differ from the wheel's, in one sentence; None if they agree.

    Outputs are compared by name, or in their order where a converter has renamed all of them.
    """
    import numpy as np

    if len(ours) == len(theirs) and not set(ours) & set(theirs):
        theirs = dict(zip(ours, theirs.values(), strict=True))
    for name, expected in ours.items():
        result = theirs.get(name)
        shown = one_line(name)
        if result is None:
            return f"it has no output {shown}"
        if result.shape != expected.shape:
            return f"outputs differ: {shown} has shape {result.shape}, not {expected.shape}"
        if not expected.size:
            continue
        # Both in float64, so that differences of integers do not wrap around.
        left, right = expected.astype(np.float64), result.astype(np.float64)
        if not np.array_equal(np.isfinite(left), np.isfinite(right)):
            return f"outputs differ: {shown} is not finite in the same places"
        finite = np.isfinite(left)
        error = float(np.max(np.abs(left - right), where=finite, initial=0))
        largest = float(np.max(np.abs(left), where=finite, initial=0))
        if error > accepted * max(largest, 1e-30):
            return f"outputs differ: {shown} by {error:.1e}, of {largest:.1e}"
    return None
