"""Measurements as points of plots, in percent of their width and height.

The plots are SVG with such coordinates, so that they fill any width and their text keeps its size. Content security
policies forbid inline styles, but not the attributes of SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...assembly.manifest import Manifest
from ...assembly.splits import costs_of, first_sizes
from ...util.words import count, percent, time_text
from ...wheelfile.reports import Comparison, Timing
from .grid import place_of
from .projects import Release
from .wheels import ModelWheel

_COLUMNS = 40
"""The most numbers of rows in a plot."""
_COLOURS = 6
"""How many the style has."""
_LABELS = 12
"""The most columns of which each has its number below."""
_OUTPUTS = 8
"""The most outputs in a plot of errors."""

# --- splits ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """One run in a split."""

    kind: int
    """The place of its batch size, smallest first: what it is coloured by."""
    top: str
    height: str


@dataclass(frozen=True)
class Column:
    """One number of rows: what it is split into, and the time of a row."""

    rows: int
    split: str
    """`4 + 2 + 1`."""
    left: str
    width: str
    middle: str
    label: str
    """Under the plot; empty where there is no room."""
    blocks: tuple[Block, ...]
    time: str = ""
    """Of a row, as people read it; empty if it is not known."""
    height: str = ""
    """Of the bar for that time."""
    top: str = ""
    measured: bool = False
    """Whether this number of rows was timed; otherwise its time is the sum of its runs."""


def split_rows(manifest: Manifest, level: str, rows: int) -> list[list[int]]:
    """The batch sizes that run for each number of rows from 0 to `rows`, as the library chooses them.

    Empty where it refuses a number of rows.
    """
    batching = manifest.batching
    if batching.no_emulation_reason is not None:
        return [[n] if n in batching.sizes else [] for n in range(rows + 1)]
    costs = costs_of(manifest.variants, level)
    if batching.strategy == "smallest":
        first = [n if n in costs else min(costs) for n in range(rows + 1)]
    else:
        first = first_sizes(costs, rows)
    splits: list[list[int]] = [[]]
    for n in range(1, rows + 1):
        splits.append([first[n], *splits[max(n - first[n], 0)]])
    for rule in batching.rules:
        total, _, sizes = rule.partition(":")
        if int(total) <= rows:
            splits[int(total)] = [int(size) for size in sizes.split(",")]
    return splits


# --- time ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tick:
    """A line across a plot, with its text."""

    top: str
    text: str


@dataclass(frozen=True)
class Side:
    """One bar of a comparison."""

    name: str
    time: str
    """Of a call."""
    width: str


@dataclass(frozen=True)
class Pair:
    """A call of the framework, and the same call of the wheel on the same CPU."""

    sentence: str
    sides: tuple[Side, Side]


@dataclass(frozen=True)
class Speed:
    """The time of a row for each number of rows, and what that is split into."""

    where: str
    """The platform, the CPU level and the CPU."""
    columns: tuple[Column, ...]
    ticks: tuple[Tick, ...]
    sizes: tuple[int, ...]
    """The compiled batch sizes, smallest first."""
    against: tuple[Pair, ...]
    """The framework beside the wheel, if it was timed."""


@dataclass(frozen=True)
class Machine:
    """The measurements on one CPU at one level."""

    platform: str
    level: str
    cpu: str
    timings: Mapping[int, Timing]
    """The best of all Pythons, by the number of rows."""
    framework: Mapping[int, Timing]
    wheel: ModelWheel

    @property
    def where(self) -> str:
        """In one line."""
        return ", ".join(text for text in (self.cpu or "CPU not recorded", self.level) if text)

    def lines(self) -> list[tuple[str, ...]]:
        """For a table: platform, CPU, level, rows, the time of a call and of a row."""
        return [
            (
                self.platform,
                self.cpu or "not recorded",
                timing.framework or self.level,
                str(timing.rows),
                time_text(timing.nanoseconds / 1e9),
                time_text(timing.nanoseconds / max(timing.rows, 1) / 1e9),
            )
            for timing in (*self.timings.values(), *self.framework.values())
        ]


def machines_of(release: Release) -> list[Machine]:
    """The measurements of a version; wheels for several Pythons on one machine count as one."""
    by_place: dict[tuple[str, str], tuple[ModelWheel, list[Timing]]] = {}
    for wheel in release.wheels:
        for timing in wheel.timings:
            key = (place_of(wheel).name, timing.cpu)
            by_place.setdefault(key, (wheel, []))[1].append(timing)
    machines = []
    for (platform, cpu), (wheel, timings) in by_place.items():
        framework = _best(timing for timing in timings if timing.framework)
        ours = [timing for timing in timings if not timing.framework]
        for level in dict.fromkeys(timing.level for timing in ours):
            best = _best(timing for timing in ours if timing.level == level)
            machines.append(Machine(platform, level, cpu, best, framework, wheel))
    return machines


def _best(timings: Iterable[Timing]) -> dict[int, Timing]:
    fastest: dict[int, Timing] = {}
    for timing in timings:
        known = fastest.get(timing.rows)
        if known is None or timing.nanoseconds < known.nanoseconds:
            fastest[timing.rows] = timing
    return dict(sorted(fastest.items()))


def row_time(machine: Machine) -> float:
    """The shortest time of a row, in nanoseconds."""
    return min(t.nanoseconds / max(t.rows, 1) for t in machine.timings.values())


def draw_speed(machine: Machine) -> Speed:
    """The plot of one machine."""
    manifest = machine.wheel.manifest
    sizes = manifest.batching.sizes
    shown = _shown_rows(manifest, machine)
    splits = _splits(manifest, machine.level, shown[-1])
    times = {n: _nanoseconds(machine, n, splits[n]) for n in shown}
    slowest = max((time / n for n, time in times.items() if time), default=1.0)
    top, step = _scale(slowest)
    tallest = max(1, *(sum(splits[n]) for n in shown))
    columns = []
    for place, n in enumerate(shown):
        time = times[n]
        share = time / n / top if time else 0.0
        columns.append(
            Column(
                rows=n,
                split=_split_text(n, splits[n]),
                left=_percent((place + 0.1) / len(shown)),
                width=_percent(0.8 / len(shown)),
                middle=_percent((place + 0.5) / len(shown)),
                label=str(n) if n in sizes or len(shown) <= _LABELS else "",
                blocks=tuple(_stack(splits[n], sizes, tallest)),
                time=time_text(time / n / 1e9) if time else "",
                height=_percent(share),
                top=_percent(1 - share),
                measured=n in machine.timings,
            )
        )
    ticks = [
        Tick(_percent(1 - value / top), time_text(value / 1e9) if value else "0")
        for value in (step * number for number in range(round(top / step) + 1))
    ]
    return Speed(machine.where, tuple(columns), tuple(ticks), sizes, tuple(_against(machine)))


def _split_text(rows: int, split: Sequence[int]) -> str:
    padded = f", of which {sum(split) - rows} padded" if sum(split) > rows else ""
    return " + ".join(map(str, split)) + padded if split else "refused"


def _shown_rows(manifest: Manifest, machine: Machine) -> list[int]:
    """The numbers of rows in the plot: up to somewhat above the largest batch size, if other sizes run too."""
    if not manifest.signature.batched or manifest.batching.no_emulation_reason is not None:
        return sorted({*machine.timings, *manifest.batching.sizes} - {0})
    largest = manifest.batching.sizes[-1]
    last = max(largest + (largest + 1) // 2, 4)
    step = math.ceil(last / _COLUMNS)
    rows = {*range(step, last + 1, step), *(n for n in manifest.batching.sizes if step > 1)}
    return sorted(rows)


def _splits(manifest: Manifest, level: str, rows: int) -> list[list[int]]:
    if not any(variant.level == level for variant in manifest.variants):
        return [[] for _ in range(rows + 1)]
    return split_rows(manifest, level, rows)


def _nanoseconds(machine: Machine, rows: int, split: Sequence[int]) -> float:
    """The time of a call: as measured, or the sum of its runs; 0 if one of these was not measured."""
    if rows in machine.timings:
        return machine.timings[rows].nanoseconds
    if not split or not all(size in machine.timings for size in split):
        return 0.0
    return sum(machine.timings[size].nanoseconds for size in split)


def _stack(split: Sequence[int], sizes: Sequence[int], tallest: int) -> list[Block]:
    blocks, below = [], 0
    for size in split:
        below += size
        top, height = 1 - below / tallest, size / tallest
        kind = sizes.index(size) % _COLOURS if size in sizes else 0
        blocks.append(Block(kind, _percent(top), _percent(height)))
    return blocks


def _against(machine: Machine) -> Iterator[Pair]:
    for rows, theirs in machine.framework.items():
        ours = machine.timings.get(rows)
        if ours is None or ours.nanoseconds <= 0:
            continue
        factor = theirs.nanoseconds / ours.nanoseconds
        faster = f"{factor:.3g} times faster" if factor >= 1 else f"{1 / factor:.3g} times slower"
        longest = max(ours.nanoseconds, theirs.nanoseconds)
        sides = [
            Side(name, time_text(side.nanoseconds / 1e9), _percent(side.nanoseconds / longest))
            for name, side in (("this wheel", ours), (theirs.framework, theirs))
        ]
        yield Pair(f"{count(rows, 'row')}: {faster}", (sides[0], sides[1]))


def _scale(largest: float) -> tuple[float, float]:
    """The end of an axis and the distance of its lines, both round numbers: three to six lines."""
    raw = largest / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    return step * math.ceil(largest / step), step


# --- errors ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dot:
    """The worst error of one output at one CPU level."""

    level: str
    kind: int
    """The place of the level: what it is coloured by."""
    left: str
    """Its share of the limit, at most 100 percent."""
    text: str
    passed: bool


@dataclass(frozen=True)
class Errors:
    """The errors of all outputs, as shares of what is allowed."""

    sentence: str
    outputs: tuple[tuple[str, tuple[Dot, ...]], ...]
    """Those nearest to their limits, each with a dot for each level."""
    levels: tuple[str, ...]
    left_out: int
    """How many outputs more there are."""


def draw_errors(comparisons: Sequence[Comparison]) -> Errors | None:
    """The plot of a version's errors; None if nothing was compared."""
    if not comparisons:
        return None
    worst: dict[str, dict[str, Comparison]] = {}
    for comparison in comparisons:
        of_output = worst.setdefault(comparison.label, {})
        known = of_output.get(comparison.level)
        if known is None or comparison.share > known.share:
            of_output[comparison.level] = comparison
    ranked = sorted(worst.items(), key=lambda item: -max(c.share for c in item[1].values()))
    levels = list(dict.fromkeys(comparison.level for comparison in comparisons))
    outputs = [
        (label, tuple(_dot(c, levels.index(level)) for level, c in by_level.items()))
        for label, by_level in ranked[:_OUTPUTS]
    ]
    left_out = len(ranked) - len(outputs)
    return Errors(_sentence(comparisons), tuple(outputs), tuple(levels), left_out)


def _sentence(comparisons: Sequence[Comparison]) -> str:
    largest = max(comparison.share for comparison in comparisons)
    levels = dict.fromkeys(comparison.level for comparison in comparisons)
    if not all(comparison.passed for comparison in comparisons):
        failed = sum(not comparison.passed for comparison in comparisons)
        return f"{failed} of {count(len(comparisons), 'comparison')} beyond the allowed error"
    where = "at every CPU level" if len(levels) > 1 else f"at {next(iter(levels))}"
    used = (
        "Equal to the reference"
        if largest == 0
        else f"Within {percent(largest)} of the allowed error"
    )
    return f"{used} {where}, in {count(len(comparisons), 'comparison')}"


def _dot(comparison: Comparison, place: int) -> Dot:
    return Dot(
        comparison.level,
        place % _COLOURS,
        _percent(comparison.share),
        f"{comparison.absolute:.2g} of {comparison.limit:.2g}",
        comparison.passed,
    )


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.2f}%"
