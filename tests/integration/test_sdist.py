"""Model source distributions: what is in them, that they are the same everywhere, that they build."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import lief
import numpy as np
import pytest

from modelwheel.assembly.manifest import Manifest
from modelwheel.errors import SpecError, UsageError
from modelwheel.packaging.project import load_manifests
from modelwheel.packaging.sdist import unpack
from modelwheel.platforms import PLATFORMS
from modelwheel.wheelfile.reports import read_timings
from modelwheel.wheelfile.wheel import open_wheel
from tests.support.commands import Modelwheel, run
from tests.support.interrupting import become_another_user
from tests.support.tools import cmake
from tests.support.wheels import EVERYWHERE, HOST, Built, make_environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(sdist, tmp_path_factory.mktemp("unpacked"))


@pytest.fixture(scope="module")
def manifests(project: Path) -> dict[str, Manifest]:
    return {manifest.platform: manifest for manifest in load_manifests(project)}


def test_there_is_code_for_every_platform_and_level(manifests: dict[str, Manifest]) -> None:
    assert set(manifests) == set(PLATFORMS)
    for name, manifest in manifests.items():
        arm = PLATFORMS[name].architecture == "aarch64"
        assert manifest.levels == (EVERYWHERE[2:] if arm else EVERYWHERE[:2])
        assert len(manifest.variants) == 2 * len(manifest.levels)


FORMATS = {
    "linux": lief.Binary.FORMATS.ELF,
    "macos": lief.Binary.FORMATS.MACHO,
    "windows": None,  # COFF objects are a class of their own
}


def test_objects_have_the_format_of_their_platform(
    project: Path, manifests: dict[str, Manifest]
) -> None:
    for name, manifest in manifests.items():
        for variant in manifest.variants:
            path = str(project / variant.object)
            expected = FORMATS[PLATFORMS[name].system]
            if expected is None:
                assert lief.is_coff(path)
            else:
                binary = lief.parse(path)
                assert isinstance(binary, lief.Binary)
                assert binary.format == expected
        assert manifest.sizes.machine_code > 0


def test_xla_emits_the_same_program_for_a_level_on_every_platform(
    project: Path, manifests: dict[str, Manifest]
) -> None:
    """Else a platform could behave unlike the one where the model was verified."""
    texts: dict[str, set[bytes]] = {}
    for source in project.glob("platforms/*/generated/program_*.cpp"):
        texts.setdefault(source.name, set()).add(source.read_bytes())
    assert {len(different) for different in texts.values()} == {1}
    assert {manifest.weights for manifest in manifests.values()} == {
        f"weights/{path.name}" for path in (project / "weights").iterdir()
    }
    assert len(list((project / "weights").iterdir())) == 1


def test_every_file_of_a_platform_is_named_with_its_hash(
    project: Path, manifests: dict[str, Manifest]
) -> None:
    for name, manifest in manifests.items():
        named = {file.path: file.sha256 for file in manifest.files}
        for path, digest in named.items():
            assert hashlib.sha256((project / path).read_bytes()).hexdigest() == digest
        assert {manifest.weights, *(variant.object for variant in manifest.variants)} <= set(named)
        others = set(PLATFORMS) - {name}
        assert not any(path.startswith(f"platforms/{o}/") for path in named for o in others)


def test_sha256sum_agrees(project: Path) -> None:
    done = run("sh", "-c", f"cd '{project}' && sha256sum --check --strict --quiet SHA256SUMS")
    assert done.out == ""


def test_it_is_the_same_elsewhere(
    modelwheel: Modelwheel, built: Built, sdist: Path, tmp_path: Path
) -> None:
    """Only the last steps run again; that compiling repeats is shown by the tests of wheels."""
    shutil.copytree(built.directory, tmp_path / "specs", ignore=shutil.ignore_patterns("*.yaml"))
    shutil.copy(built.spec("mlp"), tmp_path / "specs")
    elsewhere = Modelwheel(tmp_path / "cache", become_another_user())
    # Without the working files of commands that other tests run at this moment.
    shutil.copytree(modelwheel.cache, elsewhere.cache, ignore=shutil.ignore_patterns("tmp"))
    for record in (elsewhere.cache / "actions").rglob("*"):
        if record.is_file() and b"mlp-1.0.0/sdist" in record.read_bytes():
            record.unlink()
    spec = tmp_path / "specs" / "mlp.yaml"
    (result,) = elsewhere(
        "compile", "--json", "--out", tmp_path / "out", spec, umask=0o077, TZ="Asia/Tokyo"
    ).json
    assert result["run"] == ["mlp-1.0.0/sdist"]
    assert Path(result["sdist"]).read_bytes() == sdist.read_bytes()


def test_the_times_of_the_framework_are_beside_it(built: Built, sdist: Path) -> None:
    """Those of the wheel, whose reference is the same; its wheels get them."""
    theirs = [timing for timing in read_timings(built.wheel("mlp")) if timing.framework]
    assert list(read_timings(sdist)) == theirs != []


def test_pip_builds_a_wheel_from_it(
    modelwheel: Modelwheel, built: Built, sdist: Path, tmp_path: Path
) -> None:
    """In isolation: nothing but what pip fetches as build requirements."""
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, sdist)
    (wheel,) = tmp_path.glob("*.whl")
    assert open_wheel(wheel).manifest.platform == HOST
    python = make_environment(tmp_path / "environment", wheel)
    run(python, "-I", "-m", "model_mlp", "selftest")
    # It can be traced without the other platforms of the source distribution.
    traced = modelwheel("inspect", "--replay", "--json", "--spec", built.spec("mlp"), wheel).json
    *links, last = traced["replay"]
    assert {link["state"] for link in links} == {"ok"}
    # pip may have fetched a newer build backend than the one here.
    assert last["state"] == "ok" or "built with" in last["found"]


def test_a_platform_without_code_is_refused_by_name(
    modelwheel: Modelwheel, built: Built, tmp_path: Path
) -> None:
    options = ("--platform", "macos-arm64,windows-amd64", "--out", tmp_path)
    (result,) = modelwheel("compile", "--json", *options, built.spec("mlp")).json
    project = unpack(Path(result["sdist"]), tmp_path)
    done = cmake("-S", project, "-B", tmp_path / "build", "-G", "Ninja", code=1)
    said = " ".join(done.err.split())
    assert "no machine code for linux on" in said
    assert "compiled for macos-arm64, windows-amd64" in said


def test_platforms_that_cannot_be_compiled_for(
    modelwheel: Modelwheel, built: Built, tmp_path: Path
) -> None:
    spec = built.spec("mlp")
    done = modelwheel("compile", spec, "--platform", "linux-x86-64", code=UsageError.exit_code)
    assert "choose from linux-x86_64, " in done.err
    text = spec.read_text().replace(f"[{', '.join(EVERYWHERE)}]", "[x86-64]")
    (tmp_path / "x86.yaml").write_text(
        text.replace("directory: ", f"directory: {built.directory}/")
    )
    options = ("--platform", "macos-arm64", tmp_path / "x86.yaml")
    done = modelwheel("compile", *options, code=SpecError.exit_code)
    assert "none of these CPU levels belongs to macos-arm64; its levels are: armv8-a" in done.err


def test_numbers_of_the_sample_are_those_of_the_wheel(project: Path, built: Built) -> None:
    ours = np.load(project / "python" / "model_mlp" / "_reference.npz")
    theirs = np.load(built.packages / "model_mlp" / "_reference.npz")
    assert set(ours) == set(theirs)
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name])
