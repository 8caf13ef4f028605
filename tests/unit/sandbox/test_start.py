"""Programs in each sandbox of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from modelwheel.sandbox.choose import Sandbox, choose_sandbox
from modelwheel.sandbox.policy import Access, Limits, Policy, environment

LANDLOCK = Sandbox("landlock", "Landlock")


@pytest.mark.parametrize("sandbox", [choose_sandbox(Policy.PREFERRED), LANDLOCK])
def test_only_the_scratch_directory_can_be_written(sandbox: Sandbox, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    program = "open('mine', 'w').write('x'); open('../others', 'w')"
    process = sandbox.start(
        [sys.executable, "-I", "-c", program],
        Access((), scratch),
        Limits(processes=1),
        environment({}),
        stderr=subprocess.PIPE,
    )
    _, said = process.communicate()
    assert b"Error: [Errno" in said.splitlines()[-1]
    assert [path.name for path in tmp_path.rglob("*")] == ["scratch", "mine"]
