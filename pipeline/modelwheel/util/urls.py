"""URLs: checks, and removal of credentials before one is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

# Up to the last `@` before the path, because passwords may contain an `@`.
_USER_INFO = re.compile(r"(?<=://)[^/\s'\"]*@")
_QUERY = re.compile(r"(://[^\s?'\"]*)\?[^\s'\"]+")


def redact(text: str) -> str:
    """Removes user names, passwords and query strings (signed links, tokens) from URLs in `text`."""
    return _QUERY.sub(r"\1?***", _USER_INFO.sub("***@", text))


def url_problem(url: str, schemes: Sequence[str]) -> str | None:
    """Why `url` cannot be used, with the schemes that can be; None if it can.

    >>> url_problem("s3://bucket/x", ("https", "file"))
    "unsupported URL scheme 's3://'; use https:// or file://"
    """
    usable = " or ".join(f"{scheme}://" for scheme in schemes)
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - reading it checks it
    except ValueError:
        return f"{redact(url)!r} is not a valid URL; use {usable}"
    if "://" not in url:
        return f"{redact(url)!r} is not a URL; use {usable}"
    if parts.scheme not in schemes:
        return f"unsupported URL scheme '{parts.scheme}://'; use {usable}"
    if not parts.hostname and parts.scheme != "file":
        return f"{redact(url)!r} names no host"
    return None
