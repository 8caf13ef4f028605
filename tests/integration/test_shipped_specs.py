"""The models of the specs in `model_specs/` can be fetched and compiled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelwheel.spec import load_spec
from modelwheel.spec.sources import GitSource
from tests.support.commands import Modelwheel

pytestmark = pytest.mark.slow

SPECS = sorted((Path(__file__).parents[2] / "model_specs").glob("*.yaml"))


def require_reachable(address: str) -> None:
    """Skips the test where git does not reach a repository."""
    command = ["git", "ls-remote", "--exit-code", address, "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{address} does not answer")
    if done.returncode:
        pytest.skip(f"{address} cannot be reached: {done.stderr.strip()}")


def cases() -> Iterator[Any]:
    """Of those that come from the package index, one stands for all: they are downloads of many megabytes."""
    for path in SPECS:
        from_index = not isinstance(load_spec(path).source, GitSource)
        marks = [pytest.mark.exhaustive] if from_index and path.stem != "basic-pitch" else []
        yield pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", list(cases()))
def test_the_pinned_commit_has_a_model_that_can_be_compiled(
    path: Path, modelwheel: Modelwheel
) -> None:
    source = load_spec(path).source
    if isinstance(source, GitSource):
        require_reachable(source.git)
    assert "all compiled" in modelwheel("check", path).out
