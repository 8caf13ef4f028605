"""Where the project is, from the metadata of the installed package."""

from __future__ import annotations

from functools import cache
from importlib.metadata import metadata
from typing import Literal


@cache
def url(label: Literal["Source", "Issues", "Changelog"] = "Source") -> str:
    """An address of `[project.urls]` in pyproject.toml.

    Raises:
        PackageNotFoundError: modelwheel runs from a directory that is not installed.
    """
    links: list[str] = metadata("modelwheel").get_all("Project-URL") or []
    return dict(link.split(", ", 1) for link in links)[label]
