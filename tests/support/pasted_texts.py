"""The texts of a model's page that are there to be pasted."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path


def pasted_texts(site: Path, project: str = "model-digits") -> dict[str, str]:
    """What a reader of a model's page would copy, by the name of its block: `Install with pip`, `Program in C`."""
    parser = _Codes()
    parser.feed((site / "models" / f"{project}.html").read_text(encoding="utf-8"))
    return parser.texts


class _Codes(HTMLParser):
    """The texts of the elements `code` that have an attribute for their placeholder."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        self._name, self._inside = "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "pre":
            self._name = attributes.get("aria-label") or ""
        if tag == "code" and "data-placeholder" in attributes:
            self._inside = True
            self.texts[self._name] = ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "code"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts[self._name] += data
