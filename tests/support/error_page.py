"""The sections of docs/errors.md that are lists of messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def require_listed(heading: str, messages: Sequence[str]) -> None:
    """Compares a section with what modelwheel says, one message for each point, in the same order."""
    _, _, rest = _PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")
    section = rest.partition("\n## ")[0]
    points = re.findall(r"^- `(.+?)`:\s", section, re.MULTILINE)
    assert len(points) == len(messages)
    for point, message in zip(points, messages, strict=True):
        assert re.search(".*".join(map(re.escape, point.split("..."))), message), message
