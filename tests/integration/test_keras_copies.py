"""The file that Keras reads: only what was judged of the one that a user has. It needs h5py, not Keras."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.keras.keras_file import judge_config, read_keras_file, write_judged
from tests.models.hostile_containers import (
    KERAS_2,
    hdf5,
    keras_2,
    lambda_layer,
    write_twofold_keras,
)


def _write(path: Path) -> Path:
    """What Keras would read."""
    directory = path.parent / "judged"
    directory.mkdir()
    return write_judged(path, read_keras_file(path), directory)


def test_a_file_of_two_kinds_is_judged_as_what_its_name_says(tmp_path: Path) -> None:
    path = tmp_path / "twofold.h5"
    write_twofold_keras(path, "print('ran')")
    assert zipfile.is_zipfile(path)
    with pytest.raises(UnsupportedModelError, match="the layer 'evil' is a Lambda"):
        judge_config(read_keras_file(path).config, lambda _: True)
    as_archive = path.rename(tmp_path / "twofold.keras")
    judge_config(read_keras_file(as_archive).config, lambda _: True)
    judged = _write(as_archive)
    assert judged.name == "model.keras"
    assert b"Lambda" not in judged.read_bytes()


def test_keras_reads_what_was_judged_and_nothing_else(tmp_path: Path) -> None:
    path, evil = tmp_path / "model.h5", lambda_layer("print('ran')")
    inner = {**keras_2(), "compile_config": {"loss": evil}}
    path.write_bytes(hdf5({**keras_2(inner), "compile_config": {"loss": evil}}))
    names = np.array([b"dense", b"other"])
    with h5py.File(path, "a") as file:
        file.attrs["training_config"] = json.dumps(evil)
        weights = file["model_weights"]
        weights.attrs["layer_names"] = names
        weights.attrs["texts"] = ["a", "b"]
        weights.attrs["reference"] = weights.ref
        weights.create_dataset("dense/kernel:0", data=np.arange(3, dtype="f4"))
        weights["dense"].attrs["weight_names"] = ["kernel:0"]
    judged = _write(path)
    with h5py.File(judged) as file:
        assert set(file.attrs) == {"model_config", "keras_version", "backend"}
        assert json.loads(file.attrs["model_config"]) == keras_2(keras_2())
        assert file.attrs["keras_version"] == KERAS_2
        weights = file["model_weights"]
        assert set(weights.attrs) == {"layer_names", "texts"}
        assert list(weights.attrs["layer_names"]) == list(names)
        assert list(weights["dense/kernel:0"]) == [0, 1, 2]
        assert list(weights["dense"].attrs["weight_names"]) == ["kernel:0"]


def _link(file: Any) -> None:
    file["model_weights/alias"] = h5py.SoftLink("/elsewhere")


def _link_to_a_file(file: Any) -> None:
    file["model_weights/alias"] = h5py.ExternalLink("/etc/passwd", "/")


def _name_twice(file: Any) -> None:
    file["model_weights/a"] = np.zeros(3)
    file["model_weights/b"] = file["model_weights/a"]


def _name_itself(file: Any) -> None:
    file["model_weights/inside"] = file["model_weights"]


def _store_texts(file: Any) -> None:
    file["model_weights/a"] = ["a", "b"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_link, "/model_weights/alias is a link"),
        (_link_to_a_file, "/model_weights/alias is a link"),
        (_name_twice, "/model_weights/b has two names"),
        (_name_itself, "/model_weights/inside has two names"),
        (_store_texts, "/model_weights/a holds no numbers"),
    ],
)
def test_what_is_not_copied(tmp_path: Path, change: Callable[[Any], None], words: str) -> None:
    path = tmp_path / "model.h5"
    path.write_bytes(hdf5(keras_2()))
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(UnsupportedModelError, match=words):
        _write(path)


def test_groups_that_lead_to_each_other_many_times_are_refused_at_once(tmp_path: Path) -> None:
    """Each of these groups is linked twice: there are 2^60 paths to the last one."""
    path = tmp_path / "model.h5"
    path.write_bytes(hdf5(keras_2()))
    with h5py.File(path, "a") as file:
        group = file["model_weights"]
        for _ in range(60):
            group = group.create_group("a")
            group.parent["b"] = group
    with pytest.raises(UnsupportedModelError, match="has two names"):
        read_keras_file(path)
