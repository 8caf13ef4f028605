"""docs/errors.md: what it says about wheels is what `verify` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.accuracy import Deviation, Truth
from modelwheel.errors import ModelwheelError
from modelwheel.verify.emulation import emulate_host, make_arm_python
from modelwheel.verify.selftest import require_passed
from modelwheel.wheelfile.reports import Comparison, Report
from modelwheel.wheelfile.unverified import require_verified
from modelwheel.wheelfile.wheel import open_wheel
from tests.support.error_page import require_listed
from tests.support.index_wheels import make_wheel


def deviate(absolute: float) -> tuple[Deviation, ...]:
    return (Deviation(output="y", rows=4, absolute=absolute, relative=absolute),)


def refuse(
    truth: Truth, rows: int = 4, circumstance: str | None = None, *, exact: bool = True
) -> str:
    failed = Comparison(
        level="x86-64", rows=rows, rule="4:4", output="y", absolute=0.3, relative=0.3, limit=0.1,
        passed=False, exact=exact, circumstance=circumstance,
    )  # fmt: skip
    report = Report(passed=False, comparisons=(failed,), skipped={}, truth=truth)
    with pytest.raises(ModelwheelError) as caught:
        require_passed(report, "a.whl")
    return str(caught.value)


def unverified(directory: Path) -> str:
    wheel = open_wheel(make_wheel(directory, "digits", version="1.0.0+unverified"))
    with pytest.raises(ModelwheelError) as caught:
        require_verified(wheel)
    return str(caught.value)


def test_every_message_is_on_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = deviate(1e-6)
    messages = [
        refuse(Truth(moved=deviate(0.5), sensitive={"y": "3 of 4 rows"})),
        refuse(Truth(evaluator="ONNX Runtime", converted={"y": "they differ"})),
        refuse(Truth(framework=own, xla=deviate(0.2))),
        refuse(Truth(missing="of its types"), exact=False),
        unverified(tmp_path),
        refuse(Truth(framework=own)),
        refuse(Truth(), rows=1, circumstance="nan"),
        refuse(Truth(), circumstance="beside extreme rows"),
    ]
    with pytest.raises(ModelwheelError) as caught:
        require_passed(Report(passed=False, comparisons=(), skipped={"x86-64-v4": "no"}), "a.whl")
    messages.append(str(caught.value))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ModelwheelError) as caught:
        emulate_host(tmp_path / "python", "aarch64")
    messages.append(str(caught.value))
    (tmp_path / "qemu-aarch64").touch(0o755)
    with pytest.raises(ModelwheelError) as caught:
        make_arm_python(tmp_path, [])
    messages.append(str(caught.value))
    require_listed("Wheels", messages)
