"""One set of models and one pool of workers for all slow tests: TensorFlow takes long to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.workers import WorkerPool

from .laboratory import Laboratory, run_script


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with every model of `tests/models`."""
    directory = tmp_path_factory.mktemp("models")
    run_script("make_models.py", directory)
    return directory


@pytest.fixture(scope="session")
def laboratory(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """Workers, and the models."""
    with WorkerPool(2) as pool:
        yield Laboratory(models, tmp_path_factory.mktemp("jobs"), pool)
