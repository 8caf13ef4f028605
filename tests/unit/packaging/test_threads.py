"""How many CPUs a package finds that it may use."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from modelwheel.packaging.template import template_directory

Quota = Callable[[Path, Path], float | None]


@pytest.fixture(scope="module")
def quota() -> Quota:
    path = template_directory() / "package/python/__module__/_threads.py"
    found: Quota = runpy.run_path(str(path))["_quota"]
    return found


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_the_least_of_all_groups_counts(quota: Quota, tmp_path: Path) -> None:
    process, root = tmp_path / "process", tmp_path / "groups"
    _write(process / "cgroup", "0::/outer/inner\n")
    assert quota(process, root) is None
    _write(root / "outer/inner/cpu.max", "max 100000\n")
    assert quota(process, root) is None
    _write(root / "outer/cpu.max", "150000 100000\n")
    assert quota(process, root) == 1.5
    _write(root / "outer/inner/cpu.max", "50000 100000\n")
    assert quota(process, root) == 0.5


def test_groups_of_version_1(quota: Quota, tmp_path: Path) -> None:
    process, root = tmp_path / "process", tmp_path / "groups"
    _write(process / "cgroup", "5:cpuset:/a\n4:cpu,cpuacct:/a\n1:name=systemd:/a:b\n")
    for name, text in (("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")):
        _write(root / "cpu/a" / name, text)
    assert quota(process, root) is None
    _write(root / "cpu/a/cpu.cfs_quota_us", "200000\n")
    assert quota(process, root) == 2


def test_a_system_without_groups(quota: Quota, tmp_path: Path) -> None:
    assert quota(tmp_path, tmp_path) is None
