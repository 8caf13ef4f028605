"""Wheels are loaded without installing them: under private names, several versions side by side."""

from __future__ import annotations

import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from modelwheel import Wheel, load
from modelwheel.api import loading
from modelwheel.errors import EnvironmentProblemError, UsageError, WheelError
from tests.support.index_wheels import make_manifest, make_wheel

MODEL = """\
from ._about import VERSION
class Model:
    version = VERSION
    def __init__(self, level, *, threads, check_values):
        if level not in (None, "x86-64"):
            raise ValueError(f"net has no code for CPU level {level!r}")
        self.level, self.threads = level or "x86-64-v3", threads
"""


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "_stores", [])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def wheel_of(
    directory: Path, version: str, text: str = MODEL, *, bindings: str = "extension"
) -> Path:
    """A wheel whose package is Python alone."""
    directory.mkdir(exist_ok=True)
    manifest = make_manifest("net", version=version)
    model = manifest.model.model_copy(update={"bindings": bindings})
    manifest = manifest.model_copy(update={"model": model})
    made = make_wheel(directory, "net", version=version, manifest=manifest)
    whole = directory / "whole.whl"
    with zipfile.ZipFile(made) as old, zipfile.ZipFile(whole, "w") as new:
        for info in old.infolist():
            if info.filename != "model_net/__init__.py":
                new.writestr(info, old.read(info))
        new.writestr(zipfile.ZipInfo("model_net/__init__.py"), text)
        new.writestr(zipfile.ZipInfo("model_net/_about.py"), f"VERSION = {version!r}\n")
    return whole.replace(made)


def test_two_versions_are_loaded_side_by_side(tmp_path: Path) -> None:
    path = list(sys.path)
    old, new = (load(wheel_of(tmp_path, version)) for version in ("1.0.0", "2.0.0"))
    assert (old.version, new.version) == ("1.0.0", "2.0.0")
    assert sys.path == path
    assert "model_net" not in sys.modules


def test_the_same_wheel_is_imported_once(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "1.0.0")
    shutil.copy(wheel, tmp_path / "copy.whl")
    (tmp_path / "other").mkdir()
    moved = (tmp_path / "copy.whl").replace(tmp_path / "other" / wheel.name)
    assert type(load(wheel)) is type(load(moved)) is type(Wheel(wheel).load())


def test_options_reach_the_model(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "1.0.0")
    assert load(wheel, level="x86-64").level == "x86-64"
    with pytest.raises(UsageError, match="net has no code for CPU level 'x86'"):
        load(wheel, level="x86")


def test_a_missing_runtime_is_one_sentence(tmp_path: Path) -> None:
    needs = "raise ImportError('model_net needs modelwheel-runtime>=1.7,<2, but none is installed')"
    wheel = wheel_of(tmp_path, "1.0.0", needs, bindings="shared")
    for _ in range(2):  # a failure leaves nothing that the next call would take
        with pytest.raises(EnvironmentProblemError, match="model_net needs modelwheel-runtime"):
            load(wheel)


def test_wheels_for_others_are_refused(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "1.0.0")
    foreign = wheel.with_name("model_net-1.0.0-cp39-cp39-win_amd64.whl")
    shutil.copy(wheel, foreign)
    with pytest.raises(WheelError, match=f"{re.escape(foreign.name)} is not for this machine"):
        load(foreign)
    with pytest.raises(WheelError, match="there is no wheel"):
        load(tmp_path / "nothing.whl")


def test_a_library_gets_a_name_of_its_own(tmp_path: Path) -> None:
    """Else the loader of Linux would take the library of another version, which is there under that name."""
    package = tmp_path / "model_net"
    (package / "lib").mkdir(parents=True)
    library = package / "lib" / "libmodel_net.so"
    library.write_bytes(b"\x7fELF\0libmodel_net.so\0libmodel_net.so.old\0")
    extension = package / "_core.cpython-311-x86_64-linux-gnu.so"
    extension.write_bytes(b"\x7fELF\0libc.so.6\0libmodel_net.so\0")
    loading._name_library(package, "0123456789abcdef" * 4)
    assert b"\0lib012345678.so\0libmodel_net.so.old\0" in library.read_bytes()
    assert b"\0lib012345678.so\0" in extension.read_bytes()
    assert (package / "lib" / "lib012345678.so").read_bytes() == library.read_bytes()
