"""The tables of `modelwheel tune`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table

from ...bench.repeat import STABLE, is_stable
from ...bench.statistics import Spread
from ...bench.tune import WORTH, Proposal, Tuned, TunedLevel
from ...util.words import count, size_text, time_text
from .console import OUT, plain


def print_tuned(tuned: Tuned) -> None:
    """Prints the measurements at each level, and what changes by them."""
    for name, level in tuned.levels.items():
        before = "µs before" if level.measured_before else "µs before, estimated"
        table = Table(
            "rows",
            before,
            "µs now",
            "quartiles",
            box=SIMPLE,
            title=f"{plain(tuned.model)}, {name}, {plain(tuned.cpu)}",
        )
        for size, spread in level.after.items():
            table.add_row(
                str(size), _us(level.before[size]), _us(spread.median), _quartiles(spread)
            )
        OUT.print(table)
        for trial in level.trials:
            verdict = (
                "taken"
                if trial.taken
                else f"not taken: less than {WORTH - 1:.0%}, or not in all rounds"
            )
            OUT.print(plain(f"  {trial.flag}: {trial.gain:.3f} times as fast; {verdict}"))
        OUT.print(plain(_changes(level)))
        _warn(tuple(level.after.values()))


def _changes(level: TunedLevel) -> str:
    if not level.changed:
        return f"  No call with 1 to {level.rows} rows gets faster."
    return (
        f"  Of the calls with 1 to {level.rows} rows, {level.changed} get faster, by a factor of at most "
        f"{level.best_gain:.2f}."
    )


def print_proposal(proposal: Proposal) -> None:
    """Prints the cost of each candidate, and the batch sizes before and after."""
    table = Table(
        "batch size",
        "µs a run",
        "quartiles",
        "µs a row",
        "code",
        "now",
        "proposed",
        box=SIMPLE,
        title=f"{plain(proposal.model)}, {proposal.level}, {plain(proposal.cpu)}",
    )
    for size, spread in proposal.costs.items():
        table.add_row(
            str(size),
            _us(spread.median),
            _quartiles(spread),
            _us(spread.median / size),
            size_text(proposal.code[size]),
            "x" if size in proposal.current else "",
            "x" if size in proposal.proposed else "",
        )
    OUT.print(table)
    for title, sizes, time in (
        ("now", proposal.current, proposal.current_time),
        ("proposed", proposal.proposed, proposal.proposed_time),
    ):
        code = size_text(sum(proposal.code[size] for size in sizes))
        shown = ", ".join(map(str, sizes))
        OUT.print(f"  {title}: {shown}: {time_text(time / 1e9)} a call, {code} of XLA's code")
    _warn(tuple(proposal.costs.values()))


def _warn(spreads: Sequence[Spread]) -> None:
    unstable = sum(not is_stable(spread) for spread in spreads)
    if unstable:
        OUT.print(
            f"  The machine is busy: {count(unstable, 'timing')} {'varies' if unstable == 1 else 'vary'} by more "
            f"than {STABLE * 100:.0f} %. Run it again when it is idle."
        )


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.2f}"


def _quartiles(spread: Spread) -> str:
    return f"{_us(spread.low)}-{_us(spread.high)}"
