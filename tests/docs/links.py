"""Links of pages to files that are not pages: on the site, they lead to the repository."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath

from modelwheel import project

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def lead_out(page: str, source: list[str]) -> None:
    """Changes the links in the text of a page, which Sphinx hands over in a list.

    Args:
        page: Its path below `docs/`, without the ending.
        source: One element, the text.
    """
    folder = PurePosixPath("docs", page).parent

    def replaced(match: re.Match[str]) -> str:
        target = normpath(folder / match[1])
        if (
            target.startswith("docs/")
            and target.endswith((".md", ".svg"))
            and "examples/" not in target
        ):
            return match[0]
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"]({project.url()}/{kind}/main/{target}{match[2] or ''})"

    source[0] = _LINK.sub(replaced, source[0])
