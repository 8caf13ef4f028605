"""The zoo's subset with musl and on Windows: bundles for both, and wheels for Windows with their shared library."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from modelwheel.levels import cpu_level, host_levels
from tests.containers.apt import UnavailableError
from tests.models.zoo.cases import SUBSET
from tests.models.zoo.marks import CROSS_BUILT_SUBSET
from tests.models.zoo.visit import make_models
from tests.support.commands import Modelwheel
from tests.support.foreign import FOREIGN, run_here, run_windows_wheel

pytestmark = CROSS_BUILT_SUBSET

LEVELS = tuple(level.name for level in host_levels()[: host_levels().index(cpu_level()) + 1])
NAMES = tuple(case.name for case in SUBSET)
PLATFORMS = ("linux-x86_64", "windows-amd64")

DIFFERING = {
    ("musl", "element_types"): {"normal_float64"},
    ("Windows", "element_types"): {"normal_float64"},
    ("Windows", "operations"): {"erf", "fft", "irfft", "rfft"},
}
"""Outputs whose last bits may be others, within their tolerance, by system and case. They call the C library (`log`;
`fmaf` where the CPU level has no such instruction), or are Fourier transforms, in which compilers fuse other products
with sums."""

IN_WHEELS = ("operations", "element_types")
"""Cases whose wheels are built too: they have every kind of step and every element type."""


@dataclass(frozen=True)
class Made:
    """The specs of all cases and their bundles."""

    work: Path
    specs: tuple[Path, ...]

    def bundle(self, name: str) -> Path:
        """The bundle of a case."""
        return self.work / f"model_{name}-1.0.0"


@pytest.fixture(scope="module")
def made(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> Made:
    work = tmp_path_factory.mktemp("bundles")
    models = make_models(SUBSET, work / "models")
    specs = tuple(case.write_spec(models, LEVELS, work) for case in SUBSET)
    modelwheel("bundle", *specs, "--platform", ",".join(PLATFORMS), "--out", work)
    return Made(work, specs)


def levels_of(printed: str) -> tuple[str, ...]:
    """The levels that a test has run."""
    lines = [line for line in printed.splitlines() if " rows  " in line]
    return tuple(dict.fromkeys(line.split("  ")[0] for line in lines))


def differing(printed: str, expected: str) -> set[str]:
    """The outputs whose lines are others."""
    lines = zip(printed.splitlines(), expected.splitlines(), strict=True)
    return {one.split("  ")[2] for one, other in lines if one != other}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("system", FOREIGN)
def test_bundles_compute_the_same_bits(made: Made, name: str, system: str) -> None:
    try:
        printed = FOREIGN[system](made.bundle(name), made.work)
    except UnavailableError as problem:
        pytest.skip(str(problem))
    here = run_here(made.bundle(name), made.work)
    assert differing(printed, here) <= DIFFERING.get((system, name), set())
    assert levels_of(printed) == LEVELS


@pytest.fixture(scope="module")
def wheels(modelwheel: Modelwheel, made: Made) -> Made:
    """The same with wheels for Windows, which need no extension."""
    specs = [spec for spec in made.specs if spec.stem in IN_WHEELS]
    modelwheel("compile", *specs, "--platform", "windows-amd64", "--out", made.work)
    sdists = sorted(made.work.glob("*.tar.gz"))
    modelwheel("wheel", *sdists, "--cross", "win_amd64", "--out", made.work)
    return made


@pytest.mark.parametrize("name", IN_WHEELS)
def test_wheels_for_windows_compute_the_same_bits(wheels: Made, name: str) -> None:
    (wheel,) = wheels.work.glob(f"model_{name}-*.whl")
    try:
        printed = run_windows_wheel(wheel, wheels.bundle(name), wheels.work)
    except UnavailableError as problem:
        pytest.skip(str(problem))
    here = run_here(wheels.bundle(name), wheels.work)
    assert differing(printed, here) <= DIFFERING.get(("Windows", name), set())
    assert levels_of(printed) == LEVELS
