"""What a build will take, from what earlier steps took; nothing is timed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.engine.planning.cost import estimate, makespan
from modelwheel.engine.planning.plan import Survey, survey
from modelwheel.request import make_request
from modelwheel.spec import load_spec
from modelwheel.store.history import History
from modelwheel.store.store import Store
from tests.support.histories import pretend_build
from tests.unit.engine.test_why import use_compiler

_SPEC = """
model: {name: NAME, version: "1.0.0", saved_model: ./model}
targets: [x86-64]
"""


@pytest.fixture(autouse=True)
def _compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    use_compiler(monkeypatch, "g++ 12")


def _survey(directory: Path, store: Store, name: str, size: int = 3, more: str = "") -> Survey:
    model = directory / name / "model"
    model.mkdir(parents=True, exist_ok=True)
    (model / "saved_model.pb").write_bytes(name.encode().ljust(size))
    path = directory / name / f"{name}.yaml"
    path.write_text(_SPEC.replace("NAME", name) + more)
    return survey(make_request(load_spec(path), platforms=["linux-x86_64"]), store)


def test_what_nobody_has_measured_is_not_estimated(tmp_path: Path, store: Store) -> None:
    cost = estimate([_survey(tmp_path, store, "tiny")], History(store), 2)
    assert cost.steps == sum(cost.unknown.values()) == 11
    assert (cost.measured, cost.estimated, cost.seconds, cost.makespan) == (0, 0, 0, 0)


def test_steps_that_ran_before_take_as_long_again(tmp_path: Path, store: Store) -> None:
    pretend_build(_survey(tmp_path, store, "tiny").request, store, seconds=2.0)
    done = estimate([_survey(tmp_path, store, "tiny")], History(store), 2)
    assert (done.steps, done.seconds) == (0, 0)

    changed = _survey(tmp_path, store, "tiny", more="verify: {seed: 3}\n")
    cost = estimate([changed], History(store), 2)
    # The reference, then the project, kernels and wheel, and the verification.
    assert (cost.steps, cost.measured, cost.estimated, cost.unknown) == (5, 5, 0, {})
    assert cost.seconds == cost.measured_seconds == cost.makespan == cost.shortest == 10.0
    assert cost.bytes > 0
    assert cost.hosts


def test_others_are_estimated_by_kind_and_size(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelwheel.engine.planning.cost._NEAREST", 1)
    pretend_build(_survey(tmp_path, store, "small", 10).request, store, seconds=1.0)
    pretend_build(_survey(tmp_path, store, "large", 10_000).request, store, seconds=9.0)
    cost = estimate([_survey(tmp_path, store, "other", 9_000)], History(store), 1)
    own = {
        "inspect",
        "sizing",
        "reference",
        "freeze",
        "compile",
        "project",
        "wheel",
        "verify",
    }
    assert cost.unknown == {}
    assert cost.measured + cost.estimated == cost.steps
    # The batch sizes of the first two have one result, which took a second.
    assert cost.estimated == len(own) + 1
    assert cost.seconds - cost.measured_seconds == pytest.approx(9.0 * len(own) + 1.0)


def test_what_knows_no_model_is_counted_once(tmp_path: Path, store: Store) -> None:
    names = ("a", "b", "c")
    surveys = [_survey(tmp_path, store, name) for name in names]
    one, three = (estimate(some, History(store), 1).unknown for some in (surveys[:1], surveys))
    assert three["objects"] == one["objects"] == 1
    assert three["compile"] == 3 * one["compile"]


@pytest.mark.parametrize(
    ("workers", "seconds"),
    # c waits for the longer of a and b; d waits for nobody.
    [(1, 12.0), (2, 7.0), (3, 6.0), (100, 6.0)],
)
def test_steps_start_as_soon_as_a_worker_is_free(workers: int, seconds: float) -> None:
    durations = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 6.0}
    assert makespan(durations, {"c": ["a", "b"]}, workers) == seconds


def test_the_makespan_is_never_less_than_the_work_or_the_longest_chain() -> None:
    durations = {str(n): float(n % 7 + 1) for n in range(200)}
    after = {str(n): [str(n // 2)] for n in range(1, 200)}
    longest = makespan(durations, after, 200)
    for workers in (1, 2, 5, 20):
        found = makespan(durations, after, workers)
        bound = max(sum(durations.values()) / workers, longest)
        # List scheduling is at most twice the best (Graham, 1966).
        assert bound <= found <= sum(durations.values()) / workers + longest
    assert makespan(durations, after, 1) == sum(durations.values())
    assert makespan({}, {}, 3) == 0.0
