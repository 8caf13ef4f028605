"""The texts with which a model is installed from the index: for pip, for uv, and with hashes.

An index of modelwheel only serves models and the runtime package, so every other requirement has to
come from the reader's default index. `--extra-index-url` would do that in one line, but pip then takes
each name from whichever index has the newest version: anybody could publish a model's name elsewhere.
A machine's own configuration may have such an index, too, which `--index-url` does not replace; so every
text for pip has hashes, and takes no other file whoever offers it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .wheels import IndexedFile

_INDEX_NAME = "models"


@dataclass(frozen=True)
class Install:
    """Texts to paste."""

    pip: str
    """Lines for a shell."""
    uv: str
    """A pyproject.toml."""
    requirements: str
    """A requirements file with the hashes of all files."""
    origin: str
    """A sentence: which index each requirement comes from."""


def install_texts(
    release: Sequence[IndexedFile], index: Sequence[IndexedFile], index_url: str
) -> Install:
    """The texts for one release.

    Args:
        release: All files of one version.
        index: All files of the index.
        index_url: Its simple API.
    """
    project, version = release[0].project, str(release[0].version)
    ours, others = _divide(release, index)
    return Install(
        pip="\n".join(_pip_lines(requirements_path(project, version), others, index_url)),
        uv=_uv_text(project, version, ours, index_url),
        requirements="\n".join(_requirement_lines(release, index, ours, others, index_url)),
        origin=origin_text(release, index),
    )


def origin_text(release: Sequence[IndexedFile], index: Sequence[IndexedFile]) -> str:
    """Which index a release and what it requires come from."""
    ours, others = _divide(release, index)
    here = " and ".join([release[0].project, *(canonicalize_name(r.name) for r in ours)])
    elsewhere = f"{', '.join(others)} from your default index" if others else "nothing else needed"
    return f"{here} from this index alone; {elsewhere}."


def render_requirements(index: Sequence[IndexedFile]) -> dict[str, bytes]:
    """For each version of each project a requirements file with hashes, by its path in the site.

    Args:
        index: All files, sorted by project and version.
    """
    files = {}
    for (project, version), group in groupby(index, key=lambda w: (w.project, str(w.version))):
        ours, others = _divide(release := list(group), index)
        lines = _requirement_lines(release, index, ours, others, None)
        path = f"simple/{requirements_path(project, version)}"
        files[path] = "".join(f"{line}\n" for line in lines).encode()
    return files


def requirements_path(project: str, version: str) -> str:
    """The path of a requirements file below the simple API."""
    return f"{project}/requirements-{version}.txt"


def _divide(
    release: Sequence[IndexedFile], index: Sequence[IndexedFile]
) -> tuple[list[Requirement], list[str]]:
    """The requirements of a release: those that this index has, and the rest."""
    here = {wheel.project for wheel in index}
    required = list(dict.fromkeys(r for wheel in release for r in wheel.requires))
    ours = [r for r in required if canonicalize_name(r.name) in here]
    return ours, [str(r) for r in required if r not in ours]


def _pip_lines(path: str, others: Sequence[str], index_url: str) -> Iterator[str]:
    if others:
        yield f"pip install {shlex.join(others)}"
    yield f"pip install --index-url {shlex.join([index_url, '--require-hashes', '-r', index_url + path])}"


def _uv_text(project: str, version: str, ours: Sequence[Requirement], index_url: str) -> str:
    # uv takes sources only for direct dependencies, so what a model needs from the index is one.
    direct = [f"{project}=={version}", *map(str, ours)]
    names = [project, *(canonicalize_name(requirement.name) for requirement in ours)]
    source = f"{{ index = {json.dumps(_INDEX_NAME)} }}"
    return "\n".join(
        [
            "[project]",
            'name = "my-project"',
            'version = "0.1.0"',
            'requires-python = ">=3.10"',
            f"dependencies = {json.dumps(direct)}",
            "",
            "[[tool.uv.index]]",
            f"name = {json.dumps(_INDEX_NAME)}",
            f"url = {json.dumps(index_url)}",
            "explicit = true",
            "",
            "[tool.uv.sources]",
            *(f"{name} = {source}" for name in names),
        ]
    )


def _requirement_lines(
    release: Sequence[IndexedFile],
    index: Sequence[IndexedFile],
    ours: Sequence[Requirement],
    others: Sequence[str],
    index_url: str | None,
) -> Iterator[str]:
    if others:  # one file has one index, and hashes for all packages or for none
        yield f"# first: pip install {shlex.join(others)}"
    if index_url is not None:
        yield f"--index-url {index_url}"
    yield from _pinned(release)
    for requirement in ours:
        yield from _pinned(_newest(requirement, index))


def _newest(requirement: Requirement, index: Sequence[IndexedFile]) -> list[IndexedFile]:
    fitting = [
        wheel
        for wheel in index
        if wheel.project == canonicalize_name(requirement.name)
        and requirement.specifier.contains(wheel.version, prereleases=True)
    ]
    newest = max((wheel.version for wheel in fitting), default=None)
    return [wheel for wheel in fitting if wheel.version == newest]


def _pinned(wheels: Sequence[IndexedFile]) -> Iterator[str]:
    if wheels:
        hashes = sorted({wheel.sha256 for wheel in wheels})
        yield f"{wheels[0].project}=={wheels[0].version} \\"
        yield " \\\n".join(f"    --hash=sha256:{sha256}" for sha256 in hashes)
