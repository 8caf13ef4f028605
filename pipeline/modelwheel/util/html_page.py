"""Reads the links of a page of a package index (PEP 503) in linear time.

Parsers of HTML build trees, and Python's own reads unfinished tags again and again: a page of 16 MB took a minute.
Pages of indexes are flat, so that one pass over their tags is enough.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urljoin

from .names import MAX_COMPONENT_BYTES

MAX_LINKS = 100_000
"""No project has as many files; reading so many takes seconds."""
_MAX_TAG = 8192
"""Characters of a tag."""
_START = re.compile(r"<(/?)(a|base|meta)\b", re.IGNORECASE)
_REST = re.compile(r"(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")
_ATTRIBUTE = re.compile(r"([^\s=\"'/>]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")


class Link(NamedTuple):
    """One file."""

    name: str
    url: str
    """Without its fragment."""
    sha256: str | None


def read_links(content: bytes, url: str, charset: str | None = None) -> list[Link]:
    """The files on a page, in its order.

    Args:
        content: The page.
        url: Where it was served.
        charset: As the server says; by default UTF-8.

    Raises:
        ValueError: It is of a later version than is known, or has more links than any project has files.
    """
    try:
        text = content.decode(charset or "utf-8", errors="replace")
    except LookupError:  # an encoding that Python does not know
        text = content.decode("utf-8", errors="replace")
    text = _without_comments(text)
    links: list[Link] = []
    base, opened, shown_from, place, tags = url, "", 0, 0, 0
    while (tag := _START.search(text, place)) is not None:
        rest = _REST.match(text, tag.end(), tag.end() + _MAX_TAG)
        if rest is None:  # to look for its end at another place would read the page again
            raise ValueError("a tag has no end")
        name, place = tag[2].lower(), rest.end()
        if tag[1]:
            if name == "a" and opened:
                links += _links(text[shown_from : tag.start()], urljoin(base, opened))
                opened = ""
        elif name == "a":
            opened, shown_from = _attributes(rest[0]).get("href", ""), place
        elif name == "base":
            base = urljoin(url, _attributes(rest[0]).get("href", ""))
        else:
            _require_version(_attributes(rest[0]))
        tags += 1
        if tags > 3 * MAX_LINKS or len(links) > MAX_LINKS:
            raise ValueError(f"it has more than {MAX_LINKS} links")
    return links


def _without_comments(text: str) -> str:
    first, *rest = text.split("<!--")
    return first + "".join(part.partition("-->")[2] for part in rest)


def _attributes(text: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text):
        value = next((group for group in match.groups()[1:] if group is not None), "")
        attributes.setdefault(match[1].lower(), html.unescape(value))
    return attributes


def _require_version(meta: dict[str, str]) -> None:
    if meta.get("name", "").lower() == "pypi:repository-version":
        major = meta.get("content", "").partition(".")[0].strip()
        if major != "1":
            raise ValueError(f"it is of version {meta.get('content', '')[:40]!r} of the format")


def _links(shown: str, url: str) -> Iterator[Link]:
    """The file of a link, if its text can be a file's name: those that are longer no file system has."""
    name = html.unescape(re.sub(r"<[^<>]*>", "", shown)).strip() if len(shown) < _MAX_TAG else ""
    if name and len(name) <= MAX_COMPONENT_BYTES:
        address, _, fragment = url.partition("#")
        digests = dict(part.partition("=")[::2] for part in fragment.split("&"))
        yield Link(name, address, digests.get("sha256") or None)
