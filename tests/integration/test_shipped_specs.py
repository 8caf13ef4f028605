"""The models of the specs in `model_specs/` can be fetched."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from modelwheel.spec import load_spec
from modelwheel.spec.sources import GitSource
from tests.support.commands import run

pytestmark = pytest.mark.slow

SPECS = sorted((Path(__file__).parents[2] / "model_specs").glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_pinned_commit_has_the_model(path: Path, tmp_path: Path) -> None:
    source = load_spec(path).source
    assert isinstance(source, GitSource)
    address = urlsplit(source.git)
    assert address.hostname is not None
    try:
        socket.create_connection((address.hostname, address.port or 443), timeout=10).close()
    except OSError as error:
        pytest.skip(f"{address.hostname} cannot be reached: {error}")
    git = ("git", "-C", tmp_path)
    run(*git, "init", "--quiet")
    run(*git, "fetch", "--quiet", "--depth=1", "--filter=blob:none", source.git, source.commit)
    files = run(*git, "ls-tree", "-r", "--name-only", "FETCH_HEAD", source.path).out
    assert "saved_model.pb" in files
