"""What a command says of its progress."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from modelwheel.util.watching import NOBODY, each, step


class Log(list[str]):
    def planned(self, names: Sequence[str]) -> None:
        self.append(f"planned {' '.join(names)}")

    def started(self, name: str) -> None:
        self.append(f"started {name}")

    def progressed(self, name: str, text: str) -> None:
        self.append(f"progressed {name} {text}")

    def finished(self, name: str, seconds: float, *, cached: bool) -> None:
        assert seconds >= 0
        assert not cached
        self.append(f"finished {name}")


def test_each_item_is_a_step() -> None:
    log = Log()
    for item in each([1, 2], str, log):
        log.append(f"use {item}")
    assert log == [
        "planned 1 2",
        *("started 1", "use 1", "finished 1"),
        *("started 2", "use 2", "finished 2"),
    ]


def test_a_step_that_fails_has_ended() -> None:
    log = Log()
    with pytest.raises(ValueError, match="no"), step("read", log):
        raise ValueError("no")
    assert log == ["planned read", "started read", "finished read"]


def test_nobody_needs_to_watch() -> None:
    assert list(each(["a"], str, NOBODY)) == ["a"]
