"""Facts about all files of the repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Which package index, archive or mirror is used is for each machine's own configuration to say.
_REGISTRIES = re.compile(
    rb"\b(pypi|test\.pypi|upload\.pypi)\.org|pythonhosted\.org|registry\.(npmjs|yarnpkg)"
    rb"|(deb|security|archive|ports|ftp)\.(debian|ubuntu)\.(org|com)"
)


def test_no_file_names_the_host_of_a_registry() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    named = {
        f"{name}: {match[0].decode()}"
        for name in filter(None, listed.stdout.split("\0"))
        if (ROOT / name).is_file()
        for match in _REGISTRIES.finditer((ROOT / name).read_bytes())
    }
    assert named == set()
