"""Plots of a comparison and of proposed batch sizes: time against rows; all cells under the machine's roofline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..plots import svg_plot
from .results import OURS, TITLES, Benchmark, Compared, Kind
from .splits import lowest_times
from .tune import Proposal
from .workload import Workload


def write_plots(benchmark: Benchmark, directory: Path) -> list[Path]:
    """Writes the plots of every model, and one of them all; gives the files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = [_latency(model, directory) for model in benchmark.models]
    if any(case.share is not None for model in benchmark.models for case in model.cases):
        files.append(_shares(benchmark, directory))
    return files


def _latency(model: Compared, directory: Path) -> Path:
    """Microseconds for a row against the number of rows. The wheel's is a staircase: how rows are split changes in steps."""
    path = directory / f"{model.model}-{model.level}-{model.threads}.svg"
    threads = "one thread" if model.threads == 1 else f"{model.threads} threads"
    with svg_plot(path, f"{model.model}, {model.level}, {threads}") as axes:
        for kind, title in TITLES.items():
            points = _points(model, kind)
            if points:
                rows, times = zip(*points, strict=True)
                style: dict[str, Any] = (
                    {"drawstyle": "steps-post", "linewidth": 2.5} if kind == OURS else {}
                )
                axes.plot(rows, times, marker="o", label=title, **style)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("rows")
        axes.set_ylabel("microseconds for a row")
        axes.legend()
    return path


def _points(model: Compared, kind: Kind) -> list[tuple[int, float]]:
    cells = [(case.rows, case.cell(kind)) for case in model.cases]
    return [(rows, cell.us.median / max(rows, 1)) for rows, cell in cells if cell and cell.us]


def _shares(benchmark: Benchmark, directory: Path) -> Path:
    """The wheel's part of the peak against the arithmetic of a call."""
    path = directory / "peak.svg"
    with svg_plot(path, "Products and convolutions against the peak of one core") as axes:
        for model in benchmark.models:
            points = [(c.work, c.share) for c in model.cases if c.share is not None]
            if points:
                works, shares = zip(*points, strict=True)
                axes.plot(works, shares, marker="o", label=f"{model.model} ({model.level})")
        axes.axhline(1.0, color="black", linestyle="--")
        axes.set_xscale("log")
        axes.set_xlabel("multiplications and additions of a call")
        axes.set_ylabel("part of the peak")
        axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1, 0.5))
    return path


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
