"""`make scale-demo`: forty models on a cluster whose workers are killed, with a store in S3.

1. A server of S3, a Dask scheduler and two workers start on this machine.
2. Forty small models are built on them, while a random worker is killed (SIGKILL) every twenty seconds.
3. The same command again has nothing to do.
4. One flag of four models changes; `plan --why` says what must run, and the next build runs that.

Everything is in one table and one plot, `.demo/scale/scale-demo.svg`.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from modelwheel.plots import svg_plot
from tests.demo.data import WORK, say
from tests.scale.killing import Killer, count_results, read_events
from tests.scale.models import write_models
from tests.support.clusters import cluster
from tests.support.object_stores import serve_objects

SCALE = WORK / "scale"
_CHANGED = 4
_FLAG = "fast_math: {enable: true, ignore_infs: true}\n"


@dataclass
class Row:
    """A line of the table."""

    what: str
    seconds: float = 0.0
    ran: int = 0
    cached: int = 0
    kills: int = 0
    lost: int = 0
    retried: int = 0
    twice: int = 0
    wheels: int = 0


@dataclass
class Demo:
    """The demonstration while it runs."""

    models: int
    address: str = ""
    store: str = ""
    rows: list[Row] = field(default_factory=list)
    kills: list[tuple[float, int]] = field(default_factory=list)

    def build(self, what: str, killer: Killer | None = None) -> None:
        """Builds all models on the cluster, and notes what happened."""
        say(what)
        events = SCALE / f"events-{len(self.rows)}.jsonl"
        command = ["build", "--store", self.store, "--cluster", self.address]
        command += [
            "--json-events",
            str(events),
            "--out",
            str(SCALE / "dist"),
            str(SCALE / "specs"),
        ]
        before = len(killer.kills) if killer else 0
        start = time.monotonic()
        modelwheel(*command)
        row = Row(what, time.monotonic() - start)
        found = read_events(events)
        results = count_results(found)
        row.ran, row.twice = len(results), sum(number > 1 for number in results.values())
        names = [event["event"] for event in found]
        row.cached, row.lost = names.count("cached"), names.count("worker_lost")
        row.retried = names.count("retried")
        row.kills = len(killer.kills) - before if killer else 0
        row.wheels = len([*(SCALE / "dist").glob("model_small*.whl")])
        self.rows.append(row)

    def print(self) -> None:
        """The table."""
        head = (
            "what",
            "seconds",
            "steps run",
            "from the store",
            "kills",
            "workers lost",
            "steps repeated",
        )
        table = Table(*head, "results twice", "wheels", title=f"{self.models} models, two workers")
        for row in self.rows:
            numbers = (row.ran, row.cached, row.kills, row.lost, row.retried, row.twice, row.wheels)
            table.add_row(row.what, f"{row.seconds:.0f}", *map(str, numbers))
        Console(width=140).print(table)

    def draw(self, path: Path) -> None:
        """Which worker ran what when, in the build with kills."""
        events = read_events(SCALE / "events-0.jsonl")
        start = _seconds(events[0])
        places = {name: number for number, name in enumerate(sorted(_workers(events)))}
        with svg_plot(path, f"{self.models} models while workers are killed", width=10) as axes:
            for number, (kind, spans) in enumerate(sorted(_spans(events).items())):
                for worker, begun, ended in spans:
                    axes.barh(
                        places[worker],
                        ended - begun,
                        left=begun - start,
                        height=0.7,
                        color=f"C{number % 10}",
                    )
                axes.barh(0, 0, color=f"C{number % 10}", label=kind)
            for at, _ in self.kills:
                axes.axvline(at - start, color="black", linewidth=0.8, linestyle=":")
            axes.set_yticks(list(places.values()), list(places))
            axes.set_xlabel("seconds; dotted: a kill")
            axes.legend(ncols=5, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.15))


def _seconds(event: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


def _workers(events: Sequence[Mapping[str, Any]]) -> set[str]:
    return {
        event["worker"] for event in events if event["event"] == "started" and event.get("worker")
    }


def _spans(events: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[str, float, float]]]:
    """By kind of step: worker, beginning and end."""
    begun: dict[str, tuple[str, float]] = {}
    spans: dict[str, list[tuple[str, float, float]]] = {}
    for event in events:
        if event["event"] == "started" and event.get("worker"):
            begun[event["step"]] = event["worker"], _seconds(event)
        elif event["event"] == "finished" and event["step"] in begun:
            worker, at = begun.pop(event["step"])
            spans.setdefault(event["kind"], []).append((worker, at, _seconds(event)))
    return spans


def modelwheel(*arguments: str) -> str:
    """The output of the command; if it fails, so does the demonstration."""
    command = [sys.executable, "-m", "modelwheel", *arguments]
    environment = {**os.environ, "MODELWHEEL_CACHE_DIR": str(SCALE / "cache")}
    found = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        sys.exit(f"{' '.join(command)} ended with {found.returncode}:\n{found.stdout[-3000:]}")
    return found.stdout


def change(specs: Sequence[Path]) -> None:
    """One flag in some specs."""
    for spec in specs:
        spec.write_text(spec.read_text(encoding="utf-8") + _FLAG, encoding="utf-8")


@contextmanager
def machines(demo: Demo) -> Iterator[list[int]]:
    """S3, a scheduler and two workers; the processes that watch over the workers."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line for each request
    with ExitStack() as stack:
        demo.store = stack.enter_context(serve_objects("s3"))
        os.environ["MODELWHEEL_CACHE_DIR"] = str(SCALE / "cache-of-workers")
        found = stack.enter_context(cluster(0))
        for name in ("first", "second"):
            found.start_workers(1, "--name", name, "--threads", "1")
        demo.address = found.address
        yield [process.pid for process in found.workers]


def main() -> None:
    """Runs every step and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.scale.demo", description=__doc__)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--kill-every", type=float, default=20.0, metavar="SECONDS")
    given = parser.parse_args()
    shutil.rmtree(SCALE, ignore_errors=True)
    SCALE.mkdir(parents=True)
    demo = Demo(given.models)
    specs = write_models(SCALE / "specs", given.models)
    with machines(demo) as roots:
        with Killer(roots, given.kill_every) as killer:
            demo.build("build, while workers are killed", killer)
        demo.kills = killer.kills
        demo.build("build again: nothing to do")
        change(specs[:_CHANGED])
        say("one flag of four models changed; modelwheel plan --why:")
        sys.stdout.write(modelwheel("plan", "--why", "--store", demo.store, *map(str, specs[:2])))
        demo.build(f"build after a flag of {min(_CHANGED, given.models)} models changed")
    demo.print()
    plot = SCALE / "scale-demo.svg"
    demo.draw(plot)
    say(f"plot: {plot}")
    built = demo.rows[0]
    if built.twice or built.wheels != given.models or demo.rows[1].ran:
        sys.exit("a result was made twice, or a wheel is missing")


if __name__ == "__main__":
    main()
