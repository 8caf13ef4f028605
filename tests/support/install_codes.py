"""The install lines of a catalogue page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path


def install_codes(site: Path) -> list[str]:
    """What a reader of the page would copy, block by block."""
    parser = _Codes()
    parser.feed((site / "index.html").read_text(encoding="utf-8"))
    return parser.codes


class _Codes(HTMLParser):
    """The texts of the elements `code` that have an attribute for their placeholder."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "code" and "data-placeholder" in dict(attrs):
            self._inside = True
            self.codes.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "code"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.codes[-1] += data
