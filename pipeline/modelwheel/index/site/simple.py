"""The package index: HTML pages (PEP 503), JSON (PEP 691, 700) and core metadata (PEP 658, 714)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from urllib.parse import quote

from .install import origin_text
from .rendering import render
from .wheels import IndexedWheel

API_VERSION = "1.1"
"""The version of the simple repository API; 1.1 added versions and sizes (PEP 700)."""

_HTML = "index.html"

_JSON = "index.v1+json"
"""Hosts that can set content types should serve it as `application/vnd.pypi.simple.v1+json`."""


def render_simple(wheels: Sequence[IndexedWheel], base_url: str | None) -> dict[str, bytes]:
    """All files of the index by their path in the site.

    Args:
        wheels: Sorted by project.
        base_url: Where the site and the wheels are served, ending with a slash; None makes links relative
            to each page.
    """
    files: dict[str, bytes] = {}
    names = sorted({wheel.project for wheel in wheels})
    files[f"simple/{_HTML}"] = render("projects.html.j2", api_version=API_VERSION, names=names)
    files[f"simple/{_JSON}"] = _dump_json({"projects": [{"name": name} for name in names]})
    for name, group in groupby(wheels, key=lambda wheel: wheel.project):
        # From simple/NAME/ up to the wheels: such a site works at any address.
        releases = list(group)
        links = [_link(wheel, base_url or "../../") for wheel in releases]
        versions = list(dict.fromkeys(link["version"] for link in links))
        newest = [wheel for wheel in releases if wheel.version == releases[-1].version]
        files[f"simple/{name}/{_HTML}"] = render(
            "project.html.j2",
            api_version=API_VERSION,
            name=name,
            links=links,
            origin=origin_text(newest, wheels),
            versions=versions,
        )
        files[f"simple/{name}/{_JSON}"] = _dump_json(
            {"name": name, "versions": versions, "files": [_file(link) for link in links]}
        )
    # PEP 658 fixes the place: the wheel's own URL with `.metadata`.
    files |= {f"{wheel.name}.metadata": wheel.metadata for wheel in wheels}
    return files


def _link(wheel: IndexedWheel, base_url: str) -> dict[str, object]:
    return {
        "filename": wheel.name,
        "url": base_url + quote(wheel.name),
        "version": str(wheel.version),
        "sha256": wheel.sha256,
        "size": wheel.size,
        "requires_python": wheel.requires_python,
        "metadata_sha256": hashlib.sha256(wheel.metadata).hexdigest(),
    }


def _file(link: Mapping[str, object]) -> dict[str, object]:
    metadata = {"sha256": link["metadata_sha256"]}
    python = link["requires_python"]
    return {
        "filename": link["filename"],
        "url": link["url"],
        "hashes": {"sha256": link["sha256"]},
        "size": link["size"],
        **({} if python is None else {"requires-python": python}),
        "core-metadata": metadata,
        "dist-info-metadata": metadata,  # read by clients older than PEP 714
    }


def _dump_json(content: Mapping[str, object]) -> bytes:
    document = {"meta": {"api-version": API_VERSION}, **content}
    return (json.dumps(document, indent=1) + "\n").encode()
