"""Laying out the whole site, written aside and renamed into place."""

from __future__ import annotations

import re
import shutil
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import WheelError
from ...wheelfile.reports import BENCH_SUFFIX, REPORT_SUFFIX, IndexedWheel, ModelWheel, read_wheels
from .catalogue import render_catalogue
from .simple import render_simple

_MARK = b'<meta name="generator" content="modelwheel">'
"""In every page: tells a site, which may be replaced, from a directory of something else."""

_ADDRESS = re.compile(r"[\w.~:/%@+,=\[\]-]+", re.ASCII)
"""Characters of a URL without query, fragment and what a shell or a page could misread."""


@dataclass(frozen=True)
class Site:
    """What was written."""

    directory: Path
    projects: int
    """How many models there are."""
    wheels: int
    """How many files; those of packages that models need are among them."""
    copied: bool
    """Whether the wheels lie in the site; else they are expected beside it at its address."""


def write_site(directory: Path, out: Path, base_url: str | None = None) -> Site:
    """Writes the index and the catalogue of all wheels of a directory; the same bytes each time.

    Args:
        directory: Holds wheels, and beside a wheel what was measured (`WHEEL.report.json`,
            `WHEEL.bench.json`), where it was.
        out: The site; an older one is replaced.
        base_url: Where the site will be served and the wheels lie. Without it links are relative
            and the wheels are copied into the site.

    Raises:
        WheelError: A wheel is unfit, the address is, or `out` is not a site.
    """
    address = _checked_address(base_url) if base_url is not None else None
    _require_replaceable(out, directory)
    wheels = read_wheels(directory)
    models = [wheel for wheel in wheels if isinstance(wheel, ModelWheel)]
    files = render_simple(wheels, address) | render_catalogue(models, address)
    files[".nojekyll"] = b""  # GitHub Pages shall serve the files as they are
    out.parent.mkdir(parents=True, exist_ok=True)
    aside = out.with_name(f".{out.name}.{uuid.uuid4().hex}")
    try:
        _write_files(aside, files, wheels if address is None else [])
        _put_in_place(aside, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    projects = len({wheel.project for wheel in models})
    return Site(out, projects, len(wheels), copied=address is None)


def _checked_address(url: str) -> str:
    """The address with a slash at its end."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("https", "http") and bool(parts.hostname)
        secret = parts.username is not None or parts.password is not None
    except ValueError:
        usable, secret = False, False
    if secret:
        raise WheelError("--base-url holds a user name or password, which the page would show")
    if not usable or not _ADDRESS.fullmatch(url):
        raise WheelError(
            f"--base-url {url!r} is no plain http or https address; "
            "give it without query, fragment, quotes and spaces"
        )
    return url.rstrip("/") + "/"


def _require_replaceable(out: Path, wheels: Path) -> None:
    if wheels.resolve().is_relative_to(out.resolve()):
        raise WheelError(f"{out} would replace the wheels in {wheels}; name another directory")
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.is_symlink() or (out.exists() and not _is_site(out)):
        raise WheelError(f"{out} exists and is no index; name another directory or remove it")


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
        for suffix in (REPORT_SUFFIX, BENCH_SUFFIX):  # so that the next site can be made from this
            measured = wheel.path.with_name(wheel.name + suffix)
            if measured.is_file():
                shutil.copyfile(measured, site / measured.name)


def _put_in_place(aside: Path, out: Path) -> None:
    """Renames `aside` to `out`; an older site is put back if that fails."""
    old = aside.with_name(aside.name + ".old")
    if out.exists():
        out.rename(old)
    try:
        aside.rename(out)
    except BaseException:
        if old.exists():
            old.rename(out)
        raise
    shutil.rmtree(old, ignore_errors=True)
