"""The reference set of `make bench`: its specs are valid, and what a converter says is in the cells."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from modelwheel.spec import load_specs
from tests.bench import __main__ as bench


def test_every_model_is_a_network_or_a_shared_model() -> None:
    tree = ast.parse((bench.ROOT / "tests/bench/networks.py").read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    own = [name for name, one in bench.SET.items() if one.shared is None]
    assert functions.issuperset(own)
    assert set(bench.QUICK) <= set(own)
    assert sum(map(len, bench.QUICK.values())) == 6


@pytest.mark.parametrize("name", bench.SET)
def test_its_spec_is_valid(name: str, tmp_path: Path) -> None:
    (spec,) = load_specs([bench.write_spec(name, "x86-64-v3", tmp_path)])
    assert tuple(spec.compilation.batch_sizes or ()) == bench.SET[name].rows
    assert spec.model.name == name.replace("_", "-")


def test_what_a_converter_says_is_kept(tmp_path: Path) -> None:
    own = tmp_path / "gru"
    own.mkdir()
    said = {"model.tflite": "ConverterError: no lists"}
    (own / "failures.json").write_text(json.dumps(said))
    files, failures = bench.files_of("gru", tmp_path)
    assert files == {"saved_model": own / "saved_model", "onnx": own / "model.onnx"}
    assert failures == {"tflite": "the converter failed: ConverterError: no lists"}


def test_unknown_models_are_refused() -> None:
    with pytest.raises(SystemExit, match="no model resnet51; there are mlp"):
        bench.main(["resnet51"])
