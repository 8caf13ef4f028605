"""The tables of `modelwheel tune`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table

from ...bench.repeat import STABLE, is_stable
from ...bench.statistics import Spread
from ...bench.tune import WORTH, Proposal, Tuned, TunedLevel
from ...util.words import count
from .console import OUT, plain


def print_tuned(tuned: Tuned) -> None:
    """What was measured at each level, and what changes by it."""
    for name, level in tuned.levels.items():
        before = "us before" if level.measured_before else "us before, estimated"
        table = Table(
            "rows",
            before,
            "us now",
            "quartiles",
            box=SIMPLE,
            title=f"{plain(tuned.model)}, {name}, {plain(tuned.cpu)}",
        )
        for size, found in level.after.items():
            table.add_row(str(size), _us(level.before[size]), _us(found.median), _quartiles(found))
        OUT.print(table)
        for trial in level.trials:
            verdict = (
                "taken"
                if trial.taken
                else f"not taken: less than {WORTH - 1:.0%}, or not in all rounds"
            )
            OUT.print(plain(f"  {trial.flag}: {trial.gain:.3f} times as quick; {verdict}"))
        OUT.print(plain(_changes(level)))
        _warn(tuple(level.after.values()))


def _changes(level: TunedLevel) -> str:
    if not level.changed:
        return f"  No split of 1 to {level.rows} rows changes for the better."
    return (
        f"  {level.changed} of 1 to {level.rows} rows are split better, "
        f"at most {level.best_gain:.2f} times as quick."
    )


def print_proposal(proposal: Proposal) -> None:
    """What each candidate costs, and the batch sizes before and after."""
    table = Table(
        "batch size",
        "us a run",
        "quartiles",
        "us a row",
        "code kB",
        "now",
        "proposed",
        box=SIMPLE,
        title=f"{plain(proposal.model)}, {proposal.level}, {plain(proposal.cpu)}",
    )
    for size, found in proposal.costs.items():
        table.add_row(
            str(size),
            _us(found.median),
            _quartiles(found),
            _us(found.median / size),
            f"{proposal.code[size] / 1000:.1f}",
            "x" if size in proposal.current else "",
            "x" if size in proposal.proposed else "",
        )
    OUT.print(table)
    for title, sizes, time in (
        ("now", proposal.current, proposal.current_time),
        ("proposed", proposal.proposed, proposal.proposed_time),
    ):
        code = sum(proposal.code[size] for size in sizes) / 1000
        shown = ", ".join(map(str, sizes))
        OUT.print(f"  {title}: {shown}: {_us(time)} us a call, {code:.1f} kB of XLA's code")
    _warn(tuple(proposal.costs.values()))


def _warn(found: Sequence[Spread]) -> None:
    unstable = sum(not is_stable(one) for one in found)
    if unstable:
        OUT.print(
            f"  {count(unstable, 'time')} did not become stable: half of the rounds are more than {STABLE:.0%} apart. "
            "Repeat this on an idle machine."
        )


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.2f}"


def _quartiles(found: Spread) -> str:
    return f"{_us(found.low)}-{_us(found.high)}"
