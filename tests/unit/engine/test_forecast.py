"""What earlier builds say about the time that a build takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.engine.planning import forecast
from modelwheel.engine.planning.forecast import Forecast, seconds_by_kind
from modelwheel.engine.tally import Tally
from modelwheel.errors import StoreError
from modelwheel.store.history import remember
from modelwheel.store.keys import action_key
from modelwheel.store.store import Store
from tests.support.waiting import wait_until


def put(store: Store, number: int, note: dict[str, object]) -> None:
    """A record as a step has written it."""
    key = action_key("toy", number=str(number))
    remember(store, f"lineage {number}", key)
    with store.scratch() as out:
        (out / "file").write_bytes(b"1")
        store.publish(key, out, note)


def test_the_mean_of_each_kind_is_in_the_records(store: Store) -> None:
    notes: list[dict[str, object]] = [
        {"kind": "freeze", "seconds": 2.0},
        {"kind": "freeze", "seconds": 4.0},
        {"kind": "compile", "seconds": 7.0},
        {"kind": "compile", "seconds": "soon"},
        {"kind": ["freeze"], "seconds": 100.0},
        {"step": "written by an older version"},
    ]
    for number, note in enumerate(notes):
        put(store, number, note)
    assert seconds_by_kind(store) == {"freeze": 3.0, "compile": 7.0}


def test_a_build_that_runs_a_step_has_an_estimate_at_once(store: Store) -> None:
    put(store, 1, {"kind": "freeze", "seconds": 5.0})
    tally = Tally(lambda: 0.0)
    asked = Forecast(tally, store)
    tally.planned(["m-1/fetch", "m-1/freeze/b1"])
    asked.started("m-1/fetch")
    assert tally.seconds_left() is None
    asked.started("m-1/freeze/b1", "worker")
    wait_until(lambda: tally.seconds_left() == 5.0)


def test_a_store_that_cannot_be_read_makes_no_estimate(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Path] = []

    def fail(_: Store) -> dict[str, float]:
        asked.append(tmp_path)
        raise StoreError("no")

    monkeypatch.setattr(forecast, "seconds_by_kind", fail)
    tally = Tally()
    reporter = Forecast(tally, store)
    tally.planned(["m-1/freeze/b1"])
    for _ in range(3):
        reporter.started("m-1/freeze/b1")
    wait_until(lambda: asked)
    assert tally.seconds_left() is None
    assert len(asked) == 1
