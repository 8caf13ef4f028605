"""What a build does while TensorFlow is imported."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from modelwheel.engine import ahead
from modelwheel.engine.ahead import Ahead
from modelwheel.util.processes.process import run


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was installed, by a stand-in for pip."""
    names: list[str] = []
    monkeypatch.setattr(ahead, "create_environment", lambda directory: directory / "python")
    monkeypatch.setattr(ahead, "install", lambda _python, what, _cwd: names.extend(what))
    monkeypatch.setattr(ahead, "_IMPORTED_LATE", ("json", "modelwheel_has_no_such_module"))
    return names


def test_an_environment_is_made_once_and_taken_once(tmp_path: Path, installed: list[str]) -> None:
    one = Ahead(tmp_path, verifies=True)
    one.start()
    one.start()
    assert one.take_environment() == tmp_path / "environment" / "python"
    assert one.take_environment() is None
    one.close()
    assert installed == ["numpy>=1.26"]


@pytest.mark.parametrize(("verifies", "start"), [(False, True), (True, False)])
def test_none_is_made_if_it_is_not_needed(
    tmp_path: Path, installed: list[str], verifies: bool, start: bool
) -> None:
    one = Ahead(tmp_path, verifies=verifies)
    if start:
        one.start()
    assert one.take_environment() is None
    one.close()
    assert installed == []


def test_what_fails_is_left_to_the_step(
    tmp_path: Path, installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ahead, "install", lambda *_: run([sys.executable, "-c", "raise SystemExit(1)"])
    )
    one = Ahead(tmp_path, verifies=True)
    one.start()
    assert one.take_environment() is None
    assert installed == []


def test_closing_does_not_wait_for_pip(
    tmp_path: Path, installed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(ahead, "install", lambda *_: run(endless))
    one = Ahead(tmp_path, verifies=True)
    one.start()
    one.close()
    assert one.take_environment() is None
    assert installed == []
