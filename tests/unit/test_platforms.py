"""The platforms and Pythons: one row each, and CMake, cibuildwheel and the wheels' tags agree with it."""

from __future__ import annotations

import platform
import re
import sys
from importlib import resources

import pytest

from modelwheel.errors import EnvironmentProblemError
from modelwheel.packaging.facts import template_facts
from modelwheel.packaging.template import template_directory
from modelwheel.platforms import (
    ARCHITECTURES,
    PLATFORMS,
    PYTHONS,
    SYSTEMS,
    WHEEL_PLATFORMS,
    WheelPlatform,
    architecture_of,
    extension_suffix,
    host_platform,
)

PLATFORM_CMAKE = template_directory() / "model" / "cmake" / "platform.cmake"
EVERY_WHEEL = pytest.mark.parametrize("wheels", WHEEL_PLATFORMS.values(), ids=WHEEL_PLATFORMS)


def test_names_say_system_and_architecture() -> None:
    for name, row in PLATFORMS.items():
        system, _, architecture = name.partition("-")
        assert system == row.system
        assert system in SYSTEMS
        assert architecture_of(architecture) == row.architecture
        assert row.architecture in ARCHITECTURES


def test_cmake_chooses_among_the_same_names() -> None:
    text = PLATFORM_CMAKE.read_text()
    assert set(re.findall(r"set\(system (\w+)\)", text)) == set(SYSTEMS)
    matched = [
        set(names.split("|")) for names in re.findall(r'processor MATCHES "\^\((.*)\)\$"', text)
    ]
    tried = [set(names.split()) for names in re.findall(r"set\(names (\w+ \w+)\)", text)]
    assert matched == tried == [{name, *others} for name, others in ARCHITECTURES.items()]


@EVERY_WHEEL
def test_parts_of_a_row_agree(wheels: WheelPlatform) -> None:
    word, _, architecture = wheels.cibuildwheel.partition("_")
    assert word in wheels.system.tag_words
    assert architecture_of(architecture) == wheels.objects.architecture
    assert wheels.cross_tag.startswith(f"{word}_")
    assert wheels.cross_tag.endswith(architecture)
    assert bool(wheels.image) == bool(wheels.libc)
    assert bool(wheels.minimum_macos) == (wheels.objects.system == "macos")
    if wheels.minimum_macos:
        assert wheels.zig.endswith(f"-macos.{wheels.minimum_macos}")
        assert wheels.cross_tag == f"macosx_{wheels.minimum_macos.replace('.', '_')}_{architecture}"


def test_extension_suffixes() -> None:
    linux, macos, windows = (SYSTEMS[name] for name in ("linux", "macos", "windows"))
    found = extension_suffix(linux, python="314t", architecture="aarch64", libc="musl")
    assert found == ".cpython-314t-aarch64-linux-musl.so"
    assert extension_suffix(macos, python="312") == ".cpython-312-darwin.so"
    assert extension_suffix(windows, python="312", tag="win_amd64") == ".cp312-win_amd64.pyd"


# --- this machine ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("python", "machine", "name"),
    [
        ("linux", "x86_64", "linux-x86_64"),
        ("linux", "aarch64", "linux-aarch64"),
        ("darwin", "arm64", "macos-arm64"),
        ("win32", "AMD64", "windows-amd64"),
    ],
)
def test_this_machine(
    python: str, machine: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", python)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert host_platform().name == name


@pytest.mark.parametrize(("python", "machine"), [("linux", "riscv64"), ("win32", "ARM64")])
def test_a_machine_that_is_not_supported(
    python: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", python)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(EnvironmentProblemError, match=r"is not supported \(supported: linux-x86"):
        host_platform()


# --- cibuildwheel ---------------------------------------------------------------------------------


def default_pythons(ending: str) -> list[str]:
    """The CPythons from 3.10 on that cibuildwheel builds for a platform unless told otherwise."""
    selector = pytest.importorskip("cibuildwheel.selector", reason="needs Python 3.11")
    specifiers = pytest.importorskip("packaging.specifiers")
    select = selector.BuildSelector(
        build_config="cp*",
        skip_config="",
        requires_python=specifiers.SpecifierSet(">=3.10"),
    )
    table = resources.files("cibuildwheel").joinpath("resources/build-platforms.toml").read_text()
    identifiers = re.findall(rf'identifier = "(cp\w+-{ending})"', table)
    return [name.partition("-")[0] for name in identifiers if select(name)]


@EVERY_WHEEL
def test_the_pythons_are_those_of_cibuildwheel(wheels: WheelPlatform) -> None:
    """Fails when a new CPython is released (or an old one dropped): change `pythons` in platforms.toml."""
    assert list(PYTHONS) == default_pythons(wheels.cibuildwheel)


def test_source_distributions_are_configured_by_the_rows() -> None:
    facts = template_facts()
    assert facts["build_selection"].split() == [f"{python}-*" for python in PYTHONS]
    assert "cp315t-*" in facts["build_selection"]
    assert 'manylinux-aarch64-image = "manylinux_2_28"' in facts["container_images"]
    assert facts["container_images"].count("-image = ") == 4
    assert 'select = "*-macosx_x86_64"' in facts["macos_overrides"]
    assert '"10.15" }' in facts["macos_overrides"]
