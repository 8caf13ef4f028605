"""Finds a file of a package on the index that pip is configured for.

pip itself says where the index is, with all of its configuration: files, variables, and its default. Nothing is installed
and no code of a package runs.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import url2pathname

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)

from ...errors import SourceError
from ...spec.sources import PyPISource
from ...util.files import digest_file
from ...util.html_page import Link, read_links
from ...util.processes.process import ProcessError, run
from ...util.python import module_command
from ...util.urls import redact
from ...util.words import first_few, suggest
from ..download import Place, explained

if TYPE_CHECKING:
    import requests

    from ...util.http import Reader

_MAX_PAGE = 64 << 20
_PAGE_SECONDS = 300.0
# Every index has pages in HTML (PEP 503), which are read without a package of their own; not all have JSON (PEP 691).
_ACCEPT = "application/vnd.pypi.simple.v1+html, text/html;q=0.5"
_TYPES = ("application/vnd.pypi.simple.v1+html", "text/html")
_GONE = (404, 410)
_SUFFIXES = (".whl", ".tar.gz", ".zip")
"""Files that have the model as it is."""


@dataclass(frozen=True)
class Indexes:
    """Where pip looks for packages."""

    pages: tuple[str, ...]
    """Addresses of simple APIs, and directories as `file:` URLs that are laid out alike."""
    links: tuple[str, ...] = ()
    """Directories of files."""
    certificates: str | None = None
    proxy: str | None = None

    @property
    def proxies(self) -> Mapping[str, str]:
        """As requests takes them."""
        return dict.fromkeys(("http", "https"), self.proxy) if self.proxy else {}


def find_indexes() -> Indexes:
    """The indexes that pip is configured for.

    Raises:
        SourceError: There is no pip, and no variable that says where the index is.
    """
    try:
        options = _options(run([*module_command("pip"), "config", "list"]).text)
    except ProcessError:
        options = {
            name.removeprefix("PIP_").lower().replace("_", "-"): value
            for name, value in os.environ.items()
            if name.startswith("PIP_")
        }
    if options.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        pages: list[str] = []
    else:
        first = options.get("index-url") or _default_index()
        pages = [first, *options.get("extra-index-url", "").split()]
    return Indexes(
        tuple(pages),
        tuple(options.get("find-links", "").split()),
        options.get("cert") or None,
        options.get("proxy") or None,
    )


def _options(listing: str) -> dict[str, str]:
    """The options that `pip config list` prints for `pip download`."""
    by_section: dict[str, dict[str, str]] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        try:
            by_section.setdefault(section, {})[option] = str(ast.literal_eval(value))
        except (SyntaxError, ValueError):
            continue
    sections = ("global", "download", ":env:")  # each overrides those before it
    return {key: value for name in sections for key, value in by_section.get(name, {}).items()}


def _default_index() -> str:
    """Where pip looks without any configuration, as its help says."""
    pip = [*module_command("pip"), "download", "--help"]
    try:
        # A wide line: the help wraps its text.
        text = run(pip, env={**os.environ, "COLUMNS": "1000"}).text
    except ProcessError:
        text = ""
    match = re.search(r"--index-url .*\(default (https://[^\s)]+)\)", text)
    if match is None:
        raise SourceError(
            "where is the package index? There is no pip in this environment that says it; install pip, or set "
            "PIP_INDEX_URL"
        )
    return match[1]


def locate(source: PyPISource, reader: Reader, indexes: Indexes, timeout: float) -> Place:
    """Where the pinned file is.

    Raises:
        SourceError: No index has the package, the version or the file.
    """
    refusals: list[str] = []
    seen: dict[str, Link] = {}
    for listing in _listings(source.project, reader, indexes, timeout, refusals):
        for name, file in listing.items():
            seen.setdefault(name, file)
            if _is_wanted(source, name, file):
                return Place(file.url, f"{name} ({redact(file.url)})")
    raise SourceError(_what_is_there(source, seen, indexes, refusals))


def _is_wanted(source: PyPISource, name: str, file: Link) -> bool:
    if source.file is not None:
        return name == source.file and file.sha256 in (source.sha256, None)
    if _version_of(name) != (source.project, source.version):
        return False
    local = _local_path(file.url)
    if file.sha256 is None and local is not None and local.is_file():
        return digest_file(local).sha256 == source.sha256
    return file.sha256 == source.sha256


def _listings(
    project: str, reader: Reader, indexes: Indexes, timeout: float, refusals: list[str]
) -> Iterator[Mapping[str, Link]]:
    # First what is on this machine.
    for place in (*indexes.links, *indexes.pages):
        local = _local_path(place)
        if local is None and place in indexes.pages:
            yield _read_page(project, place, reader, timeout, refusals)
        elif local is not None:
            inner = local / project if place in indexes.pages else local
            yield _read_directory(inner)


def _local_path(place: str) -> Path | None:
    if urlsplit(place).scheme == "file":
        return Path(url2pathname(urlsplit(place).path))
    return None if "://" in place else Path(place)


def _read_directory(directory: Path) -> Mapping[str, Link]:
    """The files of a directory: those that its page lists, or those in it."""
    page = directory / "index.html"
    try:
        if page.is_file() and page.stat().st_size <= _MAX_PAGE:
            return _by_name(read_links(page.read_bytes(), page.absolute().as_uri()))
        return {
            file.name: Link(file.name, file.absolute().as_uri(), None)
            for file in directory.iterdir()
            if file.name.endswith(_SUFFIXES)
        }
    except (OSError, ValueError):  # as pip: what is not there is left out
        return {}


def _by_name(links: Iterable[Link]) -> Mapping[str, Link]:
    return {link.name: link for link in links}


def _read_page(
    project: str, index: str, reader: Reader, timeout: float, refusals: list[str]
) -> Mapping[str, Link]:
    from ...util.http import read_body

    url = urljoin(index.rstrip("/") + "/", quote(project) + "/")

    def parse(response: requests.Response) -> Mapping[str, Link]:
        if response.status_code in _GONE:
            return {}
        if not response.ok:
            refusals.append(f"{redact(index)} answered {response.status_code}")
            return {}
        content = read_body(response, _MAX_PAGE, min(timeout, _PAGE_SECONDS))
        kind, _, parameters = response.headers.get("Content-Type", "text/html").partition(";")
        if kind.strip().lower() not in _TYPES:
            raise ValueError("it has another type")
        charset = parameters.strip().removeprefix("charset=").strip('"') or None
        return _by_name(read_links(content, response.url, charset))

    headers = {"Accept": _ACCEPT, "Accept-Encoding": "gzip"}
    try:
        with explained(redact(url), timeout):
            files = reader.read(url, parse, headers=headers)
    except ValueError:
        raise SourceError(
            f"{redact(url)} is not a page of a package index; correct pip's index-url"
        ) from None
    # pip refuses them, too, unless the host is trusted: anybody on the way could list others.
    safe = ("https", urlsplit(index).scheme)
    return {name: file for name, file in files.items() if urlsplit(file.url).scheme in safe}


def _version_of(name: str) -> tuple[str, str] | None:
    try:
        if name.endswith(".whl"):
            project, version, _, _ = parse_wheel_filename(name)
        else:
            project, version = parse_sdist_filename(name)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    return project, str(version)


def _what_is_there(
    source: PyPISource, seen: Mapping[str, Link], indexes: Indexes, refusals: list[str]
) -> str:
    where = first_few([redact(place) for place in (*indexes.pages, *indexes.links)])
    if refusals:
        return f"{source.pypi} is not found: {first_few(refusals)}; provide credentials, for example in ~/.netrc"
    versions = {name: parsed for name in seen if (parsed := _version_of(name)) is not None}
    if not versions:
        return f"{where} has no package {source.project!r}; correct source.pypi, or pip's index-url"
    own = [name for name, (_, version) in versions.items() if version == source.version]
    if not own:
        known = {version for _, version in versions.values()}
        return f"{source.project} has no version {source.version}; {suggest(source.version, known)}"
    if source.file is not None and source.file not in seen:
        return f"{source.pypi} has no file {source.file!r}; {suggest(source.file, own)}"
    files = first_few([f"{name} ({seen[name].sha256})" for name in own])
    return f"{source.pypi} has no file with SHA-256 {source.sha256}; it has {files}"
