"""Work that crashes does so in a copy of the process."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from modelwheel.util.processes.probing import survives
from modelwheel.util.processes.process import run
from tests.support.portability import behave_like_windows

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def test_work_that_ends_survives() -> None:
    assert survives(lambda: None, 10, 1 << 30)


def test_a_lower_limit_of_the_process_is_no_failure() -> None:
    script = (
        "import resource\n"
        "from modelwheel.util.processes.probing import survives\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 29, 1 << 29))\n"
        "assert survives(lambda: None, 10, 1 << 30)\n"
        "assert not survives(lambda: len(bytearray(3 << 28)), 10, 1 << 30)\n"
    )
    run([sys.executable, "-c", script])


def test_work_that_crashes_or_fails_does_not() -> None:
    assert not survives(lambda: os.kill(os.getpid(), signal.SIGSEGV), 10, 1 << 30)
    assert not survives(lambda: 1 / 0, 10, 1 << 30)
    assert not survives(lambda: len(bytearray(2 << 30)), 10, 1 << 30)


def test_work_without_end_is_stopped() -> None:
    started = time.monotonic()
    assert not survives(lambda: time.sleep(60), 0.1, 1 << 30)
    assert time.monotonic() - started < 10


def test_where_there_is_no_fork_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    behave_like_windows(monkeypatch)
    assert survives(lambda: os._exit(1), 10, 1 << 30)
