"""The table of `modelwheel profile`."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from ...bench.profile import Profile, Step
from ...util.words import count, percent, time_text
from .console import plain

_SHOWN = 0.005
"""Steps that take less than this part of the time are summed up in one row."""


def print_profile(console: Console, profile: Profile) -> None:
    """The steps that take longest, then what all others take together."""
    total = sum(step.us for step in profile.steps) or 1.0
    table = Table(
        "step",
        "kind",
        Column("what", overflow="fold"),
        Column("layer", overflow="fold"),
        "µs",
        "time",
        *([f"{profile.threads} threads"] if profile.threads > 1 else []),
        "GFLOP/s",
        "of peak",
        "GB/s",
        box=SIMPLE,
        padding=(0, 1),
        title=f"{plain(profile.model)}, {profile.level}, batch size {profile.batch_size}",
    )
    ordered = sorted(profile.steps, key=lambda step: -step.us)
    shown = [step for step in ordered if step.us / total >= _SHOWN]
    for step in shown:
        table.add_row(*_cells(step, total, profile))
    rest = ordered[len(shown) :]
    if rest:
        us = sum(step.us for step in rest)
        gain = _gain(us, sum(step.threaded_us or 0.0 for step in rest), profile)
        table.add_row("", "", f"{len(rest)} others", "", f"{us:.2f}", f"{us / total:.1%}", *gain)
    console.print(table)
    console.print(_layers(profile, total))
    for line in summary(profile):
        console.print(line)


def _layers(profile: Profile, total: float) -> Table:
    """A row for each layer that takes long."""
    columns = ("layer", "steps", "µs", "time")
    table = Table(*(Column(name, overflow="fold") for name in columns), box=SIMPLE, padding=(0, 1))
    layers = profile.layers
    shown = [layer for layer in layers if layer.us / total >= _SHOWN]
    for layer in shown:
        name = plain(layer.name) or "(none)"
        table.add_row(name, str(layer.steps), f"{layer.us:.2f}", f"{layer.us / total:.1%}")
    if rest := layers[len(shown) :]:
        us = sum(layer.us for layer in rest)
        name, steps = f"{len(rest)} others", sum(layer.steps for layer in rest)
        table.add_row(name, str(steps), f"{us:.2f}", f"{us / total:.1%}")
    return table


def summary(profile: Profile) -> Iterator[str]:
    """The time of all steps together, and how much of the core they use."""
    inside = time_text(sum(step.us for step in profile.steps) / 1e6)
    yield (
        f"One run takes {time_text(profile.us / 1e6)}, of which {inside} are "
        f"in the {count(len(profile.steps), 'step')} above"
    )
    work = sum(step.operations for step in profile.steps if step.gflops is not None)
    if work:
        rate = work / profile.us / 1e3
        yield (
            f"Products and convolutions: {operations_text(work)}, {rate:.1f} GFLOP/s in the whole run, which is "
            f"{percent(rate / profile.peak_gflops)} of the {profile.peak_gflops:.0f} GFLOP/s that one core reaches"
        )
    if profile.threaded_us:
        yield (
            f"With {profile.threads} threads, one run takes {time_text(profile.threaded_us / 1e6)}: "
            f"{profile.us / profile.threaded_us:.2f} times as fast; their column has the same for each step"
        )


def operations_text(number: int) -> str:
    """A number of operations as people read it.

    >>> operations_text(4096), operations_text(2_340_000), operations_text(71)
    ('4.1 thousand operations', '2.3 million operations', '71 operations')
    """
    for unit, name in ((1e9, "billion"), (1e6, "million"), (1e3, "thousand")):
        if number >= unit:
            return f"{number / unit:.1f} {name} operations"
    return count(number, "operation")


def _gain(us: float, threaded_us: float | None, profile: Profile) -> list[str]:
    """The cell that is there if there are threads."""
    if profile.threads == 1:
        return []
    return [f"x {us / threaded_us:.2f}" if threaded_us else ""]


def _cells(step: Step, total: float, profile: Profile) -> tuple[str, ...]:
    times = f" x {step.runs:.0f}" if step.runs > 1.5 else ""
    gflops = step.gflops
    return (
        str(step.number),
        step.kind + times,
        plain(step.what),
        plain(step.layer) + (f" + {len(step.fused)}" if step.fused else ""),
        f"{step.us:.2f}",
        f"{step.us / total:.1%}",
        *_gain(step.us, step.threaded_us, profile),
        "" if gflops is None else f"{gflops:.1f}",
        "" if gflops is None else f"{gflops / profile.peak_gflops:.0%}",
        f"{step.gigabytes:.1f}",
    )
