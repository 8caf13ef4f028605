"""A wheel as the gates need it: its name, metadata and files, and its parsed binaries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from packaging.tags import Tag

from ..assembly.manifest import Manifest
from ..errors import WheelError
from ..versions import RUNTIME
from ..wheelfile.contents import Contents, open_contents
from ..wheelfile.wheel import Wheel
from ..wheelfile.wheel import open_wheel as read_wheel
from . import platform_tag
from .formats.binary import Binary
from .formats.read import MAGIC, read_binaries
from .platform_tag import PlatformTag

Role: TypeAlias = Literal["library", "extension", "other"]

_ALWAYS_UNPACKED, _MAX_RATIO = 64 << 20, 32
"""Bytes that a wheel may always unpack to, and for each of its own bytes."""
_LIBRARY = re.compile(r"(model_\w+)/(lib/lib\1\.(so|dylib)|\1\.dll)")
_EXTENSION = re.compile(r"\w+/_core\.[^/]+\.(so|pyd)")


@dataclass(frozen=True)
class OpenedWheel:
    """A wheel that gates can check; made by `open_wheel`."""

    wheel: Wheel
    contents: Contents

    @property
    def path(self) -> Path:
        """The wheel file."""
        return self.wheel.path

    @property
    def name(self) -> str:
        """The file name."""
        return self.wheel.name

    @property
    def distribution(self) -> str:
        """The name of the distribution, normalised (PEP 503)."""
        return self.wheel.distribution

    @property
    def version(self) -> str:
        """The version in the file name."""
        return str(self.wheel.version)

    @property
    def tags(self) -> frozenset[Tag]:
        """The tags in the file name."""
        return self.wheel.tags

    @cached_property
    def platforms(self) -> list[PlatformTag | None]:
        """The parsed platform tags; None for an unknown one."""
        return [platform_tag.parse(name) for name in sorted({tag.platform for tag in self.tags})]

    @property
    def needs_extension(self) -> bool:
        """Whether the wheel is for one Python, not for `py3`."""
        return not all(tag.interpreter == "py3" for tag in self.tags)

    @cached_property
    def manifest(self) -> Manifest | None:
        """The manifest of the model; None for modelwheel-runtime, which has no model.

        Raises:
            WheelError: The manifest is missing or invalid.
        """
        return None if self.distribution == RUNTIME else self.wheel.manifest

    @property
    def module(self) -> str:
        """The name of the Python package."""
        return "modelwheel_runtime" if self.manifest is None else self.manifest.model.module

    @property
    def dist_info(self) -> str:
        """The directory of the metadata (`model_a-1.0.dist-info`)."""
        return self.wheel.dist_info

    @cached_property
    def wheel_metadata(self) -> Message:
        """The content of the file `WHEEL`."""
        return self.wheel.wheel_metadata

    @cached_property
    def compressed_sizes(self) -> dict[str, int]:
        """The compressed size of each file, in bytes."""
        return {name: member.compressed for name, member in self.wheel.members.items()}

    def read(self, name: str) -> bytes:
        """The content of one file."""
        return self.wheel.read(name)

    def role(self, binary: Binary) -> Role:
        """The purpose of a binary, from its place in the wheel."""
        # A library of another module is `other`, too, which the gate for symbols refuses.
        if _LIBRARY.fullmatch(binary.member) and binary.member.startswith(f"{self.module}/"):
            return "library"
        if _EXTENSION.fullmatch(binary.member) and binary.member.startswith(f"{self.module}/"):
            return "extension"
        return "other"

    def binaries_of(self, role: Role) -> list[Binary]:
        """The binaries with some purpose."""
        return [binary for binary in self.binaries if self.role(binary) == role]

    @cached_property
    def binaries(self) -> tuple[Binary, ...]:
        """Every ELF, Mach-O and PE file.

        Raises:
            WheelError: A file cannot be parsed.
        """
        return tuple(self._binaries())

    def _binaries(self) -> Iterator[Binary]:
        for name, file in self.wheel.open_members():
            # By content and not by name: a binary that does not belong here may have any name.
            start = file.read(4)
            if start.startswith(MAGIC):
                self.wheel.require_size(name, self.wheel.members[name].size)
                try:
                    yield from read_binaries(name, start + file.read())
                except WheelError as error:
                    raise WheelError(f"{self.name}: {error}", code="MW602") from None


def open_wheel(path: Path) -> OpenedWheel:
    """Reads a wheel.

    Raises:
        WheelError: It cannot be read, or its name is not a wheel's.
    """
    if not path.name.endswith(".whl"):
        raise WheelError(f"{path} is not a wheel; pass .whl files", code="MW602")
    opened = read_wheel(path)
    unpacked = sum(member.size for member in opened.members.values())
    # Every gate reads it all: what shrinks to nothing would take them hours.
    if unpacked > _ALWAYS_UNPACKED + _MAX_RATIO * opened.size:
        raise WheelError(
            f"{path} has {opened.size / 1e6:.1f} MB and unpacks to {unpacked / 1e6:.0f} MB, more than "
            f"{_MAX_RATIO} times as much, as no model's machine code and weights do; build it again",
            code="MW602",
        )
    contents = open_contents(path)
    return OpenedWheel(opened, contents)
