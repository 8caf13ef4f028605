"""Models whose rows are not on axis 0: references of each format, and a wheel called from Python and C."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.inspection import ColumnValues
from modelwheel.model.readings import OnnxReading, Reading, SavedModelReading, StableHloReading
from modelwheel.model.reference_result import Reference
from modelwheel.workers.jobs import ReferenceRequest
from tests.models.time_major import STABLEHLO, expected
from tests.support.commands import Modelwheel
from tests.support.laboratory import Laboratory, run_script
from tests.support.wheels import unpack

pytestmark = pytest.mark.slow

SHAPES: dict[str, tuple[int | None, ...]] = {"x": (3, None, 2), "h": (1, None)}
AXES = {"last": 1, "pairs": 1, "y": 2}

READINGS: dict[str, Reading] = {
    "saved_model": SavedModelReading(),
    "onnx": OnnxReading(file="model.onnx"),
    "jax": StableHloReading(file="model.jax"),
}
NAMED = ("onnx", "jax")
"""The formats that give the batch a name; the specs of the others have to say which axis it is."""

SPEC = """\
model: {name: scattered, version: "1.0.0"}
source: {directory: ., path: model.mlir}
targets: [x86-64-v3]
compilation: {batch_sizes: [1, 4]}
inputs:
  arg0: {shape: [3, batch, 2]}
  arg1: {shape: [1, batch]}
package: {license: MIT}
"""


def _refer(
    laboratory: Laboratory, directory: Path, name: str, **changes: Any
) -> tuple[Path, Reference]:
    if importlib.util.find_spec(name) is None and name in NAMED:
        pytest.skip(f"{name} is not installed")
    run_script("time_major", directory, name)
    request = ReferenceRequest(
        reading=READINGS[name],
        signature="serving_default",
        **{"batch_sizes": (1, 4), "shapes": {} if name in NAMED else SHAPES, **changes},
    )
    out = laboratory.run(request.job(directory, laboratory.new_directory()))
    return out, Reference.load(out / "reference.json")


@pytest.mark.parametrize("name", READINGS)
def test_a_reference_has_rows_first(laboratory: Laboratory, tmp_path: Path, name: str) -> None:
    out, summary = _refer(laboratory, tmp_path, name)
    assert (summary.independent, summary.reason) == (True, None)
    assert sorted(summary.batched_inputs) == ["h", "x"]
    assert summary.input_axes == {"x": 1, "h": 1}
    assert summary.output_axes == AXES
    assert summary.leading_per_row == {"last": 1, "pairs": 2, "power": 1, "y": 1}
    assert summary.truth.missing is None
    assert {error.output for error in summary.truth.framework} == {*AXES, "power"}
    with np.load(out / "reference.npz") as arrays:
        x, h = arrays["in/x"], arrays["in/h"]
        assert (x.shape[1:], h.shape[1:]) == ((3, 2), (1,))
        for rows in summary.rows:
            found = expected(x[:rows].transpose(1, 0, 2), h[:rows].T)
            for output, values in found.items():
                moved = np.moveaxis(values, AXES.get(output, 0), 0)
                np.testing.assert_allclose(arrays[f"out/{rows}/{output}"], moved, rtol=1e-5)


def test_real_rows_have_the_axes_of_the_model(laboratory: Laboratory, tmp_path: Path) -> None:
    x = np.random.default_rng(3).normal(size=(3, 5, 2)).astype(np.float32)
    h = np.arange(5, dtype=np.float32)[None]
    np.savez(tmp_path / "samples.npz", x=x, h=h)
    out, summary = _refer(laboratory, tmp_path, "saved_model", samples="samples.npz")
    assert summary.sampled
    with np.load(out / "reference.npz") as arrays:
        assert np.array_equal(arrays["in/x"][:5], x.transpose(1, 0, 2))
        assert np.array_equal(arrays["in/h"][5:7], h.T[:2])  # they start over
    np.savez(tmp_path / "samples.npz", x=x.transpose(1, 0, 2), h=h)
    with pytest.raises(UnsupportedModelError, match=r"\[5, 3, 2\], .* takes \[3, rows, 2\]"):
        _refer(laboratory, tmp_path, "saved_model", samples="samples.npz")


def test_an_axis_without_a_name_is_not_guessed(laboratory: Laboratory, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match=r"'[xh]' has the free axis 1"):
        _refer(laboratory, tmp_path, "saved_model", shapes={})


def test_an_axis_with_the_name_of_a_batch_may_not_be_one(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """Of points, `N` is the number: each is compared with the mean of all."""
    onnx = pytest.importorskip("onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    x, y = (helper.make_tensor_value_info(name, float32, [3, "N"]) for name in "xy")
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1]),
        helper.make_node("Sub", ["x", "mean"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "points", [x], [y])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), tmp_path / "model.onnx")

    def refer(shapes: dict[str, tuple[int | None, ...]]) -> Reference:
        request = ReferenceRequest(
            reading=READINGS["onnx"],
            signature="serving_default",
            batch_sizes=(1, 4),
            shapes=shapes,
        )
        out = laboratory.run(request.job(tmp_path, laboratory.new_directory()))
        return Reference.load(out / "reference.json")

    said = (
        r"axis 1 of input 'x' is called 'N', .* a row of output 'y' changes .*shape: \[3, batch\]$"
    )
    with pytest.raises(UnsupportedModelError, match=said):
        refer({})
    summary = refer({"x": (3, None)})
    assert (summary.independent, summary.rows) == (False, (1, 4))


def test_columns_of_the_batch_have_no_bounds(laboratory: Laboratory, tmp_path: Path) -> None:
    columns = {"h": (ColumnValues(first=0, end=1, low=0, high=1),)}
    with pytest.raises(UnsupportedModelError, match=r"the batch; .* verify\.ranges\.h$"):
        _refer(laboratory, tmp_path, "saved_model", columns=columns)


@pytest.fixture(scope="module")
def package(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The Python package of a wheel made from a StableHLO module."""
    directory = tmp_path_factory.mktemp("scattered")
    (directory / "model.mlir").write_text(STABLEHLO, encoding="utf-8")
    (directory / "scattered.yaml").write_text(SPEC, encoding="utf-8")
    (result,) = modelwheel.build(directory / "scattered.yaml", "--out", directory / "dist")
    assert result["wheel"] is not None, result
    sys.path.append(str(unpack(Path(result["wheel"]), directory / "packages")))
    return importlib.import_module("model_scattered")


def _inputs(rows: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    random = np.random.default_rng(rows)
    x, h = random.normal(size=(3, rows, 2)), random.normal(size=(1, rows))
    return x.astype(np.float32), h.astype(np.float32)


def _results(rows: int) -> list[np.ndarray[Any, Any]]:
    values = expected(*_inputs(rows))
    return [values["last"], values["power"], values["y"]]


def test_the_interface_says_which_axis_is_the_batch(package: Any) -> None:
    assert [spec.batch_axis for spec in package.Model.inputs] == [1, 1]
    assert [spec.batch_axis for spec in package.Model.outputs] == [1, 0, 2]
    assert [spec.shape for spec in package.Model.outputs] == [(1, None), (None,), (2, 3, None)]
    assert "arg0: float32 [3, batch, 2]" in repr(package.Model())
    header = Path(package.get_include(), "model_scattered.h").read_text(encoding="utf-8")
    assert "result2: float32 [2, 3, batch]" in header


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 7, 11])
def test_any_number_of_rows_from_python(package: Any, rows: int, threads: int) -> None:
    model = package.Model(threads=threads)
    found = model(*_inputs(rows))
    for array, values in zip(found.values(), _results(rows), strict=True):
        np.testing.assert_allclose(array, values, rtol=2e-6, atol=1e-7)
    bound = model.bind(*_inputs(rows), out={name: np.empty_like(a) for name, a in found.items()})
    assert all(np.array_equal(a, found[name]) for name, a in bound().items())
    for rule in (f"{rows}:" + ",".join(["4"] * -(-rows // 4)), f"{rows}:" + ",".join("1" * rows)):
        if rows:
            model.set_batch_rule(rule)
            again = model(*_inputs(rows))
            assert all(np.allclose(a, found[name], 1e-6, 1e-7) for name, a in again.items())


def test_one_row_without_its_axis_is_refused(package: Any) -> None:
    x, h = _inputs(1)
    with pytest.raises(ValueError, match=r"\(3, batch, 2\), got .* pass array\[:, None\]"):
        package.Model()(x[:, 0], h)
    with pytest.raises(ValueError, match="'arg0' has 2 and 'arg1' has 1"):
        package.Model()(np.repeat(x, 2, axis=1), h)


def test_any_number_of_rows_from_c(package: Any) -> None:
    library = ctypes.CDLL(package.get_library())
    prefix = "model_scattered_"
    model, problem = ctypes.c_void_p(), ctypes.create_string_buffer(256)
    create, run = library[f"{prefix}create"], library[f"{prefix}run"]
    run.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    assert create(None, ctypes.byref(model), problem, ctypes.c_size_t(256)) == 0, problem.value
    for rows in (1, 3, 4, 7, 11):
        inputs, results = _inputs(rows), _results(rows)
        outputs = [np.full(values.shape, np.nan, values.dtype) for values in results]
        pointers = [
            (ctypes.c_void_p * len(a))(*(b.ctypes.data for b in a)) for a in (inputs, outputs)
        ]
        assert run(model, rows, *pointers) == 0
        for found, values in zip(outputs, results, strict=True):
            np.testing.assert_allclose(found, values, rtol=2e-6, atol=1e-7)
    library[f"{prefix}destroy"](model)
