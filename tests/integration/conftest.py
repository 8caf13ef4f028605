"""What slow tests share: TensorFlow takes long to start, and wheels take long to build."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from modelwheel.workers.pool import WorkerPool
from tests.containers import image
from tests.containers.apt import UnavailableError
from tests.models.hostile import Attacks, Victim
from tests.support import commands
from tests.support.commands import Modelwheel
from tests.support.interrupting import Rebuilt, rebuild
from tests.support.laboratory import Laboratory, run_script
from tests.support.once import Once
from tests.support.wheels import SPECS, Built, build_all, make_environment

commands.preload = True

# Of each program that a test compiles, the graph is checked after each pass.
os.environ["MODELWHEEL_VERIFY"] = "1"

LONGEST = (
    *("test_cross", "test_zoo", "test_shared_models", "test_wheel", "test_cpp", "test_wheelhouse"),
    *("test_precision", "test_fusions", "test_onnx", "test_onnx_conformance", "test_inspect"),
    *("test_state", "test_bundle", "test_bazel"),
)
"""Files that take minutes: started last, one of them would leave the other cores idle."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first."""
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(LONGEST)))


_LEFT = pytest.StashKey[dict[str, int]]()
"""How many exhaustive tests of each file are not run."""


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Counts what is left to `make exhaustive`, in the process that collects."""
    for item in items:
        if item.get_closest_marker("exhaustive") is not None:
            left = item.config.stash.setdefault(_LEFT, {})
            left[item.path.stem] = left.get(item.path.stem, 0) + 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands the numbers to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = session.config.stash.get(_LEFT, {})


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node: Any) -> None:
    """Takes the numbers of one process: all have the same."""
    node.config.stash[_LEFT] = getattr(node, "workeroutput", {}).get("left", {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says what was not run, and how to run it."""
    if left := config.stash.get(_LEFT, {}):
        names = ", ".join(f"{name} {count}" for name, count in sorted(left.items()))
        number = sum(left.values())
        terminalreporter.write_line(f"{number} tests are left to `make exhaustive`: {names}")


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Makes what all processes of this session share."""
    return Once(tmp_path_factory)


@pytest.fixture(scope="session")
def models(once: Once) -> Path:
    """A directory with every model of `tests/models`."""

    def make(directory: Path) -> Path:
        run_script("make_models", directory)
        return directory

    return once("models", make)


@pytest.fixture(scope="session")
def graphs(once: Once) -> Path:
    """Every graph of `tests/models/tfcompile_graphs` and `frozen_graphs`."""

    def make(directory: Path) -> Path:
        run_script("tfcompile_graphs", directory)
        return directory

    return once("graphs", make)


@pytest.fixture(scope="session")
def attacks(once: Once) -> Attacks:
    """Every model of `tests/models/hostile`, and the victim that they were made for."""

    def make(directory: Path) -> Attacks:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            victim = Victim(directory / "victim", listener.getsockname()[1])
        run_script("hostile", directory / "models", victim.directory, str(victim.port))
        return Attacks(directory / "models", victim)

    return once("attacks", make)


@pytest.fixture(scope="session")
def laboratory(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """Workers, and the models."""
    with WorkerPool(tmp_path_factory.mktemp("workers"), 2) as pool:
        yield Laboratory(models, tmp_path_factory.mktemp("jobs"), pool)


@pytest.fixture(scope="session")
def modelwheel(once: Once) -> Modelwheel:
    """The command, with one store for the whole session."""
    return Modelwheel(once.directory / "cache")


@pytest.fixture(scope="session")
def built(modelwheel: Modelwheel, models: Path, once: Once) -> Built:
    """The wheels of all specs in `wheels.py`, built once."""
    return once("built", lambda directory: build_all(modelwheel, models, directory))


@pytest.fixture(scope="session")
def sdist(modelwheel: Modelwheel, built: Built, once: Once) -> Path:
    """The source distribution of `mlp`, compiled for every platform."""

    def make(directory: Path) -> Path:
        (result,) = modelwheel("compile", "--json", "--out", directory, built.spec("mlp")).json
        return Path(result["sdist"])

    return once("sdist", make)


@pytest.fixture(scope="session")
def containers() -> dict[str, Any]:
    """The variables with which cibuildwheel builds in containers here, in an image that podman keeps."""
    try:
        return image.environment()
    except UnavailableError as problem:
        pytest.skip(f"no containers: {problem}")


@pytest.fixture(scope="session")
def environment(built: Built, once: Once) -> Path:
    """The interpreter of an environment with NumPy, pytest and these wheels, and nothing else."""
    wheels = [built.wheel(name) for name in SPECS]
    return once("environment", lambda directory: make_environment(directory, "pytest", *wheels))


@pytest.fixture(scope="session")
def rebuilt(built: Built, models: Path, once: Once) -> Rebuilt:
    """The wheel `mlp` once more: interrupted twice, elsewhere, in other circumstances."""
    return once("rebuilt", lambda directory: rebuild(built.spec("mlp"), models / "mlp", directory))
