"""Programs of `torch.export.save`: equal to PyTorch's numbers, and judged before PyTorch sees them."""

from __future__ import annotations

import importlib.util
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.compiler.formats.pytorch.pt2_file import read_program
from modelwheel.errors import EnvironmentProblemError, UnsupportedModelError
from modelwheel.model.inspection import Inspection
from modelwheel.model.readings import PyTorchReading
from modelwheel.model.reference_result import Reference
from modelwheel.workers.jobs import FreezeRequest, InspectRequest, ReferenceRequest
from tests.models.hostile_torch import LEAF, torch_program
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow

_TENSOR = {"dtype": 7, "sizes": [{"as_expr": {"expr_str": "Symbol('s77', positive=True)"}}]}


def _write(
    path: Path, program: Any, members: dict[str, bytes] | None = None, weights: Any = None
) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/models/model.json", json.dumps(program))
        archive.writestr(
            "m/data/weights/model_weights_config.json", json.dumps({"config": weights or {}})
        )
        archive.writestr("m/data/constants/model_constants_config.json", '{"config": {}}')
        for name, content in (members or {}).items():
            archive.writestr(name, content)


def _target(program: dict[str, Any], target: str) -> None:
    program["graph_module"]["graph"]["nodes"][0]["target"] = target


def _size(program: dict[str, Any], size: str) -> None:
    program["graph_module"]["graph"]["tensor_values"]["x"] = {
        **_TENSOR,
        "sizes": [{"as_expr": {"expr_str": size}}],
    }


def _container(program: dict[str, Any], kind: str) -> None:
    spec = {"type": kind, "context": "null", "children_spec": [LEAF]}
    (call,) = program["graph_module"]["module_call_graph"]
    call["signature"]["in_spec"] = json.dumps([1, spec])


def test_inputs_and_outputs_have_the_order_of_the_program(tmp_path: Path) -> None:
    names = ["zeta", "alpha", *(f"x{n}" for n in range(10, 0, -1))]
    program = torch_program()
    graph = program["graph_module"]
    graph["graph"]["tensor_values"] = dict.fromkeys(names, _TENSOR)
    arguments = [{"arg": {"as_tensor": {"name": name}}} for name in names]
    graph["signature"] = {
        "input_specs": [{"user_input": argument} for argument in arguments],
        "output_specs": [{"user_output": argument} for argument in arguments],
    }
    keys = [f"y{n}" for n in range(12, 0, -1)]
    leaves = [LEAF] * len(keys)
    returned = {"type": "builtins.dict", "context": json.dumps(keys), "children_spec": leaves}
    graph["module_call_graph"][0]["signature"]["out_spec"] = json.dumps([1, returned])
    _write(tmp_path / "ordered.pt2", program)
    read = read_program(tmp_path / "ordered.pt2")
    assert [tensor.name for tensor in read.inputs] == names
    assert [tensor.name for tensor in read.outputs] == keys


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "target": (
        lambda p: _target(p, "torch.hub.load"),
        "'torch.hub.load', which is not an operation",
    ),
    "builtin": (
        lambda p: _target(p, "_operator.methodcaller"),
        "which is not an operation of ATen",
    ),
    "expression": (
        lambda p: _size(p, "__import__('os').system('id')"),
        "has a size \"__import__('os').system('id')\" that is not arithmetic",
    ),
    "container": (lambda p: _container(p, "collections.defaultdict"), "a collections.defaultdict"),
    "operator": (
        lambda p: p["graph_module"]["graph"]["nodes"][0].update(as_operator="torch.load"),
        "neither a tensor nor a number",
    ),
}


def _refusal(laboratory: Laboratory, directory: Path) -> str:
    with pytest.raises(UnsupportedModelError) as caught:
        _inspect(laboratory, directory, "evil.pt2")
    return str(caught.value)


def _inspect(laboratory: Laboratory, directory: Path, file: str) -> Inspection:
    request = InspectRequest(reading=PyTorchReading(file=file))
    out = laboratory.run(request.job(directory, laboratory.new_directory()))
    return Inspection.load(out / "inspection.json")


@pytest.mark.parametrize("name", HOSTILE)
def test_what_pytorch_would_evaluate_is_refused(
    laboratory: Laboratory, tmp_path: Path, name: str
) -> None:
    change, expected = HOSTILE[name]
    program = torch_program()
    change(program)
    _write(tmp_path / "evil.pt2", program)
    assert expected in _refusal(laboratory, tmp_path)


@pytest.mark.parametrize(
    "member", ["m/data/aotinductor/model/a.so", "m/data/constants/custom_obj_0", "m/extra/x.py"]
)
def test_what_pytorch_would_load_is_refused(
    laboratory: Laboratory, tmp_path: Path, member: str
) -> None:
    _write(tmp_path / "evil.pt2", torch_program(), {member: b"evil"})
    assert f"holds {member!r}, which modelwheel does not load" in _refusal(laboratory, tmp_path)


def test_pickled_tensors_and_damage_are_refused(laboratory: Laboratory, tmp_path: Path) -> None:
    _write(tmp_path / "evil.pt2", torch_program(), weights={"w": {"use_pickle": True}})
    assert "the tensor 'w' as a pickle" in _refusal(laboratory, tmp_path)
    (tmp_path / "evil.pt2").write_bytes(b"PK\x03\x04")
    assert "evil.pt2 is damaged" in _refusal(laboratory, tmp_path)


def test_without_pytorch_the_extra_is_named(laboratory: Laboratory, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is not None:
        pytest.skip("torch is installed")
    _write(tmp_path / "evil.pt2", torch_program())
    with pytest.raises(EnvironmentProblemError, match=r"pip install 'modelwheel\[pytorch\]'"):
        _inspect(laboratory, tmp_path, "evil.pt2")


def test_a_program_computes_what_pytorch_does(laboratory: Laboratory, tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    run_script("torch_programs", tmp_path)
    found = _inspect(laboratory, tmp_path, "small.pt2")
    (signature,) = found.signatures
    assert {t.name: t.shape for t in signature.inputs} == {
        "image": (None, 3, 8, 8),
        "scale": (),
    }
    assert [t.name for t in signature.outputs] == ["logits", "best", "spread"]
    request = FreezeRequest(
        reading=PyTorchReading(file="small.pt2"), signature="serving_default", batch=3
    )
    out = laboratory.run(request.job(tmp_path, laboratory.new_directory()))
    shutil.copy(tmp_path / "reference.npz", out)
    (difference,) = json.loads(run_script("run_graphs", out)).values()
    assert difference < 2e-6
    _check_reference(laboratory, tmp_path)


def _check_reference(laboratory: Laboratory, directory: Path) -> None:
    """The reference is what PyTorch computes for the program itself."""
    request = ReferenceRequest(
        reading=PyTorchReading(file="small.pt2"), signature="serving_default", batch_sizes=(2, 3)
    )
    out = laboratory.run(request.job(directory, laboratory.new_directory()))
    summary = Reference.load(out / "reference.json")
    assert summary.evaluator.startswith("PyTorch ")
    assert summary.independent
    with np.load(out / "reference.npz") as arrays:
        assert arrays["out/3/logits"].shape == (3, 5)
        sums = arrays["out/3/spread"].sum(axis=1)
        np.testing.assert_allclose(sums, 1, rtol=1e-6)
