"""The pages about mechanisms have one form, and name files that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "design").glob("*.md"))
SECTIONS = ["Problem", "Method", "When it applies", "Guarantees", "Where", "Numbers"]
_MOST_LINES = 80
"""Two screens."""


def _files() -> set[str]:
    """The paths of the sources with the product, and of the folders that they are in."""
    roots = (ROOT / "pipeline" / "modelwheel", ROOT / "wheel_template")
    return {path.as_posix() for root in roots for path in root.rglob("*")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_have_the_same_sections(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert len(text.splitlines()) <= _MOST_LINES


def test_pages_name_files_that_are_there() -> None:
    files, missing = _files(), []
    for page in PAGES:
        where = page.read_text(encoding="utf-8").partition("## Where")[2].partition("## ")[0]
        named = re.findall(r"^- `(.*)`$", where, re.MULTILINE)
        assert named, page
        missing += [
            f"{page.name}: {name}"
            for name in named
            if not any(f.endswith(f"/{name}") for f in files)
        ]
    assert missing == []


def test_the_index_has_every_page_once() -> None:
    index = (DOCS / "design.md").read_text(encoding="utf-8")
    pages = [page.stem for page in PAGES]
    assert sorted(re.findall(r"\(design/(.*?)\.md\)", index)) == pages
    assert sorted(re.findall(r"^design/(.*)$", index, re.MULTILINE)) == pages
