"""`SHA256SUMS`: the list of a project's files and their hashes, as `sha256sum --check` reads it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ..util.trees import digest_tree

CHECKSUMS = "SHA256SUMS"

# `*` is how sha256sum marks files that it read in binary mode.
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def write_checksums(project: Path) -> None:
    """Writes `SHA256SUMS` over all files of a rendered project."""
    hashes = {name: file.sha256 for name, file in digest_tree(project).items()}
    (project / CHECKSUMS).write_text(f"{format_checksums(hashes)}\n", encoding="utf-8")


def format_checksums(hashes: Mapping[str, str]) -> str:
    """Hashes by file name, as `sha256sum` prints them; sorted by name, without the last line end."""
    return "\n".join(f"{sha256}  {name}" for name, sha256 in sorted(hashes.items()))


def parse_checksums(content: bytes) -> dict[str, str]:
    """The hashes in a file `SHA256SUMS`, by file name.

    Raises:
        ValueError: The text is not UTF-8, or a line is not a hash and a name.
    """
    hashes = {}
    for number, line in enumerate(content.decode("utf-8").splitlines(), 1):
        matched = _LINE.fullmatch(line)
        if matched is None:
            raise ValueError(f"line {number} of {CHECKSUMS} is not a SHA-256 hash and a file name")
        hashes[matched[2]] = matched[1]
    return hashes
