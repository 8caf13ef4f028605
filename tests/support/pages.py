"""The blocks of code in the documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "model_specs/README.md")),
    *(
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if path.relative_to(ROOT / "docs").parts[0] not in ("reference", "site")
    ),
]
"""What people write; `docs/reference/` and `docs/site/` are written by a program."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code."""

    document: Path
    line: int
    """Where it begins, counted from 1."""
    language: str
    """Empty where none is given."""
    text: str

    def __str__(self) -> str:
        return f"{self.name}:{self.line}"

    @property
    def name(self) -> str:
        """The document's path: below `docs/` for a page of the site."""
        return self.document.relative_to(ROOT).as_posix().removeprefix("docs/")

    @property
    def place(self) -> str:
        """A name for a directory of its own."""
        return f"{self.document.stem}.{self.line}"


def blocks(document: Path, language: str | None = None) -> Iterator[Block]:
    """The blocks of a document, in its order; those of one language if one is named."""
    text = document.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if language in (None, match[1]):
            yield Block(document, text.count("\n", 0, match.start()) + 1, match[1], match[2])


def with_marked(text: str, mark: str, block: str) -> str:
    """The text with another block between the comments `<!-- mark -->` and `<!-- /mark -->`.

    Raises:
        ValueError: It has no such comments.
    """
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise ValueError(f"there is no {begin.strip()} ... {end}")
    return f"{before}{begin}\n{block}\n{end}{after}"


def marked(text: str, mark: str) -> str:
    """The block between the two comments."""
    return text.partition(f"<!-- {mark} -->\n")[2].partition(f"<!-- /{mark} -->")[0]
