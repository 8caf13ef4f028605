"""Addresses of stores: directories, and places in object stores."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

SCHEMES = ("s3", "gs", "abfs")
"""Of URLs of object stores; each is the name of an extra, too."""


def is_url(place: Path | str) -> bool:
    """Whether an address is a URL, and not the path of a directory."""
    return "://" in str(place)


def url_problem(url: str) -> str | None:
    """Why a URL is not one of a place in an object store, as the rest of a sentence; None if it is."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.netloc:
        known = ", ".join(f"{scheme}://BUCKET/PREFIX" for scheme in SCHEMES)
        return f"must be a directory, or one of {known}"
    if parts.password or parts.query or parts.fragment:
        return (
            f"must be {parts.scheme}://BUCKET/PREFIX alone: credentials come from the environment"
        )
    return None
