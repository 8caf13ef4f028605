"""Several machines agree on which of them computes a result that all need."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread

import pytest

from modelwheel.errors import StoreError
from modelwheel.store.backends.objects import ObjectBackend
from modelwheel.store.objects import claims
from tests.support.stores import KEY, Machine, make


def test_one_machine_at_a_time_does_the_work(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_ASKED_SECONDS", 0.1)
    a, b = machine("a"), machine("b")
    found: list[object] = []

    def wait() -> None:
        with b.lock(KEY):
            found.append(b.lookup(KEY))

    with a.lock(KEY):
        waiting = Thread(target=wait)
        waiting.start()
        time.sleep(0.5)
        assert not found
        record = a.publish(KEY, make(tmp_path / "out"))
    waiting.join(30)
    assert found == [record]
    assert list(a.backend.list("claims/")) == []


def test_whoever_gives_up_does_not_wait(machine: Machine) -> None:
    with (
        machine("a").lock(KEY),
        pytest.raises(StoreError, match="gave up waiting"),
        machine("b").lock(KEY, lambda: True),
    ):
        pass


def test_an_expired_claim_is_taken_over(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = machine("a"), machine("b")
    with a.lock(KEY):  # a machine that stands still for longer than its claim lasts
        monkeypatch.setattr(claims, "_EXPIRED_SECONDS", -10.0)
        with b.lock(KEY):
            assert {entry.name for entry in a.backend.list("claims/")} == {
                f"claims/{KEY}.1",
                f"claims/{KEY}.2",
            }
            record = b.publish(KEY, make(tmp_path / "out", {"file": b"of b"}))
        # It goes on, and does no harm.
        assert a.publish(KEY, make(tmp_path / "other", {"file": b"of a"})) == record
    assert list(a.backend.list("claims/")) == []


def test_the_claim_of_a_process_that_was_killed_here_is_taken_at_once(machine: Machine) -> None:
    store = machine("a")
    left = claims.Claims(store.backend, store.root / "machine")
    left._acquire(KEY, lambda: False)
    with machine("a").lock(KEY, lambda: True):
        pass


def test_a_claim_is_renewed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "_RENEWED_SECONDS", 0.2)
    store = machine("a")
    with store.lock(KEY):
        store.backend.write(f"claims/{KEY}.1", b"old")
        end = time.monotonic() + 30
        while store.backend.read(f"claims/{KEY}.1") == b"old":
            assert time.monotonic() < end
            time.sleep(0.1)


def test_a_claim_whose_acknowledgement_was_lost_is_held(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ObjectBackend.create
    monkeypatch.setattr(ObjectBackend, "create", lambda *arguments: real(*arguments) and False)
    with machine("a").lock(KEY, lambda: True):
        pass
