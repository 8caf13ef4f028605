"""The systems that wheels are cross-built for with zig: policy as data."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UsageError
from ...spec.reading.problems import did_you_mean


@dataclass(frozen=True)
class CrossTarget:
    """What one platform tag of a wheel means to each of the tools."""

    tag: str
    """The platform tag of the wheels."""
    platform: str
    """The name in `modelwheel.platforms.PLATFORMS` of the machine code."""
    zig: str
    """The target of zig, with the version of the C library or of macOS that is the least."""
    system: str
    """CMake's name of the operating system."""
    soabi: str | None
    """How names of Python extensions go on after `cpython-311-`; None where none can be cross-built."""

    @property
    def libc(self) -> str:
        """`glibc` or `musl`; empty elsewhere."""
        return {"manylinux": "glibc", "musllinux": "musl"}.get(self.tag.partition("_")[0], "")

    @property
    def python_platform(self) -> str:
        """What Python's `sysconfig.get_platform()` says there: the build backend makes the tag of it."""
        return self.platform if self.libc else self.tag


CROSS_TARGETS = {
    target.tag: target
    for target in (
        CrossTarget(
            "manylinux_2_17_x86_64",
            "linux-x86_64",
            "x86_64-linux-gnu.2.17",
            "Linux",
            "x86_64-linux-gnu",
        ),
        CrossTarget(
            "manylinux_2_17_aarch64",
            "linux-aarch64",
            "aarch64-linux-gnu.2.17",
            "Linux",
            "aarch64-linux-gnu",
        ),
        CrossTarget(
            "musllinux_1_2_x86_64",
            "linux-x86_64",
            "x86_64-linux-musl",
            "Linux",
            "x86_64-linux-musl",
        ),
        CrossTarget(
            "musllinux_1_2_aarch64",
            "linux-aarch64",
            "aarch64-linux-musl",
            "Linux",
            "aarch64-linux-musl",
        ),
        CrossTarget("macosx_11_0_arm64", "macos-arm64", "aarch64-macos.11.0", "Darwin", None),
        CrossTarget("macosx_10_15_x86_64", "macos-x86_64", "x86_64-macos.10.15", "Darwin", None),
        CrossTarget("win_amd64", "windows-amd64", "x86_64-windows-gnu", "Windows", None),
    )
}
"""Every target by its platform tag.

Python extensions need the headers of Python, which differ in `pyconfig.h` between operating systems and are in no
package index. Between processors and C libraries of Linux no difference reaches an extension, so that those of this
machine serve. For macOS and Windows only wheels without an extension are cross-built (`package.bindings: shared`).
"""


def find_target(tag: str) -> CrossTarget:
    """The target with this platform tag.

    Raises:
        UsageError: There is none.
    """
    if tag in CROSS_TARGETS:
        return CROSS_TARGETS[tag]
    raise UsageError(f"no wheel can be cross-built for {tag!r}. {did_you_mean(tag, CROSS_TARGETS)}")
