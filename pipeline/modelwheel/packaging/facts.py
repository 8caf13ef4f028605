"""The rows of `modelwheel.resources` as the text that templates put into C++, CMake and TOML files."""

from __future__ import annotations

from collections.abc import Iterator

from ..levels import cmake_flags
from ..platforms import PYTHONS, WHEEL_PLATFORMS
from ..thresholds import header


def template_facts() -> dict[str, str]:
    """The values that every template may use, by the name of the variable."""
    return {
        "level_flags": cmake_flags(),
        "kernel_thresholds": header(),
        "build_selection": " ".join(f"{python}-*" for python in PYTHONS),
        "container_images": "\n".join(_container_images()),
        "macos_overrides": "\n\n".join(_macos_overrides()),
    }


def _container_images() -> Iterator[str]:
    for wheels in WHEEL_PLATFORMS.values():
        if wheels.image:
            # cibuildwheel writes the option for manylinux_x86_64 as manylinux-x86_64-image.
            yield f'{wheels.cibuildwheel.replace("_", "-", 1)}-image = "{wheels.image}"'


def _macos_overrides() -> Iterator[str]:
    for wheels in WHEEL_PLATFORMS.values():
        if wheels.minimum_macos:
            # Without `inherit`, an override replaces the whole environment of the configuration.
            yield (
                "[[tool.cibuildwheel.overrides]]\n"
                f'select = "*-{wheels.cibuildwheel}"\n'
                'inherit.environment = "append"\n'
                f'environment = {{ MACOSX_DEPLOYMENT_TARGET = "{wheels.minimum_macos}" }}'
            )
