"""What a step costs on a cluster that it does not cost on this machine: `python -m tests.bench.overhead`.

Chains of steps that do nothing run on a Dask cluster of this machine and in a local build, in turns. What counts is the time from
the end of one step to the end of the next: keys, looking up, locks, sending, publishing. Needs the extra `cluster`, and no TensorFlow.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table

from modelwheel.engine.reporting import SilentReporter
from modelwheel.engine.scheduler import Task, Tools, run_on, run_steps
from modelwheel.store.store import Store
from tests.support.cluster_toys import chain
from tests.support.clusters import MODEL_KEY, cluster, executor
from tests.support.sandboxes import NONE
from tests.support.toys import ThreadPool


@dataclass
class Clock(SilentReporter):
    """Remembers when steps ended."""

    ends: list[float] = field(default_factory=list)

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:  # noqa: ARG002
        self.ends.append(time.perf_counter())

    @property
    def milliseconds(self) -> list[float]:
        """Between the ends of steps; the first one also waits for a beginning."""
        return [1e3 * (b - a) for a, b in pairwise(self.ends)]


def main() -> None:
    """Runs chains in turns, and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.overhead", description=__doc__)
    parser.add_argument("--steps", type=int, default=50, help="of each chain")
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    found: dict[str, list[float]] = {"this machine": [], "cluster": []}
    with tempfile.TemporaryDirectory() as directory, cluster(1) as started:
        work = Path(directory)
        diary, model, store = work / "diary", work / "model", Store(work / "store")
        for path in (diary, model):
            path.mkdir()
        (model / "model").write_text("a model")
        told = Clock()
        with executor(started.address, store, told) as remote, ThreadPool(1) as pool:
            # `run_on` closes what it is given after one build; here it stays for all rounds.
            remote.close, close = lambda: None, remote.close  # type: ignore[method-assign]
            for number in range(given.rounds):
                clock = Clock()
                steps = chain(diary, f"here{number}", given.steps)
                run_steps([Task(steps, model)], Tools(store, pool, clock, NONE))
                found["this machine"] += clock.milliseconds
                clock = Clock()
                steps = chain(diary, f"there{number}", given.steps)
                run_on(remote, [Task(steps, model, model_key=MODEL_KEY)], clock)
                found["cluster"] += clock.milliseconds
            close()
        store.close()
    table = Table("milliseconds for each step", "median", "p99")
    for name, times in found.items():
        table.add_row(name, f"{median(times):.1f}", f"{quantiles(times, n=100)[98]:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
