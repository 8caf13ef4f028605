"""Writes the site to a temporary directory and renames that into place."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import UsageError
from ...util.watching import NOBODY, Watcher, step
from ...wheelfile.collect import find_wheels
from ...wheelfile.reports import find_companions
from .catalogue import render_catalogue
from .install import render_requirements
from .simple import render_simple
from .wheels import IndexedWheel, ModelWheel, read_wheels

_MARK = b'<meta name="generator" content="modelwheel">'
"""In every page: what marks a directory as a site, which may be replaced."""

_ADDRESS = re.compile(r"[\w.~:/%@+,=\[\]-]+", re.ASCII)
"""URLs without query and fragment that need no quoting in a shell, in HTML, or in a TOML string."""


@dataclass(frozen=True)
class Site:
    """A site that was written."""

    directory: Path
    projects: int
    """Number of models."""
    wheels: int
    """Number of files, dependencies of models included."""
    copied: bool
    """Whether the wheels are in the site; otherwise they have to be served at its address."""


def write_site(
    paths: Sequence[Path],
    out: Path,
    base_url: str | None = None,
    index_url: str | None = None,
    watcher: Watcher = NOBODY,
) -> Site:
    """Writes the index and the catalogue of wheels; the same wheels give the same bytes.

    Args:
        paths: Wheels, or directories of them. Measurements beside a wheel (`WHEEL.report.json`,
            `WHEEL.bench.json`) are shown.
        out: The directory of the site; an older site is replaced.
        base_url: Where the site and the wheels will be served. Without it links are relative and
            the wheels are copied into the site.
        index_url: The simple API that install texts show; by default that of `base_url`.
        watcher: Receives the name of each wheel, and what is written.

    Raises:
        UsageError: There are no wheels, or the address or `out` is unsuitable.
        WheelError: A wheel is damaged.
    """
    address = None if base_url is None else _checked_address(base_url, "--base-url")
    if address is None and index_url is not None:
        index_url = _checked_address(index_url, "the address of the site")
    found = find_wheels(paths)
    _require_replaceable(out, found)
    wheels = read_wheels(found, watcher)
    models = [wheel for wheel in wheels if isinstance(wheel, ModelWheel)]
    with step("the catalogue", watcher):
        files = render_simple(wheels, address)
        files |= render_requirements(wheels)
        files |= render_catalogue(wheels, address, None if address else index_url)
        files[".nojekyll"] = b""  # GitHub Pages would otherwise run the files through Jekyll
        out.parent.mkdir(parents=True, exist_ok=True)
        aside = out.with_name(f".{out.name}.{uuid.uuid4().hex}")
        try:
            _write_files(aside, files, wheels if address is None else [])
            _put_in_place(aside, out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    projects = len({wheel.project for wheel in models})
    return Site(out, projects, len(wheels), copied=address is None)


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


def _require_replaceable(out: Path, wheels: Iterable[Path]) -> None:
    for wheel in wheels:
        if wheel.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"{out} would replace {wheel}; choose another directory with --out")
    if out.is_dir() and not any(out.iterdir()):
        return
    # Renaming would replace the link, not the directory that it points to.
    if out.is_symlink() or (out.exists() and not _is_site(out)):
        raise UsageError(
            f"{out} exists and is not an index; choose another directory with --out, or remove it"
        )


def _is_site(directory: Path) -> bool:
    with suppress(OSError):
        return _MARK in (directory / "simple" / "index.html").read_bytes()
    return False


def _write_files(site: Path, files: dict[str, bytes], copied: list[IndexedWheel]) -> None:
    for name, content in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for wheel in copied:
        shutil.copyfile(wheel.path, site / wheel.name)
        for measured in find_companions(wheel.path):  # for `modelwheel download`
            shutil.copyfile(measured, site / measured.name)


def _put_in_place(aside: Path, out: Path) -> None:
    """Renames `aside` to `out`; restores the older site if that fails."""
    old = aside.with_name(aside.name + ".old")
    # A directory that is not empty cannot be replaced by a rename, so it is moved away first.
    if out.exists():
        out.rename(old)
    try:
        aside.rename(out)
    # Also if interrupted: the site must not be missing.
    except BaseException:
        if old.exists():
            old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)
