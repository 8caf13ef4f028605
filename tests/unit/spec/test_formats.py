"""The page of formats has the endings that files of each are recognised by."""

from __future__ import annotations

import re
from pathlib import Path

from modelwheel.spec.formats import FORMATS

PAGE = Path(__file__).parents[3] / "docs/formats.md"


def test_the_page_has_all_endings_of_each_format() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \| \[", table, re.MULTILINE)
    endings = [tuple(re.findall(r"`(\.[a-z0-9]+)`", row)) for row in rows]
    assert sorted(endings) == sorted(row.suffixes for row in FORMATS.values())
