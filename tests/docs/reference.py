"""Writes the pages of `docs/reference/`, which are not kept: they follow from the code."""

from __future__ import annotations

from pathlib import Path

from tests.docs import commands, fields, headers


def write(directory: Path) -> None:
    """Writes all pages; one that has not changed keeps its time, so that Sphinx does not read it again."""
    directory.mkdir(exist_ok=True)
    pages = {"commands": commands.page(), "spec": fields.page(), **headers.pages()}
    for name, text in pages.items():
        path = directory / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
