"""The models of the specs in `model_specs/` can be fetched and compiled."""

from __future__ import annotations

import subprocess
from pathlib import Path

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


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_the_pinned_commit_has_a_model_that_can_be_compiled(
    path: Path, modelwheel: Modelwheel
) -> None:
    source = load_spec(path).source
    assert isinstance(source, GitSource)
    require_reachable(source.git)
    assert "all compiled" in modelwheel("check", path).out
