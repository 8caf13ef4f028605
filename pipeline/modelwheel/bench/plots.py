"""Plots of a comparison and of proposed batch sizes: time against rows, with how rows are split; parts of the peak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..assembly.splits import lowest_times
from ..plots import svg_panels, svg_plot
from .results import OURS, TITLES, Benchmark, Compared, Kind
from .tune import Proposal
from .workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def write_plots(benchmark: Benchmark, directory: Path) -> list[Path]:
    """Writes the plots of every model, and one of them all; gives the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for model in benchmark.models:
        path = directory / f"{model.model}-{model.level}-{model.threads}.svg"
        write_latency(model, path)
        files.append(path)
    if any(case.share is not None for model in benchmark.models for case in model.cases):
        files.append(directory / "peak.svg")
        write_shares(benchmark.models, files[-1])
    return files


def write_latency(model: Compared, path: Path, title: str | None = None) -> None:
    """Microseconds of a call against the number of rows; below, the batch sizes that the wheel splits the rows into.

    Fewer rows never take longer than more rows: a run computes the first rows of a batch, or all of a padded one.
    """
    threads = "one thread" if model.threads == 1 else f"{model.threads} threads"
    heading = f"{title or model.model}, {model.level}, {threads}"
    with svg_panels(path, heading, (3, 1), height=6) as (times, split):
        for kind, name in TITLES.items():
            points = _points(model, kind)
            if points:
                style: dict[str, Any] = {}
                if kind == OURS:
                    style = {"linewidth": 2.5, "zorder": 3, "drawstyle": "steps-pre"}
                times.plot(*zip(*points, strict=True), marker="o", ms=3, label=name, **style)
        times.set_xscale("log", base=2)
        times.set_yscale("log")
        times.set_ylabel("microseconds of a call")
        times.legend(fontsize="small")
        _draw_split(model, split)
        split.set_xlabel("rows")


def _points(model: Compared, kind: Kind) -> list[tuple[int, float]]:
    cells = [(case.rows, case.cell(kind)) for case in model.cases]
    return sorted((rows, cell.us.median) for rows, cell in cells if cell and cell.us)


def _draw_split(model: Compared, axes: Axes) -> None:
    """A bar for each number of rows: the batch sizes of its runs, as parts of the rows; above 1 where a batch has room for more."""
    split = {case.rows: runs(case.rule) for case in model.cases if case.rows > 0}
    rows = sorted(split)
    tops = [0.0] * len(rows)
    for size in sorted({size for sizes in split.values() for size in sizes}, reverse=True):
        parts = [size * split[number].get(size, 0) / number for number in rows]
        axes.bar(
            rows,
            parts,
            width=[0.05 * number for number in rows],
            bottom=tops,
            label=f"batch size {size}",
        )
        tops = [top + part for top, part in zip(tops, parts, strict=True)]
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_ylabel("computed rows\n/ rows")
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))


def runs(rule: str) -> dict[int, int]:
    """How often each batch size runs: {4: 1, 1: 3} for the rule `7:4,1,1,1`."""
    return Counter(int(size) for size in rule.partition(":")[2].split(",") if size)


def write_shares(models: Sequence[Compared], path: Path) -> None:
    """The wheels' part of the peak against the arithmetic of a call."""
    with svg_plot(path, "Products and convolutions against the peak of one core") as axes:
        drawn = 0
        for model in models:
            points = [(c.work, c.share) for c in model.cases if c.share is not None]
            if points:
                works, shares = zip(*points, strict=True)
                marker = "os^"[drawn // 10 % 3]  # there are ten colours
                label = f"{model.model} ({model.level})"
                axes.plot(works, shares, marker=marker, label=label)
                drawn += 1
        axes.axhline(1.0, color="black", linestyle="--")
        axes.set_xscale("log")
        axes.set_xlabel("multiplications and additions of a call")
        axes.set_ylabel("part of the peak")
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))


def write_splits(proposal: Proposal, workload: Workload, path: Path) -> None:
    """Microseconds for a row against rows, with the batch sizes of now and with the proposed ones."""
    rows = 2 * max(*workload, *proposal.proposed)
    with svg_plot(path, f"{proposal.model}, {proposal.level}") as axes:
        for title, sizes in (("now", proposal.current), ("proposed", proposal.proposed)):
            costs = proposal.costs_of(sizes)
            total = lowest_times(costs, rows)
            numbers = range(1, rows + 1)
            label = f"{title}: {', '.join(map(str, sizes))}"
            axes.plot(
                numbers,
                [total[n] / n / 1000 for n in numbers],
                drawstyle="steps-mid",
                label=label,
            )
        for number in workload:
            axes.axvline(number, color="black", alpha=0.3, linestyle=":")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("rows (dotted: the workload)")
        axes.set_ylabel("microseconds for a row")
        axes.legend()
