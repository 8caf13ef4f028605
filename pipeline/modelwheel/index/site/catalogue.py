"""The catalogue: an overview, a page for each model, a list for programs, and a feed, all static."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UsageError
from .addresses import PLACEHOLDER_URL, Addresses
from .feed import render_feed
from .listing import render_listing, render_schema
from .model_page import bill_paths, page_values
from .overview import make_overview
from .projects import group_projects
from .rendering import render
from .wheels import IndexedFile

_STATIC = Path(__file__).with_name("static")

_PICTURES = (".svg", ".png", ".webp", ".jpg", ".jpeg")


@dataclass(frozen=True)
class Branding:
    """What pages say about who publishes the models."""

    title: str = "Models"
    logo: Path | None = None
    """A picture, shown beside the title."""
    repository: str | None = None
    """On GitHub, as OWNER/REPOSITORY."""


PLAIN = Branding()


def render_catalogue(
    indexed: Sequence[IndexedFile], addresses: Addresses, branding: Branding = PLAIN
) -> dict[str, bytes]:
    """The pages and what they load, by their path in the site.

    Args:
        indexed: The whole index, sorted by project and version. Pages show the newest version of each model.
        addresses: Where files are served.
        branding: Title, logo and repository.

    Raises:
        UsageError: The logo cannot be read, or is no picture by its name.
    """
    projects = group_projects(indexed)
    assets, files = _assets(branding)
    shared = {"assets": assets, "branding": branding, "placeholder": PLACEHOLDER_URL}
    files |= {
        "index.html": render(
            "overview.html.j2", top="", overview=make_overview(projects), **shared
        ),
        "models.json": render_listing(branding.title, projects, addresses),
        "models.schema.json": render_schema(),
        "feed.xml": render_feed(branding.title, projects, addresses),
    }
    for project in projects:
        values = page_values(project, indexed, addresses)
        files[project.page] = render("model.html.j2", top="../", **values, **shared)
        files |= {path: bill.encode() for path, bill in bill_paths(project).values()}
    return files


def _assets(branding: Branding) -> tuple[dict[str, str], dict[str, bytes]]:
    """Where pages find each style, script and picture, and these files: their names change with their content."""
    if branding.logo is not None and branding.logo.suffix.lower() not in _PICTURES:
        raise UsageError(f"the logo {branding.logo} must end with {', '.join(_PICTURES)}")
    paths = [*sorted(_STATIC.iterdir()), *([branding.logo] if branding.logo else [])]
    names, files = {}, {}
    for path in paths:
        content = _read(path)
        digest = hashlib.sha256(content).hexdigest()[:10]
        kind = "logo" if path == branding.logo else path.name
        stem = "logo" if path == branding.logo else path.stem
        names[kind] = f"assets/{stem}-{digest}{path.suffix.lower()}"
        files[names[kind]] = content
    return names, files


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the logo {path}: {error.strerror or error}") from None
