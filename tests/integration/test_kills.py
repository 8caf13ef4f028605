"""Builds, deliveries, collections and publications that are killed: each operation on a disk or a network has its turn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="adopting orphans needs Linux")
@pytest.mark.parametrize("kills", [30, pytest.param(1000, marks=pytest.mark.exhaustive)])
def test_a_kill_at_any_operation_tears_loses_and_repeats_nothing(kills: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.kills", str(kills)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kills} kills in " in done.stdout
