"""Specs for models that have none: found by their names, named after their files, written as a person would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import SpecError
from modelwheel.request import make_request
from modelwheel.spec import DirectorySource, Spec, find_specs, load_spec
from modelwheel.spec.bare import bare_values, make_bare, name_of_model, spec_text, with_fields
from modelwheel.spec.find import has_both, is_model
from modelwheel.spec.scaffold import ModelDescription, TensorDescription

BATCHED = ModelDescription(("serve",), "serve", (TensorDescription("x", "float32", (None, 8)),), ())


def put(path: Path, content: bytes = b"") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("net.onnx", "net"),
        ("Half_Plus_Two.keras", "half-plus-two"),
        ("half_plus_two.pb", "half_plus_two"),
        ("ResNet 50 v1.5.onnx", "resnet-50-v1-5"),
        ("fer/1.jax", "fer"),
        ("float.onnx", "float-model"),
        ("net_bs4.onnx", "net-bs4-model"),
        ("1/2.onnx", "model"),
        (f"{'n' * 80}.onnx", "n" * 63),
    ],
)
def test_names_after_files(path: str, name: str, tmp_path: Path) -> None:
    assert name_of_model(put(tmp_path / "7" / path)) == name


def test_the_name_of_a_directory_has_no_ending(tmp_path: Path) -> None:
    put(tmp_path / "net.v2" / "saved_model.pb")
    assert name_of_model(tmp_path / "net.v2") == "net-v2"


def _fill(work: Path) -> None:
    put(work / "net.onnx", b"\x08")
    put(work / "text.mlir", b"module {}")
    put(work / "pickle.pkl", b"\x80\x04\0")
    put(work / "spec.yaml", b"model: {name: a}")
    put(work / "spec", b"model: {name: a}")
    put(work / "data.json", b"{}")
    put(work / "saved" / "saved_model.pb")
    put(work / "saved" / "config.json", b"{}")
    put(work / "both" / "saved_model.pb")
    put(work / "both" / "net.yaml", b"model: {name: a}")
    put(work / "one" / "net.onnx")
    put(work / "one" / "net.onnx_data")
    put(work / "specs" / "a.yaml")
    put(work / "specs" / "net.onnx")
    (work / "empty").mkdir()


@pytest.mark.parametrize(
    ("word", "model"),
    [
        *((name, True) for name in ("net.onnx", "text.mlir", "pickle.pkl", "saved", "one")),
        *((name, False) for name in ("spec.yaml", "spec", "data.json", "both", "specs", "empty")),
        *((name, False) for name in ("*.yaml", "*.onnx", "nothing", "nothing.yaml")),
        ("nothing.onnx", True),
    ],
)
def test_what_is_a_model(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, model: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    _fill(tmp_path)
    assert is_model(word) is model
    assert has_both(word) is (word == "both")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("net.onnx", "net.onnx is a model, and this takes specs: `modelwheel new NAME --model"),
        ("saved", "saved is a model, and this takes specs"),
        ("nett.onnx", r"there is no model 'nett.onnx'; did you mean 'net.onnx'\?"),
        ("empty/net.onnx", "there is no model 'empty/net.onnx'; correct the path"),
    ],
)
def test_models_among_specs(
    word: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _fill(tmp_path)
    with pytest.raises(SpecError, match=f"(?i){said}"):
        find_specs([word])


def make(path: Path, found: ModelDescription | None = None, **fields: Any) -> Spec:
    return make_bare(with_fields(bare_values("net", path, found), fields), path)


def test_the_spec_of_a_file(tmp_path: Path) -> None:
    path = put(tmp_path / "net.onnx")
    spec = make(path, BATCHED, verify={"rows": 8}, compilation={"namespace": "nets"})
    assert spec.is_bare
    assert spec.path == path
    assert isinstance(spec.origin, DirectorySource)
    assert spec.origin.location == path
    assert spec.model.serving_key == "serve"
    assert spec.compilation.batch_sizes is None
    assert (spec.compilation.namespace, spec.verify.rows) == ("nets", 8)


def test_the_spec_of_a_directory(tmp_path: Path) -> None:
    put(tmp_path / "net" / "saved_model.pb")
    spec = make(tmp_path / "net")
    assert isinstance(spec.origin, DirectorySource)
    assert spec.origin.location == tmp_path / "net"


def test_the_place_of_a_model_does_not_count(tmp_path: Path) -> None:
    one, two = (make(put(tmp_path / place / "net.onnx"), BATCHED) for place in ("a", "b/c"))
    assert one.spec_digest() == two.spec_digest()


def test_the_text_is_the_same_spec(tmp_path: Path) -> None:
    ports = {"feeds": {"x": "input:0", "a": "b"}, "fetches": {"y": "out:0"}, "constants": {}}
    found = ModelDescription(("serve",), "serve", BATCHED.inputs, (), ports)
    spec = make(put(tmp_path / "net.pb"), found, targets=["x86-64"], keep_state=True)
    text = spec_text(spec)
    again = load_spec(put(tmp_path / "net.yaml", text.encode()))
    assert again.spec_digest() == spec.spec_digest()
    assert again.origin.format_options == spec.origin.format_options
    assert not again.is_bare


def test_what_was_measured_for_another_spec_does_not_count(tmp_path: Path) -> None:
    path = put(tmp_path / "net.onnx")
    put(tmp_path / "net.tune.json", b"not even JSON")
    make_request(make(path, BATCHED, targets=["x86-64", "armv8-a"]))


def test_mistakes_in_fields_are_listed(tmp_path: Path) -> None:
    path = put(tmp_path / "net.onnx")
    with pytest.raises(SpecError) as caught:
        make(path, BATCHED, targets=["x86"], verify={"row": 1})
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{path}: targets[0]: 'x86' is not a known CPU level")
    assert second.startswith(f"{path}: verify.row")
