"""The package index: HTML pages (PEP 503), JSON (PEP 691, 700) and core metadata (PEP 658, 714)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby

from .install import origin_text
from .rendering import render, stamp
from .wheels import IndexedFile, IndexedWheel

API_VERSION = "1.1"
"""The version of the simple repository API; 1.1 added versions and sizes (PEP 700)."""

_HTML = "index.html"

_JSON = "index.v1+json"
"""Hosts that can set content types should serve it as `application/vnd.pypi.simple.v1+json`."""


def render_simple(
    indexed: Sequence[IndexedFile], base_url: str | None, template: str | None = None
) -> dict[str, bytes]:
    """All files of the index by their path in the site.

    Source distributions are there too: a Python without a wheel builds one, instead of finding nothing.

    Args:
        indexed: Sorted by project.
        base_url: Where the site and the files are served, ending with a slash; None makes links relative
            to each page.
        template: The address of each file, if they are elsewhere; see `IndexedFile.link`.
    """
    files: dict[str, bytes] = {}
    names = sorted({file.project for file in indexed})
    files[f"simple/{_HTML}"] = render("projects.html.j2", api_version=API_VERSION, names=names)
    files[f"simple/{_JSON}"] = _dump_json({"projects": [{"name": name} for name in names]})
    # PEP 658 fixes the place: the wheel's own URL with `.metadata`. Where files are elsewhere, nothing is at that place.
    if template is None:
        files |= {f"{file.name}.metadata": file.metadata for file in indexed if _is_wheel(file)}
    for name, group in groupby(indexed, key=lambda file: file.project):
        # From simple/NAME/ up to the files: such a site works at any address.
        releases = list(group)
        links = [_link(file, file.link(base_url or "../../", template), files) for file in releases]
        versions = list(dict.fromkeys(link["version"] for link in links))
        newest = [file for file in releases if file.version == releases[-1].version]
        files[f"simple/{name}/{_HTML}"] = render(
            "project.html.j2",
            api_version=API_VERSION,
            name=name,
            links=links,
            origin=origin_text(newest, indexed),
            versions=versions,
        )
        files[f"simple/{name}/{_JSON}"] = _dump_json(
            {"name": name, "versions": versions, "files": [_file(link) for link in links]}
        )
    return files


def _is_wheel(file: IndexedFile) -> bool:
    return isinstance(file, IndexedWheel)


def _link(file: IndexedFile, url: str, site: Mapping[str, bytes]) -> dict[str, object]:
    metadata = site.get(f"{file.name}.metadata")
    return {
        "filename": file.name,
        "url": url,
        "version": str(file.version),
        "sha256": file.sha256,
        "size": file.size,
        "requires_python": file.requires_python,
        "uploaded": file.uploaded,
        "metadata_sha256": None if metadata is None else hashlib.sha256(metadata).hexdigest(),
    }


def _file(link: Mapping[str, object]) -> dict[str, object]:
    metadata = {"sha256": link["metadata_sha256"]}
    python, uploaded = link["requires_python"], link["uploaded"]
    served = {"core-metadata": metadata, "dist-info-metadata": metadata}  # before and after PEP 714
    return {
        "filename": link["filename"],
        "url": link["url"],
        "hashes": {"sha256": link["sha256"]},
        "size": link["size"],
        **({} if python is None else {"requires-python": python}),
        **({"upload-time": stamp(uploaded)} if isinstance(uploaded, datetime) else {}),
        **({} if link["metadata_sha256"] is None else served),
    }


def _dump_json(content: Mapping[str, object]) -> bytes:
    document = {"meta": {"api-version": API_VERSION}, **content}
    return (json.dumps(document, indent=1) + "\n").encode()
