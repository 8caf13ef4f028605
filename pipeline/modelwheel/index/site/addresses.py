"""Where a site and its files are served."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Formatter
from urllib.parse import quote, urlsplit

from ...errors import UsageError
from .wheels import IndexedFile

PLACEHOLDER_URL = "INDEX-URL/"
"""In install texts if the site's address is not known; the script replaces it with the page's own."""

_ADDRESS = re.compile(r"[\w.~:/%@+,=\[\]-]+", re.ASCII)
"""URLs without query and fragment that need no quoting in a shell, in HTML, or in a TOML string."""


_PLACES = ("tag", "name", "version", "file")
"""What a template of addresses may have in braces."""


@dataclass(frozen=True)
class Addresses:
    """Where a site and its files are served."""

    base_url: str | None = None
    """Of both. Without it, links are relative and the files are copied into the site."""
    site_url: str | None = None
    """The simple API that install texts show; by default that below `base_url`."""
    template: str | None = None
    """The address of each file, if they stay where they were released; see `IndexedFile.link`."""

    def checked(self) -> Addresses:
        """With slashes at their ends.

        Raises:
            UsageError: One is not suitable for a page.
        """
        base, site = self.base_url, self.site_url
        return Addresses(
            None if base is None else _checked_address(base, "--base-url"),
            None if site is None else _checked_address(site, "the address of the site"),
            None if self.template is None else _checked_template(self.template),
        )

    @property
    def simple(self) -> str:
        """The simple API in install texts."""
        return self.site_url or f"{self.base_url or PLACEHOLDER_URL}simple/"

    @property
    def top(self) -> str:
        """Where the site is; empty if that is not known."""
        simple = self.site_url or ""
        return self.base_url or (
            simple.removesuffix("simple/") if simple.endswith("/simple/") else ""
        )

    @property
    def copies(self) -> bool:
        """Whether the files have to be in the site."""
        return self.base_url is None and self.template is None

    def file(self, file: IndexedFile) -> str:
        """Where a file is: an address, or a path from the top of the site."""
        return file.link(self.base_url or "", self.template)

    def beside(self, file: IndexedFile, ending: str) -> str:
        """Where a companion of a file is: in the site, or where that is served with its files."""
        return (self.base_url or "") + quote(file.name + ending)


def _checked_template(template: str) -> str:
    try:
        fields = {field for _, field, form, how in Formatter().parse(template) if field is not None}
        plain = all(not form and not how for _, _, form, how in Formatter().parse(template))
    except ValueError:
        fields, plain = set(), False
    if not plain or "file" not in fields or not fields <= set(_PLACES):
        known = ", ".join(f"{{{name}}}" for name in _PLACES)
        raise UsageError(
            f"--file-url-template {template!r} must have {{file}} and may have {known}, and nothing else in braces"
        )
    _checked_address(template.format_map(dict.fromkeys(_PLACES, "x")), "--file-url-template")
    return template


def _checked_address(url: str, name: str) -> str:
    """The address with a slash at its end."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("https", "http") and bool(parts.hostname)
        secret = parts.username is not None or parts.password is not None
    except ValueError:
        usable, secret = False, False
    if secret:
        raise UsageError(f"{name} has a user name or password, which the page would show")
    if not usable or not _ADDRESS.fullmatch(url):
        raise UsageError(
            f"{name} {url!r} is not a plain http or https address; "
            "remove query, fragment, quotes and spaces"
        )
    return url.rstrip("/") + "/"
