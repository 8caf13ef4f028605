"""cibuildwheel in containers with an old glibc: wheels for two CPythons, what they hold, what goes wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lief
import pytest
from packaging.utils import parse_wheel_filename

from modelwheel.errors import EnvironmentProblemError, WheelError
from modelwheel.packaging.checksums import CHECKSUMS, write_checksums
from modelwheel.packaging.sdist import unpack
from tests.containers.image import PYTHONS
from tests.support.commands import COMMAND, Modelwheel
from tests.support.wheels import Built

# `make release-demo` builds in a container too.
pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

IDENTIFIERS = tuple(f"{python}-manylinux_x86_64" for python in PYTHONS)
NEWEST_GLIBC = (2, 28)
HOST = f"cp{sys.version_info.major}{sys.version_info.minor}"


@dataclass(frozen=True)
class Wheelhouse:
    """What `modelwheel wheel` made of a source distribution that cannot be built and of one that can."""

    directory: Path
    said: str
    outcomes: list[dict[str, object]]

    @property
    def wheels(self) -> dict[str, Path]:
        """The wheels by their Python."""
        return {path.name.split("-")[2]: path for path in sorted(self.directory.iterdir())}


@pytest.fixture(scope="module")
def broken(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source distribution that is whole, but which no compiler accepts."""
    directory = tmp_path_factory.mktemp("broken")
    project = unpack(sdist, directory)
    (project / "src" / "c_api.cpp").write_text("#error nobody can compile this\n")
    (project / CHECKSUMS).unlink()
    write_checksums(project)
    broken = directory / "model_broken-1.0.0.tar.gz"
    with tarfile.open(broken, "w:gz") as archive:
        archive.add(project, project.name)
    return broken


@pytest.fixture(scope="module")
def wheelhouse(
    modelwheel: Modelwheel,
    sdist: Path,
    broken: Path,
    containers: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Wheelhouse:
    directory = tmp_path_factory.mktemp("wheelhouse") / "new"
    options = ("--only", " ".join(IDENTIFIERS), "--out", directory, "--json")
    done = modelwheel("wheel", broken, sdist, *options, code=WheelError.exit_code, **containers)
    return Wheelhouse(directory, done.err, done.json)


def test_one_that_fails_leaves_nothing_and_holds_up_nobody(
    wheelhouse: Wheelhouse, broken: Path, sdist: Path
) -> None:
    first, second = wheelhouse.outcomes
    assert first["wheels"] == []
    error = str(first["error"])
    assert error.startswith(f"{broken.name}: {IDENTIFIERS[0]}: building wheel failed:\n")
    assert "#error nobody can compile this" in wheelhouse.said
    assert f"error: {error}" in wheelhouse.said
    assert (second["sdist"], second["error"]) == (str(sdist), None)
    assert second["wheels"] == [str(path) for path in wheelhouse.wheels.values()]


def test_tags_name_both_pythons_and_an_old_glibc(wheelhouse: Wheelhouse) -> None:
    assert set(wheelhouse.wheels) == set(PYTHONS)
    for python, wheel in wheelhouse.wheels.items():
        _, _, _, tags = parse_wheel_filename(wheel.name)
        assert {(tag.interpreter, tag.abi) for tag in tags} == {(python, python)}
        for tag in tags:
            found = re.fullmatch(r"manylinux_(\d+)_(\d+)_x86_64|manylinux2014_x86_64", tag.platform)
            assert found is not None
            assert tuple(int(n) for n in found.groups() if n) <= NEWEST_GLIBC


def test_audit_and_the_wheels_own_tests_ran_for_each(wheelhouse: Wheelhouse) -> None:
    assert (
        len(re.findall(r"^\+ \S+ -m modelwheel audit \S+\.whl$", wheelhouse.said, re.MULTILINE))
        == 2
    )
    results = re.findall(r"^=+ (\d+) passed(?:, \d+ skipped)? in ", wheelhouse.said, re.MULTILINE)
    assert len(results) == 2
    assert min(map(int, results)) > 30
    for tool in ("cmake", "pkg-config"):
        skipped = rf"^SKIPPED \[\d\] \S+/test_consumer\.py:\d+: {tool} is not installed$"
        assert len(set(re.findall(skipped, wheelhouse.said, re.MULTILINE))) >= 1


def files_of(wheel: Path) -> list[str]:
    """The names of a wheel's files; that of the extension without Python's version."""
    with zipfile.ZipFile(wheel) as archive:
        names = (name for name in archive.namelist() if not name.endswith("/"))
        return sorted(re.sub(r"_core\.cpython[^/]+", "_core", name) for name in names)


def test_repair_added_nothing(wheelhouse: Wheelhouse, built: Built) -> None:
    for wheel in wheelhouse.wheels.values():
        assert files_of(wheel) == files_of(built.wheel("mlp"))


def test_the_extension_finds_the_library_in_the_package(
    wheelhouse: Wheelhouse, tmp_path: Path
) -> None:
    for python, wheel in wheelhouse.wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path / python)
        (path,) = (tmp_path / python / "model_mlp").glob("_core.*.so")
        extension = lief.ELF.parse(path)
        library = lief.ELF.parse(tmp_path / python / "model_mlp" / "lib" / "libmodel_mlp.so")
        assert extension is not None
        assert library is not None
        assert "libmodel_mlp.so" in extension.libraries
        (runpath,) = (
            e for e in extension.dynamic_entries if isinstance(e, lief.ELF.DynamicEntryRunPath)
        )
        assert runpath.runpath == "$ORIGIN/lib"
        assert set(library.libraries) <= {"libc.so.6", "libm.so.6"}


@pytest.mark.skipif(HOST not in PYTHONS, reason=f"the image has no {HOST}, which runs these tests")
def test_it_reproduces_tensorflow_on_this_machine(
    modelwheel: Modelwheel, wheelhouse: Wheelhouse
) -> None:
    (verified,) = modelwheel("verify", "--json", wheelhouse.wheels[HOST]).json
    assert verified["error"] is None


def test_cibuildwheel_alone_makes_the_same_wheel(
    wheelhouse: Wheelhouse, sdist: Path, containers: dict[str, Any], tmp_path: Path
) -> None:
    """Nobody needs modelwheel to build a source distribution."""
    command = (sys.executable, "-m", "cibuildwheel", "--only", IDENTIFIERS[-1], sdist)
    environment = {
        **os.environ,
        **containers,
        "CIBW_TEST_SKIP": "*",
        "CIBW_BUILD_FRONTEND": "build[uv]",
    }
    done = subprocess.run(
        [*command, "--output-dir", tmp_path],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.iterdir()
    other = wheelhouse.wheels[PYTHONS[-1]]
    assert wheel.name == other.name
    assert wheel.read_bytes() == other.read_bytes()


def test_an_image_that_nobody_has(
    modelwheel: Modelwheel, sdist: Path, containers: dict[str, Any], tmp_path: Path
) -> None:
    image = "localhost/modelwheel-no-such-image:1"
    done = modelwheel(
        *("wheel", sdist, "--only", IDENTIFIERS[0], "--out", tmp_path / "out"),
        code=EnvironmentProblemError.exit_code,
        **{**containers, "CIBW_MANYLINUX_X86_64_IMAGE": image},
    )
    assert f"error: cannot start the container image {image}; pull it, or set another" in done.err
    assert list((tmp_path / "out").iterdir()) == []


def test_ctrl_c_takes_the_container_away(
    sdist: Path, containers: dict[str, Any], tmp_path: Path
) -> None:
    label = f"modelwheel-test={tmp_path.name}-{os.getpid()}"
    engine = f"{containers['CIBW_CONTAINER_ENGINE']} --label={label}"
    environment = {**os.environ, **containers, "CIBW_CONTAINER_ENGINE": engine}
    out = tmp_path / "out"
    with subprocess.Popen(
        [*COMMAND, "wheel", sdist, "--only", IDENTIFIERS[0], "--out", out],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert any(line.startswith("Building wheel...") for line in process.stderr)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 128 + signal.SIGINT, rest
    left = subprocess.run(
        ["podman", "ps", "--all", "--quiet", f"--filter=label={label}"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert left.stdout == ""
    assert list(out.iterdir()) == []
