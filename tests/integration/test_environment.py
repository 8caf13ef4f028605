"""Wheels in an environment of their own: installed for real, with a module that plays the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.errors import VerifyError, WheelError
from modelwheel.verify.environment import install_wheel
from modelwheel.verify.selftest import require_passed
from modelwheel.wheelfile.reports import Comparison, Report
from tests.support.indexes import make_wheel
from tests.support.sandboxes import BEST

ANSWERS = """\
import os, sys
if __name__ == "__main__":
    assert "MODELWHEEL_LEVEL" not in os.environ
    command, *options = sys.argv[1:]
    if command == "selftest":
        print('{"passed": true, "comparisons": [], "skipped": {}}')
    elif options[1:] == ["--level", "best"]:
        print('[{"level": "best", "rows": 1, "rule": "1:1", "nanoseconds": 5.0}]')
    else:
        sys.exit("no such level")
"""


def test_a_wheel_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELWHEEL_LEVEL", "x86-64")  # of the caller, not of the measurement
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    wheel = make_wheel(tmp_path, "model-a", content=ANSWERS)
    installed = install_wheel(wheel, "model_a", tmp_path, BEST)
    assert installed.selftest() == Report(passed=True, comparisons=(), skipped={})
    (timing,) = installed.bench("--level", "best")
    assert (timing.level, timing.nanoseconds) == ("best", 5.0)
    with pytest.raises(VerifyError, match=r"(?s)model_a-.* cannot be timed: .*no such level"):
        installed.bench("--level", "none")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("import sys; sys.exit(3)", "failed with exit code 3 and no output"),
        ("raise ImportError('no library')", "failed with exit code 1: .*no library"),
        ("print('{}')", "failed with exit code 0 and no output"),
    ],
)
def test_a_wheel_that_does_not_run(tmp_path: Path, content: str, said: str) -> None:
    wheel = make_wheel(tmp_path, "model-a", content=content)
    with pytest.raises(VerifyError, match=f"(?s){said}"):
        install_wheel(wheel, "model_a", tmp_path, BEST).selftest()


def test_a_wheel_that_cannot_be_installed(tmp_path: Path) -> None:
    wheel = tmp_path / "model_a-1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK but no more")
    with pytest.raises(WheelError, match=r"model_a-1\.0-py3-none-any\.whl cannot be installed"):
        install_wheel(wheel, "model_a", tmp_path, BEST)


def compare(absolute: float, limit: float) -> Comparison:
    return Comparison(
        level="x86-64", rows=4, rule="4:4", output=f"within {limit}", absolute=absolute,
        relative=0.0, limit=limit, passed=absolute <= limit,
    )  # fmt: skip


def test_the_worst_output_is_named() -> None:
    compared = (compare(1.0, 2.0), compare(3.0, 2.0), compare(1e-3, 0.0))
    report = Report(passed=False, comparisons=compared, skipped={})
    with pytest.raises(VerifyError, match=r"a\.whl: 2 of 3 comparisons exceed .*'within 0.0'"):
        require_passed(report, "a.whl")
    require_passed(Report(passed=True, comparisons=compared[:1], skipped={}), "a.whl")


def test_nothing_compared_is_not_a_success() -> None:
    report = Report(passed=False, comparisons=(), skipped={"x86-64-v4": "needs AVX-512"})
    with pytest.raises(VerifyError, match="nothing could be compared: needs AVX-512"):
        require_passed(report, "a.whl")
