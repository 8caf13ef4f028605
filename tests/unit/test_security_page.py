"""docs/threats: every threat names what stops it and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "threats").glob("*.md"))
ROWS = [
    re.split(r"(?<!\\)\|", line.strip().strip("|"))
    for page in PAGES
    for line in page.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| id ")
]
FILES = [
    path
    for directory in ("tests", "wheel_template")
    for path in (ROOT / directory).rglob("*.*")
    if path.is_file() and "__pycache__" not in path.parts
]
NAMES = " ".join(path.name for path in FILES)
SOURCES = "\n".join(
    path.read_text(encoding="utf-8") for path in FILES if path.suffix in (".py", ".cpp")
)


def test_every_page_is_listed() -> None:
    listed = re.findall(r"\(threats/(\w+\.md)\)", (ROOT / "docs" / "security.md").read_text())
    assert sorted(listed) == [page.name for page in PAGES]


def test_every_finding_and_threat_has_a_row() -> None:
    named = " ".join(row[0] for row in ROWS)
    findings = set(re.findall(r"A\d+", named))
    assert findings >= {f"A{number}" for number in range(1, 21)}
    numbers = {int(number) for row in ROWS for number in re.findall(r"\d+", _threats(row[0]))}
    assert numbers >= set(range(1, 23))


def _threats(text: str) -> str:
    found = re.search(r"threats? ([\d, ]+)", text)
    return found[1] if found else ""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0].strip()}: {row[1].strip()[:40]}")
def test_the_tests_of_a_row_exist(row: list[str]) -> None:
    assert len(row) == 4
    names = re.findall(r"\btest_\w+|\w[\w-]*\.(?:py|yaml)\b", row[3])
    assert names
    for name in names:
        assert name.removesuffix("_") in NAMES or f" {name.removesuffix('_')}" in SOURCES, name
