"""Platform tags of wheels."""

from __future__ import annotations

import pytest

from modelwheel.audit.platform_tag import PlatformTag, parse
from modelwheel.platforms import WHEEL_PLATFORMS, Libc, WheelPlatform


@pytest.mark.parametrize(
    ("tag", "system", "architecture", "libc", "version"),
    [
        ("manylinux_2_28_x86_64", "linux", "x86_64", "glibc", (2, 28)),
        ("manylinux2014_aarch64", "linux", "aarch64", "glibc", (2, 17)),
        ("manylinux1_x86_64", "linux", "x86_64", "glibc", (2, 5)),
        ("musllinux_1_2_aarch64", "linux", "aarch64", "musl", (1, 2)),
        ("macosx_10_15_x86_64", "macos", "x86_64", "", (10, 15)),
        ("macosx_11_0_arm64", "macos", "aarch64", "", (11, 0)),
        ("win_amd64", "windows", "x86_64", "", ()),
        ("win_arm64", "windows", "aarch64", "", ()),
        ("linux_x86_64", "linux", "x86_64", "", ()),
        ("manylinux_2_17_ppc64le", "linux", "ppc64le", "glibc", (2, 17)),
    ],
)
def test_known_tags(
    tag: str, system: str, architecture: str, libc: Libc, version: tuple[int, ...]
) -> None:
    assert parse(tag) == PlatformTag(tag, system, architecture, libc, version)


@pytest.mark.parametrize("tag", ["any", "win32", "freebsd_14_0_amd64", "manylinux", ""])
def test_other_tags(tag: str) -> None:
    assert parse(tag) is None


@pytest.mark.parametrize("wheels", WHEEL_PLATFORMS.values(), ids=WHEEL_PLATFORMS)
def test_tags_of_cross_built_wheels_are_those_of_their_rows(wheels: WheelPlatform) -> None:
    parsed = parse(wheels.cross_tag)
    assert parsed is not None
    row = wheels.objects
    assert (parsed.system, parsed.architecture, parsed.libc) == (
        row.system,
        row.architecture,
        wheels.libc,
    )
