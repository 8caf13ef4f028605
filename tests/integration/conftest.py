"""What slow tests share: TensorFlow takes long to start, and wheels take long to build."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelwheel.workers import WorkerPool
from tests.commands import Modelwheel
from tests.containers import image

from .interrupting import Rebuilt, rebuild
from .laboratory import Laboratory, run_script
from .wheels import SPECS, Built, build_all, make_environment


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


@pytest.fixture(scope="session")
def modelwheel(tmp_path_factory: pytest.TempPathFactory) -> Modelwheel:
    """The command, with one store for the whole session."""
    return Modelwheel(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def built(modelwheel: Modelwheel, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The wheels of all specs in `wheels.py`, built once."""
    return build_all(modelwheel, models, tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def sdist(modelwheel: Modelwheel, built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of `mlp`, compiled for every platform."""
    out = tmp_path_factory.mktemp("sdist")
    (result,) = modelwheel("compile", "--json", "--out", out, built.spec("mlp")).json
    return Path(result["sdist"])


@pytest.fixture(scope="session")
def containers() -> dict[str, Any]:
    """The variables with which cibuildwheel builds in containers here, in an image that podman keeps."""
    try:
        return image.environment()
    except image.UnavailableError as problem:
        pytest.skip(f"no containers: {problem}")


@pytest.fixture(scope="session")
def environment(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with NumPy, pytest and these wheels, and nothing else."""
    wheels = [built.wheel(name) for name in SPECS]
    return make_environment(tmp_path_factory.mktemp("environment"), "pytest", *wheels)


@pytest.fixture(scope="session")
def rebuilt(built: Built, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Rebuilt:
    """The wheel `mlp` once more: interrupted twice, elsewhere, in other circumstances."""
    return rebuild(built.spec("mlp"), models / "mlp", tmp_path_factory.mktemp("rebuilt"))
