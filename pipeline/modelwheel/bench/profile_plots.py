"""Plots of a profile: a flame graph, as wide as the time and as deep as the names of layers, and a roofline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..plots import svg_plot
from .profile import Profile, Step

_LABEL = 0.03
"""Narrower boxes than this part of the whole have no text."""


class Box(NamedTuple):
    """A layer, or a step."""

    name: str
    start: float
    width: float
    depth: int


def boxes(steps: tuple[Step, ...]) -> Iterator[Box]:
    """Boxes in microseconds: a box for each part of a layer's name, under the box of the parts before it."""
    yield from _below(
        sorted(((_path(step), step.us) for step in steps), key=lambda item: item[0]), 0.0, 0
    )


def _path(step: Step) -> tuple[str, ...]:
    return (*filter(None, step.layer.split("/")), f"{step.kind} {step.what}")


def _below(items: list[tuple[tuple[str, ...], float]], start: float, depth: int) -> Iterator[Box]:
    groups: dict[str, list[tuple[tuple[str, ...], float]]] = {}
    for path, us in items:
        if path:
            groups.setdefault(path[0], []).append((path[1:], us))
    for name, inside in groups.items():
        width = sum(us for _, us in inside)
        yield Box(name, start, width, depth)
        yield from _below(inside, start, depth + 1)
        start += width


def write_flames(profile: Profile, path: Path) -> None:
    """Writes the graph as SVG."""
    drawn = [box for box in boxes(profile.steps) if box.width]
    whole = sum(box.width for box in drawn if box.depth == 0)
    deepest = max((box.depth for box in drawn), default=0)
    title = (
        f"{profile.model}, {profile.level}, batch size {profile.batch_size}: {profile.us:.1f} us"
    )
    with svg_plot(path, title, width=14, height=1.2 + 0.35 * (deepest + 1)) as axes:
        for number, box in enumerate(drawn):
            colour = f"C{number % 10}"
            axes.broken_barh([(box.start, box.width)], (box.depth, 0.95), color=colour, alpha=0.5)
            if whole and box.width / whole > _LABEL:
                letters = max(3, int(box.width / whole * 150))
                axes.text(
                    box.start + box.width / 2,
                    box.depth + 0.45,
                    box.name[:letters],
                    ha="center",
                    va="center",
                    fontsize=6,
                    clip_on=True,
                    parse_math=False,
                )
        axes.set_xlabel("microseconds")
        axes.set_yticks([])
        axes.set_xlim(0, whole or 1)


def write_roofline(profile: Profile, path: Path) -> None:
    """Writes products and convolutions under the two limits of the machine: arithmetic and memory.

    A point below the slope waits for memory if its operands are not in a cache; one above it has them there
    (Williams, Waterman, Patterson: Roofline, 2009). As large as its part of the time.
    """
    points = [step for step in profile.steps if step.gflops is not None and step.operations]
    title = f"{profile.model}, {profile.level}, batch size {profile.batch_size}"
    with svg_plot(path, title) as axes:
        edge = profile.peak_gflops / profile.bandwidth
        limits = [0.1, edge, max([10 * edge, *(step.intensity for step in points)])]
        roof = [min(x * profile.bandwidth, profile.peak_gflops) for x in limits]
        axes.plot(limits, roof, color="black", label="one core: memory, multiply-adds")
        axes.scatter(
            [step.intensity for step in points],
            [step.gflops or 0 for step in points],
            s=[10 + 300 * step.us / profile.us for step in points],
            alpha=0.6,
            label="products and convolutions",
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("operations for each byte")
        axes.set_ylabel("GFLOP/s")
        axes.legend()
