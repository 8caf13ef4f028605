"""The lock files of the workflows: they agree with pyproject.toml, and leave pip no choice."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.lock import FILES, LOCKS, PYTHON, roots
from tests.support.workflows import WORKFLOWS, read

_MACHINES = [
    {"sys_platform": "linux", "platform_machine": "x86_64"},
    {"sys_platform": "linux", "platform_machine": "aarch64"},
    {"sys_platform": "darwin", "platform_machine": "arm64"},
    {"sys_platform": "darwin", "platform_machine": "x86_64"},
    {"sys_platform": "win32", "platform_machine": "AMD64"},
]
locks = pytest.mark.parametrize("name", FILES)


def entries(name: str) -> dict[str, Requirement]:
    """The pinned requirements of a file, by name."""
    text = (LOCKS / f"{name}.txt").read_text().replace(" \\\n", " ")
    found: dict[str, Requirement] = {}
    for line in text.splitlines():
        if not line.startswith(("#", "--only-binary :all:")):
            requirement = Requirement(line.partition(" --hash")[0])
            found[canonicalize_name(requirement.name)] = requirement
    return found


@locks
def test_everything_has_a_version_and_hashes_and_no_index(name: str) -> None:
    text = (LOCKS / f"{name}.txt").read_text()
    assert text.splitlines()[1] == "--only-binary :all:"
    for line in text.replace(" \\\n", " ").splitlines()[2:]:
        assert re.fullmatch(r"[a-z0-9-]+==[^ ;]+( ; [^\\]+)?( +--hash=sha256:[0-9a-f]{64})+", line)
    assert "//" not in text


@locks
def test_it_satisfies_the_project(name: str) -> None:
    pinned = entries(name)
    for text in roots(name):
        wanted = Requirement(text)
        for machine in _MACHINES:
            here = {**machine, "python_version": PYTHON, "python_full_version": f"{PYTHON}.0"}
            if wanted.marker and not wanted.marker.evaluate(here):
                continue
            found = pinned[canonicalize_name(wanted.name)]
            assert found.marker is None or found.marker.evaluate(here), (text, machine)
            (version,) = found.specifier
            assert wanted.specifier.contains(version.version, prereleases=True), text


def test_the_workflows_use_the_python_of_the_locks() -> None:
    for path in WORKFLOWS:
        for job in read(path)["jobs"].values():
            steps = job.get("steps", ())
            if any("--require-hashes" in step.get("run", "") for step in steps):
                (python,) = [s["with"]["python-version"] for s in steps if "setup-python" in str(s)]
                assert python == PYTHON
