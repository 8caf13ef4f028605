"""What `verify --emulate` says where something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.errors import EnvironmentProblemError
from modelwheel.verify.emulation import emulate_host, find_qemu, make_arm_python


def test_a_machine_without_qemu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentProblemError, match=r"needs qemu-aarch64, .* qemu-user"):
        emulate_host(tmp_path / "python", "aarch64")
    with pytest.raises(EnvironmentProblemError, match="needs qemu-aarch64, "):
        make_arm_python(tmp_path, [])


def test_a_machine_without_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    qemu = tmp_path / "qemu-aarch64-static"
    qemu.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_qemu("aarch64") == qemu
    with pytest.raises(
        EnvironmentProblemError, match=r"needs Python 3\.99 for 64-bit Arm .*apt-get"
    ):
        make_arm_python(tmp_path, [], "3.99")
