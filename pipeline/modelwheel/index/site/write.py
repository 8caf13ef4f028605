"""Writes the site to a temporary directory and renames that into place."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...errors import UsageError
from ...util.files import replace_directory
from ...util.unfinished import temporary_directory
from ...util.watching import NOBODY, Watcher, step
from ...wheelfile.collect import ENTRIES, SDIST, WHEEL, find_distributions
from .addresses import Addresses
from .catalogue import PLAIN, Branding, render_catalogue
from .install import render_requirements
from .simple import render_simple
from .wheels import IndexedFile, IndexedWheel, ModelWheel, read_files

_MARK = b'<meta name="generator" content="modelwheel">'
"""In every page: what marks a directory as a site, which may be replaced."""


@dataclass(frozen=True)
class Site:
    """A site that was written."""

    directory: Path
    projects: int
    """Number of models."""
    wheels: int
    """Number of wheels, dependencies of models included."""
    sdists: int
    """Number of source distributions."""
    copied: bool
    """Whether the files are in the site; otherwise they are elsewhere."""


def write_site(
    paths: Sequence[Path],
    out: Path,
    base_url: str | None = None,
    index_url: str | None = None,
    watcher: Watcher = NOBODY,
    template: str | None = None,
    branding: Branding = PLAIN,
) -> Site:
    """Writes the index and the catalogue of wheels; the same files give the same bytes.

    Args:
        paths: Wheels, source distributions and entries of releases (`modelwheel.index.entries`), or directories
            of them; directories may be empty. Measurements beside a wheel (`WHEEL.report.json`,
            `WHEEL.bench.json`) are shown.
        out: The directory of the site; an older site is replaced.
        base_url: See `Addresses`.
        index_url: `site_url` of `Addresses`.
        watcher: Receives the name of each file, and what is written.
        template: See `Addresses`.
        branding: What pages say about who publishes the models.

    Raises:
        UsageError: There are no such files, or an address or `out` is unsuitable.
        WheelError: A file is damaged.
    """
    where = Addresses(base_url, None if base_url else index_url, template).checked()
    distributions = find_distributions(paths, (WHEEL, SDIST, ENTRIES), may_be_empty=True)
    _require_replaceable(out, distributions)
    indexed = read_files(distributions, watcher)
    if where.copies:
        _require_here(indexed)
    models = [wheel for wheel in indexed if isinstance(wheel, ModelWheel)]
    with step("the catalogue", watcher):
        files = render_simple(indexed, where.base_url, where.template)
        files |= render_requirements(indexed)
        files |= render_catalogue(indexed, where, branding)
        files |= {
            f"{file.name}{ending}": text  # for `modelwheel download`
            for file in indexed
            if where.base_url is None
            for ending, text in file.companions.items()
        }
        files[".nojekyll"] = b""  # GitHub Pages would otherwise run the files through Jekyll
        out.parent.mkdir(parents=True, exist_ok=True)
        with temporary_directory("site", out.parent) as scratch:
            _write_files(scratch / "new", files, indexed if where.copies else [])
            replace_directory(scratch / "new", out)
    wheels = sum(isinstance(file, IndexedWheel) for file in indexed)
    projects = len({wheel.project for wheel in models})
    return Site(out, projects, wheels, len(indexed) - wheels, copied=where.copies)


def _require_here(indexed: Iterable[IndexedFile]) -> None:
    absent = next((file for file in indexed if file.path is None), None)
    if absent is not None:
        raise UsageError(
            f"{absent.name} is not here, only the entry of its release; say where the files are with "
            "--file-url-template, such as https://github.com/ORG/REPO/releases/download/{tag}/{file}",
            code="MW203",
        )


def _require_replaceable(out: Path, wheels: Iterable[Path]) -> None:
    for wheel in wheels:
        if wheel.resolve().is_relative_to(out.resolve()):
            raise UsageError(
                f"{out} would replace {wheel}; choose another directory with --out", code="MW203"
            )
    if out.is_dir() and not any(out.iterdir()):
        return
    # Renaming would replace the link, not the directory that it points to.
    if out.is_symlink() or (out.exists() and not _is_site(out)):
        raise UsageError(
            f"{out} exists and is not an index; choose another directory with --out, or remove it",
            code="MW203",
        )


def _is_site(directory: Path) -> bool:
    with suppress(OSError):
        return _MARK in (directory / "simple" / "index.html").read_bytes()
    return False


def _write_files(site: Path, files: dict[str, bytes], copied: Iterable[IndexedFile]) -> None:
    for name, content in files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for file in copied:
        assert file.path is not None  # `_require_here`
        shutil.copyfile(file.path, site / file.name)
