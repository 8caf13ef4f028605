"""Builds and uploads that are killed: a few here, as many as you like with `python -m tests.kills`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="adopting orphans needs Linux")
def test_a_kill_at_any_step_tears_loses_and_repeats_nothing() -> None:
    """`MODELWHEEL_KILLS=200` makes it thorough, and takes minutes."""
    kills = os.environ.get("MODELWHEEL_KILLS", "20")
    done = subprocess.run(
        [sys.executable, "-m", "tests.kills", kills],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kills} kills in " in done.stdout
