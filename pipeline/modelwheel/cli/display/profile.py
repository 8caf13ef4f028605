"""The table of `modelwheel profile`."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from ...bench.profile import Profile, Step
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
        "us",
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
    work = sum(step.operations for step in profile.steps if step.gflops is not None)
    console.print(
        f"{profile.us:.1f} us a run, of which {total:.1f} in {len(profile.steps)} steps; products and convolutions "
        f"{work / 1e6:.2f} MFLOP, {work / profile.us / 1e3:.1f} GFLOP/s = "
        f"{work / profile.us / 1e3 / profile.peak_gflops:.0%} of the peak of one core ({profile.peak_gflops:.0f})"
    )
    if profile.threaded_us:
        console.print(
            f"{profile.threaded_us:.1f} us with {profile.threads} threads, {profile.us / profile.threaded_us:.2f} times as "
            "fast; their column has the same for each step"
        )


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
        plain(step.layer),
        f"{step.us:.2f}",
        f"{step.us / total:.1%}",
        *_gain(step.us, step.threaded_us, profile),
        "" if gflops is None else f"{gflops:.1f}",
        "" if gflops is None else f"{gflops / profile.peak_gflops:.0%}",
        f"{step.gigabytes:.1f}",
    )
