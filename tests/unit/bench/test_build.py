"""What the peers of a wheel read."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.bench import build as module
from modelwheel.engine.build import BuildResult
from modelwheel.request import make_request
from modelwheel.source import fetch as source
from modelwheel.spec import load_spec
from modelwheel.store.store import Store


@pytest.mark.parametrize(
    ("place", "file"),
    [("directory: held", "net.onnx"), ("directory: held, path: net.onnx", "net.onnx")],
)
def test_peers_get_the_file_that_a_directory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, file: str
) -> None:
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "net.onnx").write_bytes(b"onnx")
    spec = tmp_path / "net.yaml"
    spec.write_text(f'model: {{name: net, version: "1.0.0"}}\nsource: {{{place}}}\n')
    monkeypatch.setattr(module, "stored_programs", lambda *_: {})
    store = Store(tmp_path / "store")
    request = make_request(load_spec(spec))
    # As a build does, which finds out what the directory holds.
    held = request.holding(source.fetch(request.spec.origin, store).file)
    result = BuildResult(held)
    result.wheel = tmp_path / "model_net-1.0.0-py3-none-any.whl"
    contender = module._contender(result, store, module._Stopwatch())
    assert contender is not None
    assert contender.files["onnx"].name == file
    assert contender.files["onnx"].read_bytes() == b"onnx"
    store.close()
