"""Models of formats that are not read: one sentence with the way out, from names and first bytes alone."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path

import pytest

from modelwheel.errors import SourceError, UnsupportedModelError
from modelwheel.source.fetch import fetch
from modelwheel.source.foreign import explain_directory, explain_file
from modelwheel.spec.sources import DirectorySource
from modelwheel.store.store import Store
from tests.support.sources import write


def _zip(*names: str) -> bytes:
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return file.getvalue()


_SAFETENSORS = (2).to_bytes(8, "little") + b"{}"
_FILES = {
    "m.pkl": (pickle.dumps([1]), "a pickle (loading one runs code)", "skl2onnx.to_onnx"),
    "m.joblib": (pickle.dumps([1]), "a pickle (loading one runs code)", "skl2onnx.to_onnx"),
    "m.safetensors": (_SAFETENSORS, "weights without their network", "torch.onnx.export"),
    "m.pt": (_zip("archive/data.pkl"), "a pickle of PyTorch", "torch.export.save"),
    "m.pth": (_zip("archive/data.pkl", "archive/code/m.py"), "TorchScript", "torch.export.save"),
    "m.bin": (_zip("archive/data.pkl"), "a pickle of PyTorch", "torch.export.save"),
    "old.pth": (pickle.dumps(1), "a pickle of PyTorch", "torch.export.save"),
    "m.ckpt": (b"?", "a checkpoint", "torch.onnx.export"),
    "m.ckpt-3.data-00000-of-00001": (b"?", "a checkpoint of TensorFlow", "model.export"),
    "m.ubj": (b"{L\0\0\0\0\0\0\0\7learner{", "XGBoost", "trees are not compiled"),
    "m.json": (json.dumps({"learner": {}}).encode(), "XGBoost", "trees are not compiled"),
    "m.txt": (b"tree\nversion=v4\n", "LightGBM", "trees are not compiled"),
    "m.cbm": (b"CBM1", "CatBoost", "trees are not compiled"),
    "m.gguf": (b"GGUF\3", "llama.cpp", "optimum-cli export onnx"),
    "m.pdmodel": (b"?", "PaddlePaddle", "paddle2onnx --model_dir"),
    "m.zip": (_zip("a"), "an archive", "`archive: URL`"),
    "m.xyz": (b"?", "the ending of no format that is read", "source.format"),
}


@pytest.mark.parametrize("name", list(_FILES))
def test_a_file(name: str, tmp_path: Path, store: Store) -> None:
    content, title, fix = _FILES[name]
    write(tmp_path, {name: content})
    with pytest.raises(UnsupportedModelError) as refused:
        fetch(DirectorySource.at(tmp_path, name), store)
    said = str(refused.value)
    assert said.startswith(name)
    assert title in said
    assert fix in said
    assert "\n" not in said


_DIRECTORIES = {
    "hugging_face": ({"config.json", "model.safetensors"}, "optimum-cli export onnx"),
    "sharded": (
        {"config.json", "model-00001-of-00002.safetensors", "tokenizer.json"},
        "optimum-cli export onnx",
    ),
    "older": ({"config.json", "pytorch_model.bin"}, "optimum-cli export onnx"),
    "m.mlpackage": ({"Manifest.json", "Data/com.apple.CoreML/model.mlmodel"}, "Core ML"),
    "paddle": ({"inference.pdmodel", "inference.pdiparams"}, "paddle2onnx"),
    "checkpoint": ({"checkpoint", "ckpt-1.index", "ckpt-1.data-00000-of-00001"}, "model.export"),
    "classifier": ({"model.joblib", "README.md"}, "skl2onnx.to_onnx"),
}


@pytest.mark.parametrize("name", list(_DIRECTORIES))
def test_a_directory(name: str, tmp_path: Path, store: Store) -> None:
    files, fix = _DIRECTORIES[name]
    write(tmp_path / name, dict.fromkeys(files, b""))
    with pytest.raises(UnsupportedModelError) as refused:
        fetch(DirectorySource.at(tmp_path / name), store)
    assert str(refused.value).startswith(str(tmp_path / name))
    assert fix in str(refused.value)
    assert "SavedModel:" not in str(refused.value)


def test_a_directory_that_has_a_model_too(tmp_path: Path, store: Store) -> None:
    files = ("config.json", "model.safetensors", "onnx/model.onnx")
    write(tmp_path, dict.fromkeys(files, b""))
    with pytest.raises(SourceError, match=r"did you mean 'onnx/model\.onnx' in it\?"):
        fetch(DirectorySource.at(tmp_path), store)


def test_what_is_not_foreign() -> None:
    assert explain_directory("m", {"README.md"}) is None
    assert explain_directory("m", {"a/saved_model.pb", "config.json", "model.safetensors"}) is None


def test_a_file_that_may_not_be_read_is_known_by_its_name_alone() -> None:
    assert "XGBoost" not in (explain_file("m.json", None) or "")
    assert "llama.cpp" in (explain_file("m.gguf", None) or "")


def test_a_format_that_the_spec_names_is_taken_for_that(tmp_path: Path, store: Store) -> None:
    write(tmp_path, {"m.bin": b"?"})
    source = DirectorySource(directory=str(tmp_path), path="m.bin", format="onnx")
    assert fetch(source, store).directory
