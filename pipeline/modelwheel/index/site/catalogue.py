"""The catalogue: an overview, a page for each model, a list for programs, and a feed, all static."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UsageError
from ...util.words import size_text
from .addresses import PLACEHOLDER_URL, Addresses
from .feed import render_feed
from .listing import render_listing, render_schema
from .model_page import bill_paths, page_values
from .overview import make_overview
from .projects import Project, group_projects
from .rendering import render
from .wheels import IndexedFile

_STATIC = Path(__file__).with_name("static")

_PICTURES = (".svg", ".png", ".webp", ".jpg", ".jpeg")
_LARGEST_PICTURE = 1_000_000


@dataclass(frozen=True)
class Branding:
    """The words of pages about who publishes the models."""

    title: str = "Models"
    logo: Path | None = None
    """A picture, shown beside the title."""
    repository: str | None = None
    """On GitHub, as OWNER/REPOSITORY."""
    pictures: Path | None = None
    """A directory with a picture of what a model does, for some: `NAME.svg`."""


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
        UsageError: A picture cannot be read, is too large, or is none by its name.
    """
    projects = group_projects(indexed)
    assets, files = render_assets(branding)
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
        picture = _picture(branding, project)
        files |= picture
        values["picture"] = next(iter(picture), None)
        files[project.page] = render("model.html.j2", top="../", **values, **shared)
        files |= {path: bill.encode() for path, bill in bill_paths(project).values()}
    return files


def render_assets(branding: Branding) -> tuple[dict[str, str], dict[str, bytes]]:
    """Where pages find each style and script and the logo, and these files."""
    names, files = {}, {}
    for path in sorted(_STATIC.iterdir()):
        content = path.read_bytes()
        names[path.name] = _hashed("assets", path.stem, path.suffix, content)
        files[names[path.name]] = content
    if branding.logo is not None:
        content = _read_picture(branding.logo)
        names["logo"] = _hashed("assets", "logo", branding.logo.suffix.lower(), content)
        files[names["logo"]] = content
    return names, files


def _picture(branding: Branding, project: Project) -> dict[str, bytes]:
    """The picture of a model by its path in the site; empty if there is none."""
    if branding.pictures is None:
        return {}
    name = project.newest.manifest.model.name
    candidates = (branding.pictures / f"{name}{suffix}" for suffix in _PICTURES)
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        return {}
    content = _read_picture(path)
    return {_hashed("models", project.name, path.suffix, content): content}


def _hashed(directory: str, stem: str, suffix: str, content: bytes) -> str:
    """A path that changes with the content, so that browsers may keep what they have."""
    return f"{directory}/{stem}-{hashlib.sha256(content).hexdigest()[:10]}{suffix}"


def _read_picture(path: Path) -> bytes:
    if path.suffix.lower() not in _PICTURES:
        raise UsageError(f"the picture {path} must end with {', '.join(_PICTURES)}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the picture {path}: {error.strerror or error}") from None
    if len(content) > _LARGEST_PICTURE:
        raise UsageError(
            f"the picture {path} has {size_text(len(content))}; at most {size_text(_LARGEST_PICTURE)} are shown"
        )
    return content
