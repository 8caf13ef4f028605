"""What `modelwheel tune` makes of its measurements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from modelwheel.assembly.splits import Cost, Costs, first_sizes, times
from modelwheel.bench import tune
from modelwheel.bench.plots import write_splits
from modelwheel.bench.repeat import Measure, is_stable, repeat
from modelwheel.bench.statistics import Spread
from modelwheel.bench.tune import Proposal, Tuner, propose_sizes
from modelwheel.bench.workload import candidates, expected_time, parse_workload, propose
from modelwheel.errors import UsageError
from modelwheel.levels import LEVELS, Level
from modelwheel.request import Request, make_request
from modelwheel.spec import load_spec
from tests.support.commands import write_tiny_spec

COSTS = {1: Cost(3.0), 4: Cost(6.0), 16: Cost(15.0)}
from modelwheel.util.watching import NOBODY, Watcher


def _cheapest(costs: Costs, rows: int) -> float:
    """The lowest cost of any multiset of batch sizes with enough rows; all of each are computed."""
    return min(
        sum(count * cost.whole for count, cost in zip(counts, costs.values(), strict=True))
        for counts in itertools.product(*(range(-(-rows // size) + 1) for size in costs))
        if sum(count * size for count, size in zip(counts, costs, strict=True)) >= rows
    )


@pytest.mark.parametrize(
    "costs", [COSTS, {2: Cost(5.0)}, {1: Cost(1.0), 3: Cost(4.0), 5: Cost(4.5)}]
)
def test_splits_cost_the_least(costs: Costs) -> None:
    total = times(first_sizes(costs, 20), costs)
    assert total[1:] == [_cheapest(costs, rows) for rows in range(1, 21)]


def test_equal_costs_take_fewer_runs_and_exact_ends() -> None:
    assert first_sizes({1: Cost(1.0), 2: Cost(2.0)}, 4) == [0, 1, 2, 2, 2]
    assert first_sizes({2: Cost(2.0), 3: Cost(2.0)}, 2) == [0, 3, 2]


def test_a_run_of_fewer_rows_costs_less() -> None:
    """Three of four rows take seven eighths of the part that grows, and all of the rest."""
    assert Cost(8.0, 0.5).of(3, 4) == 7.0
    costs = {1: Cost(3.0), 4: Cost(8.0, 0.5)}
    assert first_sizes(costs, 6) == [0, 1, 1, 4, 4, 4, 4]
    assert times(first_sizes(costs, 6), costs) == [0.0, 3.0, 6.0, 7.0, 8.0, 11.0, 14.0]


def test_measurements_end_when_they_are_stable() -> None:
    steady, noisy = itertools.repeat(100.0), itertools.cycle([100.0, 200.0, 300.0])
    (found,) = repeat([lambda: {1: next(steady)}])
    assert len(found.rounds[1]) == 5
    first, second = repeat([lambda: {1: next(steady)}, lambda: {1: next(noisy)}])
    assert len(first.rounds[1]) == len(second.rounds[1]) == 15
    assert is_stable(first.spreads[1])
    assert not is_stable(second.spreads[1])
    assert second.over(first)[1].median == 2.0


@pytest.mark.parametrize("text", ["", "x", "0", "5:0", "5:-1", "5:nan", "5:inf", "1,1", "9999:1"])
def test_a_malformed_workload_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="--workload"):
        parse_workload(text)


def test_a_workload() -> None:
    assert parse_workload("1:70,16:25.5, 100") == {1: 70.0, 16: 25.5, 100: 1.0}


def test_candidates_are_few_and_have_what_is_frequent() -> None:
    assert candidates({1: 5, 7: 1}, (3,)) == (1, 2, 3, 4, 7)
    many = candidates({rows: rows for rows in range(1, 200)}, (5,))
    assert len(many) == 12
    assert {5, 128, 199, 198} <= set(many)


def test_batch_sizes_are_added_as_long_as_they_are_worth_it() -> None:
    code = {1: 10, 4: 20, 16: 40}
    assert propose(COSTS, code, {1: 1}, None) == (1,)
    assert propose(COSTS, code, {1: 1, 16: 1}, None) == (1, 16)
    assert propose(COSTS, code, {16: 1}, 30) == (4,)
    assert expected_time(COSTS, {1: 3, 17: 1}) == (3 * 3.0 + 18.0) / 4
    with pytest.raises(UsageError, match="no batch size has less than"):
        propose(COSTS, code, {1: 1}, 5)


@dataclass(frozen=True)
class _Wheel:
    """A wheel whose runs cost as much as they have rows."""

    sizes: Sequence[int]
    unsplit_reason: str | None = None
    levels: Sequence[Level] = (LEVELS["x86-64"], LEVELS["x86-64-v3"])

    def costs(self, _: Level) -> Costs:
        return {size: Cost(float(size), 0.5) for size in self.sizes}

    def measure(self, level: Level) -> Measure:
        assert level.name == "x86-64-v3"
        return lambda: {size: float(size) for size in self.sizes}


@dataclass
class _Tuner:
    """Builds such wheels."""

    requests: list[Request] = field(default_factory=list)
    store: None = None
    reporter: Watcher = NOBODY

    def build(self, request: Request) -> _Wheel:
        self.requests.append(request)
        return _Wheel(request.batch_sizes)


def test_a_wheel_with_every_candidate_is_built_at_the_highest_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        tune, "_code_sizes", lambda request, *_: dict.fromkeys(request.batch_sizes, 1)
    )
    request, tuner = (
        make_request(load_spec(write_tiny_spec(tmp_path)), platforms=["linux-x86_64"]),
        _Tuner(),
    )
    proposal = propose_sizes(request, cast("Tuner", tuner), {1: 1, 2: 3}, None)
    current, wider = tuner.requests
    assert current is request
    assert (wider.batch_sizes, [level.name for level in wider.levels]) == ((1, 2, 4), ["x86-64-v3"])
    assert proposal.costs_of(wider.batch_sizes) == _Wheel((1, 2, 4)).costs(wider.levels[0])
    assert (proposal.current, proposal.proposed) == ((1, 4), (1,))
    assert (proposal.current_time, proposal.proposed_time) == (1.75, 1.75)


def test_the_plot_has_both(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    proposal = Proposal(
        model="tiny-1",
        cpu="any",
        level="x86-64",
        costs={
            size: Spread(median=cost.whole, low=cost.whole, high=cost.whole)
            for size, cost in COSTS.items()
        },
        partial=dict.fromkeys(COSTS, 0.0),
        code={1: 10, 4: 20, 16: 40},
        current=(1, 4),
        proposed=(1, 16),
        current_time=1.0,
        proposed_time=1.0,
    )
    write_splits(proposal, {1: 1, 16: 1}, tmp_path / "rows.svg")
    drawn = (tmp_path / "rows.svg").read_text()
    assert "now: 1, 4" in drawn
    assert "proposed: 1, 16" in drawn
