"""The zoo's subset on an emulated 64-bit Arm processor, against the numbers that TensorFlow computed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.zoo.cases import SUBSET
from tests.models.zoo.marks import CROSS_BUILT_SUBSET
from tests.models.zoo.visit import COMPARE, compile_cases, judge, read_reports
from tests.support.commands import Modelwheel
from tests.support.emulation import ArmPython, UnavailableError, make_python
from tests.support.projects_of_models import make_packages, zig_toolchain

pytestmark = CROSS_BUILT_SUBSET

TAG = "manylinux_2_17_aarch64"
LEVELS = ("armv8-a", "armv8.2-a+fp16+dotprod")


@pytest.fixture(scope="module")
def arm(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> ArmPython:
    """Python for aarch64 with NumPy and modelwheel-runtime."""
    work = tmp_path_factory.mktemp("arm")
    modelwheel("runtime", "--out", work / "runtime")
    (sdist,) = (work / "runtime").glob("*.tar.gz")
    modelwheel("wheel", sdist, "--cross", TAG, "--out", work / "runtime")
    (wheel,) = (work / "runtime").glob("*.whl")
    try:
        return make_python(work / "python", wheel)
    except UnavailableError as problem:
        pytest.skip(str(problem))


def test_models_of_every_format_agree_with_tensorflow_on_aarch64(
    arm: ArmPython, modelwheel: Modelwheel, tmp_path: Path
) -> None:
    toolchain = zig_toolchain(TAG)
    projects, errors = compile_cases(SUBSET, tmp_path, modelwheel, LEVELS, [toolchain.platform])
    assert errors == {}
    packages = make_packages(projects, toolchain, tmp_path)
    reports = read_reports(arm(COMPARE, packages).out)
    results = [judge(case, reports[f"model_{case.name}"]) for case in SUBSET]
    assert [result for result in results if not result.as_expected] == []
    assert {result.levels for result in results} == {LEVELS}
