"""A module of others, written with pybind11 and built by scikit-build-core, computes the same bytes as Python."""

import importlib
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

PROJECT = Path(__file__).with_name("pybind11_consumer")

BUILD = "import sys; from scikit_build_core.build import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="session")
def consumer(tmp_path_factory):
    """The module, built against what the wheel installed."""
    for name in ("scikit_build_core", "pybind11", "cmake", "ninja"):
        pytest.importorskip(name)
    project, built = (tmp_path_factory.mktemp(name) for name in ("project", "built"))
    shutil.copytree(PROJECT, project, dirs_exist_ok=True)
    command = [sys.executable, "-c", BUILD, built]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(built / "site")
    sys.path.insert(0, str(built / "site"))
    return importlib.import_module("consumer")


def expect(package, arrays):
    expected = package.Model()(*arrays)
    return [expected] if isinstance(expected, np.ndarray) else list(expected.values())


def test_results_are_those_of_python(package, arrays, consumer):
    found = consumer.Model()(*arrays)
    for one, other in zip(found, expect(package, arrays), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()


def test_results_are_at_addresses_that_models_use_in_place(arrays, consumer):
    assert all(
        one.ctypes.data % 64 == 0 and one.flags.writeable for one in consumer.Model()(*arrays)
    )


def test_nothing_is_converted(arrays, consumer):
    """So what the model reads is the caller's memory."""
    model = consumer.Model()
    with pytest.raises(TypeError, match="incompatible function arguments"):
        model(*[array.astype(object) for array in arrays])
    with pytest.raises(TypeError, match="incompatible function arguments"):
        model(*[np.stack([array, array], -1)[..., 0] for array in arrays])


def test_a_wrong_shape_is_a_sentence(package, arrays, consumer):
    spec = package.Model.inputs[0]
    wrong = [np.zeros((*arrays[0].shape, 1), arrays[0].dtype), *arrays[1:]]
    with pytest.raises(ValueError, match=r"must have the shape .*, got ") as caught:
        consumer.Model()(*wrong)
    assert f"input '{spec.name}'" in str(caught.value)


@pytest.mark.usefixtures("stateless")
def test_threads_share_a_model(package, arrays, consumer):
    """The GIL is released, and calls of one object wait for each other."""
    model, expected, failures = consumer.Model(), expect(package, arrays), []

    def call():
        for _ in range(50):
            for one, other in zip(model(*arrays), expected, strict=True):
                if one.tobytes() != other.tobytes():
                    failures.append(one)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
