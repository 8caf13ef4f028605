"""The tables of `modelwheel bench`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from ...bench.results import (
    OURS,
    SILENCE_MS,
    TITLES,
    Benchmark,
    Case,
    Cells,
    Compared,
    Kind,
    Machine,
    Part,
    Side,
    Timing,
    after_silence,
    itself,
    new_arrays,
)
from ...bench.statistics import Spread
from ...util.words import count, size_text, time_text
from .console import plain


def print_machine(console: Console, machine: Machine, models: Iterable[Compared]) -> None:
    """Where and with what was measured, and what other runtimes saw of the CPU where the wheel's level is lower."""
    load = "" if machine.load_average is None else f", load average {machine.load_average}"
    console.print(
        plain(
            f"{machine.date}: {machine.cpu}, cores: {machine.cores}{load}; {machine.system}; "
            f"Python {machine.python}; modelwheel {machine.modelwheel}{_others(machine, models)}"
        )
    )


def _others(machine: Machine, models: Iterable[Compared]) -> str:
    kinds = dict[str, set[Kind]]()
    whole = set[tuple[str, Kind]]()
    for model in models:
        others = [side for side in model.sides if side.kind != OURS and side.error is None]
        if model.level != machine.level and others:
            kinds.setdefault(model.level, set()).update(side.kind for side in others)
            whole.update((model.level, side.kind) for side in others if not side.lowered)
    return "".join(
        _seen(level, seen, {kind for kind in seen if (level, kind) in whole})
        for level, seen in kinds.items()
    )


def _seen(level: str, kinds: AbstractSet[Kind], whole: AbstractSet[Kind]) -> str:
    if kinds == whole:
        return f"; other runtimes use the whole CPU beside {level}"
    titles = ", ".join(title for kind, title in TITLES.items() if kind in whole)
    return f"; other runtimes see an {level} CPU" + (
        f" (the whole one: {titles})" if titles else ""
    )


def print_compared(console: Console, compared: Compared) -> None:
    """One model: times of every side for each number of rows, then what else was measured."""
    threads = "one thread" if compared.threads == 1 else f"{compared.threads} threads"
    kinds = [kind for kind in TITLES if any(case.cell(kind) for case in compared.cases)]
    table = Table(
        "rows",
        *(TITLES[kind] for kind in kinds),
        Column("best / wheel", no_wrap=True),
        "p99",
        "p99.9",
        "GFLOP/s",
        "of peak",
        box=SIMPLE,
        padding=(0, 1),
        title=f"{plain(compared.model)} {plain(compared.version)}, {compared.level}, {threads}, microseconds",
    )
    for case in compared.cases:
        table.add_row(str(case.rows), *_cells(case, kinds))
    console.print(table)
    if any(case.best_ratio(new_arrays) for case in compared.cases):
        console.print(_as_programs(compared, kinds))
    for line in notes(compared):
        console.print(plain(line))


def _cells(case: Case, kinds: list[Kind]) -> Iterator[str]:
    for kind in kinds:
        cell = case.cell(kind)
        yield "" if cell is None else _time(cell)
    ours = case.cell(OURS)
    yield _ratio(case.best_ratio(itself))
    _, p99, p999 = ours.latency if ours and ours.latency else (None, None, None)
    yield _us(p99)
    yield _us(p999)
    yield "-" if ours is None or ours.gflops is None else f"{ours.gflops:.1f}"
    yield "-" if case.share is None else f"{case.share:.0%}"


def _as_programs(compared: Compared, kinds: list[Kind]) -> Table:
    """Calls with new arrays, after silence, and with rows that vary."""
    table = Table(
        "rows",
        "calls",
        *(TITLES[kind] for kind in kinds),
        Column("best / wheel", no_wrap=True),
        box=SIMPLE,
        padding=(0, 1),
        title="Calls with new arrays, one after another and after silence, microseconds",
    )
    calls = {"one after another": new_arrays, f"after {SILENCE_MS} ms": after_silence}
    for case in compared.cases:
        for title, part in calls.items():
            table.add_row(str(case.rows), title, *_parts(case, kinds, part))
    if (trace := compared.trace) is not None:
        rows = f"{min(trace.rows)} to {max(trace.rows)}"
        table.add_row(rows, "one after another", *_parts(trace, kinds, itself))
    return table


def _parts(cells: Cells, kinds: list[Kind], part: Part) -> Iterator[str]:
    for kind in kinds:
        cell = cells.cell(kind)
        timing = None if cell is None else part(cell)
        yield "" if timing is None else _time(timing)
    yield _ratio(cells.best_ratio(part))


def _ratio(ratio: Spread | None) -> str:
    return "-" if ratio is None else f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"


def _time(cell: Timing) -> str:
    if cell.us is None:
        return "differs" if "differ" in (cell.error or "") else "failed"
    return _us(cell.us.median)


def _us(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 1e3 else f"{value:.0f}"


def notes(compared: Compared) -> Iterator[str]:
    """The results that are not times: starts, memory, sizes, and why cells are empty."""
    for side in compared.sides:
        yield f"  {TITLES[side.kind]}: {_side(side)}"
    for case in compared.cases:
        for cell in case.cells:
            if cell.error is not None:
                yield f"  {TITLES[cell.kind]} with {case.rows} rows: {cell.error}"
            elif cell.new_arrays is not None and cell.new_arrays.error is not None:
                yield f"  {TITLES[cell.kind]} with {case.rows} rows in new arrays: {cell.new_arrays.error}"
    for cell in compared.trace.cells if compared.trace else ():
        if cell.error is not None:
            yield f"  {TITLES[cell.kind]} with rows that vary: {cell.error}"
    weights = compared.weights_bytes / max(compared.saved_model_bytes, 1)
    built = compared.build_seconds
    yield (
        f"  wheel {size_text(compared.wheel_bytes)}; weights {size_text(compared.weights_bytes)}, "
        f"{weights:.2f} of the model's files; "
        + ("built before" if built is None else f"built in {time_text(built)} of its steps")
    )


def _side(side: Side) -> str:
    if side.error is not None:
        return side.error
    memory = "" if side.memory is None else f", {size_text(side.memory)}"
    return f"{side.version}: first prediction {time_text((side.first_ms or 0.0) / 1e3)} after NumPy's import{memory}"


def print_mean(console: Console, benchmark: Benchmark) -> None:
    """The last line."""
    mean = benchmark.mean
    cells = sum(case.best is not None for model in benchmark.models for case in model.cases)
    if mean is None:
        console.print("Geometric mean: no other runtime was timed")
    else:
        console.print(
            f"Geometric mean over {count(cells, 'cell')}: the best other runtime takes {mean:.2f} times as long"
        )
