"""The files of `changelog.d/`, each a part of the next version's section in CHANGELOG.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scriv"]
FRAGMENTS = sorted(
    path
    for path in (ROOT / SETTINGS["fragment_directory"]).glob("*.md")
    if path.name != SETTINGS["skip_fragments"]
)


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Each heading with the items below it.

    Raises:
        ValueError: Something is neither.
    """
    found: list[tuple[str, list[str]]] = []
    for line in filter(None, text.splitlines()):
        heading, item = re.fullmatch(r"### (\w+)", line), re.match(r"- \S", line)
        if heading:
            found.append((heading[1], []))
        elif found and item:
            found[-1][1].append(line)
        elif not (found and found[-1][1] and line.startswith("  ")):
            raise ValueError(f"neither a heading nor an item of a list: {line!r}")
    return found


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_has_known_headings_with_items(path: Path) -> None:
    found = sections(path.read_text(encoding="utf-8"))
    assert found
    assert {heading for heading, _ in found} <= set(SETTINGS["categories"])
    assert all(items for _, items in found)


@pytest.mark.parametrize(
    "text", ["- an item\n", "### Added\ntext\n", "### Added\n\n  continued\n", "## Added\n- x\n"]
)
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither"):
        sections(text)
