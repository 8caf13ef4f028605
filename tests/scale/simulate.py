"""Simulates a release of many models on many workers: `python -m tests.scale.simulate --specs 10000 --workers 10,100,1000`.

The graph is the one of `modelwheel build`; what steps take was measured, see `times.py`. With your own times:

    python -m tests.scale.times STORE > mine.json
    python -m tests.scale.simulate --times mine.json

`--page` writes the table and the plot into docs/scale.md.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from modelwheel.engine.steps import steps_of
from modelwheel.engine.steps.base import JobStep
from modelwheel.plots import svg_panels
from modelwheel.request import make_request
from modelwheel.spec import load_spec
from tests.scale import times
from tests.scale.cluster_model import Cluster, Figures, Node, World
from tests.scale.models import spec_text

_DOCS = Path(__file__).parents[2] / "docs"
_PAGE, _PLOT = _DOCS / "scale.md", _DOCS / "scale.svg"
_MARKED = re.compile(r"(?<=<!-- simulation -->\n).*?(?=<!-- end -->)", re.DOTALL)

_SHARED = frozenset({"objects", "kernels", "runtime"})
_READS_MODEL = frozenset({"inspect", "reference", "freeze", "project"})


def graph() -> list[Node]:
    """The steps of one model with four CPU levels and two batch sizes, as `steps_of` has them."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "one.yaml")
        levels = "x86-64, x86-64-v2, x86-64-v3, x86-64-v4"
        path.write_text(spec_text("one", levels=levels, batch_sizes="1, 16"), encoding="utf-8")
        request = make_request(load_spec(path, with_files=False), platforms=["linux-x86_64"])
        steps = steps_of(request, "", {})
    place = {step.name: number for number, step in enumerate(steps)}
    seen: Counter[str] = Counter()
    nodes = []
    for step in steps:
        needs = tuple(place[name] for name in step.needs)
        waits = tuple(place[name] for name in step.waits_for)
        nodes.append(
            Node(
                step.kind, tuple(dict.fromkeys((*needs, *waits))), needs, seen[step.kind],
                step.kind in _READS_MODEL, step.kind in _SHARED, isinstance(step, JobStep),
            )
        )  # fmt: skip
        seen[step.kind] += 1
    return nodes


def simulate(
    profiles: Sequence[times.Profile], specs: int, workers: Sequence[int], world: World
) -> list[Figures]:
    """The figures for each number of workers."""
    nodes = graph()
    return [Cluster(nodes, profiles, specs, number, world).run() for number in workers]


def table(found: Sequence[Figures]) -> str:
    """The figures in Markdown."""
    head = (
        "workers", "hours", "machine hours", "busy", "waiting for the store", "requests", "busiest second",
        "moved", "driver", "lost workers", "cost of one",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for one in found:
        total = one.workers * one.makespan
        cells = (
            f"{one.workers:,}", f"{one.makespan / 3600:.2f}", f"{one.machine_hours:,.0f}",
            f"{one.work / total:.0%}", f"{one.waiting / total:.0%}", f"{(one.reads + one.writes) / 1e6:.2f} M",
            f"{one.busiest:,}", f"{one.moved / 1e12:.2f} TB", f"{one.driver_load:.0%}", f"{one.lost:,}",
            f"{one.loss:.0f} s",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(found: Sequence[Figures], path: Path) -> None:
    """Hours and machine hours against workers."""
    specs = f"{found[0].specs:,}"
    workers = [one.workers for one in found]
    work = found[0].work / 3600
    with svg_panels(path, f"{specs} specs on a cluster", (2, 1), height=6) as (above, below):
        above.loglog(workers, [one.makespan / 3600 for one in found], "o-", label="simulated")
        above.loglog(
            workers, [work / n for n in workers], "--", label="steps alone, shared equally"
        )
        above.loglog(
            workers, [max(one.fetched, one.driver) / 3600 for one in found], ":", label="what the driver does itself"
        )  # fmt: skip
        above.set_ylabel("hours")
        above.legend()
        below.semilogx(workers, [one.work / one.workers / one.makespan for one in found], "o-")
        below.set_ylim(0, 1)
        below.set_ylabel("busy with steps")
        below.set_xlabel("workers")


def main() -> None:
    """Simulates, prints, and writes the page if asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.scale.simulate", description=__doc__)
    parser.add_argument("--times", type=Path, default=times.MEASURED, help="what steps take")
    parser.add_argument("--specs", type=int, default=10_000)
    parser.add_argument(
        "--workers", default="10,30,100,300,1000,3000", help="numbers, with commas between"
    )
    parser.add_argument(
        "--page", action="store_true", help="write docs/scale.md and docs/scale.svg"
    )
    for field in fields(World):
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=type(field.default), default=field.default
        )
    given = parser.parse_args()
    world = World(**{field.name: getattr(given, field.name) for field in fields(World)})
    workers = [int(number) for number in given.workers.split(",")]
    found = simulate(times.load(given.times), given.specs, workers, world)
    text = table(found)
    sys.stdout.write(text)
    if given.page:
        draw(found, _PLOT)
        page = _MARKED.sub(lambda _: text, _PAGE.read_text(encoding="utf-8"))
        _PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
