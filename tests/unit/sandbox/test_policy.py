"""What a sandboxed program may use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from modelwheel.sandbox.policy import Access, environment, with_home
from modelwheel.sandbox.run import exit_code


def test_the_environment_has_few_variables_of_the_caller() -> None:
    inherited = {
        "PATH": "/bin", "LC_TIME": "C", "SystemRoot": "C:", "TOKEN": "x", "LD_PRELOAD": "x", "HOME": "/root",
    }  # fmt: skip
    assert environment({"MINE": "1"}, inherited) == {
        "PATH": "/bin", "LC_TIME": "C", "SystemRoot": "C:", "MINE": "1",
    }  # fmt: skip
    home = with_home({"A": "1"}, Path("/scratch"))
    assert set(home) == {"A", "HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"}
    assert set(home.values()) == {"1", "/scratch"}


def test_what_is_read_is_not_inside_what_is_written(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    Access((tmp_path / "inputs", tmp_path), scratch)
    (tmp_path / "link").symlink_to(scratch)
    for inside in (scratch, scratch / "inputs", tmp_path / "link" / "inputs"):
        with pytest.raises(ValueError, match=r"is inside .*scratch, which can be written"):
            Access((inside,), scratch)


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, 0), (3, 3), (128, 128), (-9, -9), (128 + 9, -9), (255, 255)],
)
def test_the_exit_code_in_every_sandbox(code: int, expected: int) -> None:
    assert exit_code(code) == expected
    assert exit_code(128 + signal.SIGTERM) == -signal.SIGTERM
