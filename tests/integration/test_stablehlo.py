"""StableHLO modules and what `jax.export` writes: read, judged, and equal to JAX's own numbers."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.check import Expected, check_signature
from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.model.inspection import Inspection
from modelwheel.model.readings import StableHloReading
from modelwheel.model.reference_result import Reference
from modelwheel.workers.jobs import FreezeRequest, InspectRequest, ReferenceRequest
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow

_MAIN = (
    "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{}\n  return %y : tensor<4xf32>\n}}\n"
)
_CALLS = "".join(
    f"func.func private @f{n}(%x: tensor<4xf32>) -> tensor<4xf32> {{\n"
    f"  %y = call @f{n + 1}(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"
    f"  %z = call @f{n + 1}(%y) : (tensor<4xf32>) -> tensor<4xf32>\n"
    "  return %z : tensor<4xf32>\n}\n"
    for n in range(50)
)

REFUSED = {
    "custom_call": (
        _MAIN.format("%y = stablehlo.custom_call @evil(%x) : (tensor<4xf32>) -> tensor<4xf32>"),
        "custom_call @evil in 'main %0'",
    ),
    "callback": (
        _MAIN.format(
            "%y = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) : (tensor<4xf32>) -> tensor<4xf32>"
        ),
        "runs Python code",
    ),
    "collective": (
        _MAIN.format(
            '%y = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, '
            "replica_groups = dense<0> : tensor<1x1xi64>} : (tensor<4xf32>) -> tensor<4xf32>"
        ),
        "uses the network: stablehlo.all_gather",
    ),
    "outfeed": (
        _MAIN.format(
            '%t = stablehlo.create_token : !stablehlo.token\n%u = "stablehlo.outfeed"(%x, %t) '
            ": (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token\n%y = stablehlo.abs %x : tensor<4xf32>"
        ),
        "talks to a device: stablehlo.outfeed",
    ),
    "constant": (
        _MAIN.format(
            "%c = stablehlo.constant dense<1.0> : tensor<4x1048576x1048576xf32>\n"
            "%y = stablehlo.abs %x : tensor<4xf32>"
        ),
        "a tensor of 4.4e+12 elements at node '%cst'",
    ),
    "calls": (
        _MAIN.format("%y = call @f0(%x) : (tensor<4xf32>) -> tensor<4xf32>")
        + _CALLS
        + "func.func private @f50(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n",
        "when its calls are inlined (calls go down to 'f50')",
    ),
    "recursion": (
        _MAIN.format("%y = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>"),
        "'main' calls itself",
    ),
    "nameless": (
        "func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %x : tensor<4xf32>\n}\n",
        "has no function `main` (its functions: forward)",
    ),
    "unknown": (_MAIN.format("%y = my.op %x : tensor<4xf32>"), "nknown.mlir is not a StableHLO module"),
    "broken": (
        _MAIN.format("%y = stablehlo.abs %x : tensor<5xf32>"),
        "line 2, column 20: use of value '%x' expects different type",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the functions of `tests/models/exported.py`."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    directory = tmp_path_factory.mktemp("exported")
    run_script("exported", directory)
    return directory


def _inspect(laboratory: Laboratory, directory: Path, file: str) -> Inspection:
    request = InspectRequest(reading=StableHloReading(file=file))
    out = laboratory.run(request.job(directory, laboratory.new_directory()))
    return Inspection.load(out / "inspection.json")


def _errors(laboratory: Laboratory, directory: Path, file: str) -> list[str]:
    try:
        found = _inspect(laboratory, directory, file)
    except UnsupportedModelError as error:
        return [str(error)]
    findings = check_signature(found, Expected())
    return [str(finding) for finding in findings if finding.severity == "error"]


def _interface(found: Inspection) -> tuple[dict[str, Any], dict[str, Any]]:
    (signature,) = found.signatures
    assert signature.key == "serving_default"
    return (
        {t.name: (t.dtype, t.shape) for t in signature.inputs},
        {t.name: (t.dtype, t.shape) for t in signature.outputs},
    )


@pytest.mark.parametrize(("name", "sizes"), [("nested", (1, 3)), ("chain", ()), ("types", ())])
def test_an_exported_function_computes_what_jax_does(
    laboratory: Laboratory, exported: Path, name: str, sizes: tuple[int, ...]
) -> None:
    request = ReferenceRequest(
        reading=StableHloReading(file=f"{name}.jax"),
        signature="serving_default",
        batch_sizes=sizes,
        rows=(3,) if sizes else (1,),
    )
    out = laboratory.run(request.job(exported, laboratory.new_directory()))
    found = json.loads(run_script("exported", exported, name, out / "reference.npz"))
    assert found
    assert max(found.values()) < 2e-6, found


def test_the_truth_of_an_exported_function_is_numpy_s(
    laboratory: Laboratory, exported: Path
) -> None:
    request = ReferenceRequest(
        reading=StableHloReading(file="waves.jax"), signature="serving_default", batch_sizes=(3,)
    )
    out = laboratory.run(request.job(exported, laboratory.new_directory()))
    truth = Reference.load(out / "reference.json").truth
    assert (truth.missing, truth.without) == (None, {})
    weights = np.load(exported / "weights.npy").astype(np.float64)
    with np.load(out / "reference.npz") as arrays:
        hidden = np.tanh(arrays["in/arg0"][:3].astype(np.float64) @ weights)
        for n, expected in enumerate((hidden, np.fft.rfft(hidden))):
            found = arrays[f"out/3/result{n}"].astype(expected.dtype) + arrays[f"exact/3/result{n}"]
            assert np.abs(found - expected).max() < 1e-12


def test_valid_values_follow_from_the_module(laboratory: Laboratory, exported: Path) -> None:
    (signature,) = _inspect(laboratory, exported, "embedded.jax").signatures
    found = {t.name: str(t.valid).partition(" in ")[0] for t in signature.inputs}
    assert found == {
        "axis": "0 <= x < 4 (stablehlo.gather",
        "both": "-1 <= x[0] < 39, 0 <= x[1] < 40 (stablehlo.gather",
        "classes": "0 <= x < 7 (stablehlo.compare",
        "free": "None",
        "mixed": "0 <= x[3] < 40 (stablehlo.gather",
        "start": "0 <= x < 36 (stablehlo.dynamic_slice",
        "tokens": "0 <= x < 40 (stablehlo.gather",
    }


def test_names_are_the_keys_of_arguments_and_results(
    laboratory: Laboratory, exported: Path
) -> None:
    inputs, outputs = _interface(_inspect(laboratory, exported, "nested.jax"))
    assert inputs == {
        "image": ("float32", (None, 4)),
        "scale": ("float32", ()),
        "unused": ("float32", (None, 2)),
    }
    assert outputs == {
        "best_0": ("float32", (None, 2)),
        "best_1": ("int32", (None, 2)),
        "sorted": ("float32", (None, 4)),
        "total": ("float32", (None,)),
    }


@pytest.mark.parametrize("file", ["chain.jax", "chain.mlir", "chain.mlirbc"])
def test_every_form_of_a_module_is_read_alike(
    laboratory: Laboratory, exported: Path, file: str
) -> None:
    found = _inspect(laboratory, exported, file)
    inputs, outputs = _interface(found)
    assert inputs.pop("arg2", None) == (("float32", (5,)) if file == "chain.jax" else None)
    assert inputs == {"arg0": ("float32", (2, 4)), "arg1": ("int32", (1,))}
    assert outputs == {"result0": ("float32", (4,)), "result1": ("float32", (2, 4))}
    kinds = {use.op: use.count for use in found.ops}
    assert kinds.keys() >= {"stablehlo.while", "stablehlo.case", "stablehlo.reduce_window"}
    assert not [use for use in found.ops if use.support != "compiled" or use.effect]


def _freeze(
    laboratory: Laboratory, directory: Path, file: str, batch: int | None
) -> FrozenSignature:
    request = FreezeRequest(
        reading=StableHloReading(file=file),
        signature="serving_default",
        batch=batch,
        allow_pruned_inputs=True,
    )
    out = laboratory.run(request.job(directory, laboratory.new_directory()))
    return FrozenSignature.load(out / "signature.json")


def test_each_batch_size_is_a_graph(laboratory: Laboratory, exported: Path) -> None:
    for batch in (1, 4):
        signature = _freeze(laboratory, exported, "nested.jax", batch)
        assert signature.batched_inputs == ("image", "unused")
        assert [t.shape for t in signature.inputs] == [(batch, 4), (batch, 2), ()]
        assert {t.name: t.shape for t in signature.outputs} == {
            "best_0": (batch, 2),
            "best_1": (batch, 2),
            "sorted": (batch, 4),
            "total": (batch,),
        }


def test_an_argument_that_jax_left_out_is_pruned(laboratory: Laboratory, exported: Path) -> None:
    assert _freeze(laboratory, exported, "chain.jax", None).pruned_inputs == ("arg2",)


def test_squares_wrap_in_a_saved_model_of_jax(
    laboratory: Laboratory, exported: Path, tmp_path: Path
) -> None:
    """They are not negative for XLA's simplifier, in the wheel and in the reference."""
    own = Laboratory(exported, tmp_path, laboratory.pool)
    directory, _ = own.refer("squares", batch_sizes=(4,), ranges={"x": (-128, 127)})
    with np.load(directory / "reference.npz") as arrays:
        x, size, sign = (arrays[name] for name in ("in/x", "out/4/size", "out/4/sign"))
    square = (x[: len(size)].astype(np.int64) ** 2).astype(np.int8)
    assert (square < 0).any()
    np.testing.assert_array_equal(size, np.abs(square))
    np.testing.assert_array_equal(sign, square >= 0)


def test_what_needs_lapack_is_refused_with_its_name(laboratory: Laboratory, exported: Path) -> None:
    (error,) = _errors(laboratory, exported, "inverse.jax")
    assert "custom_call @lapack_sgetrf_ffi" in error
    assert "no LAPACK" in error


@pytest.mark.parametrize("name", REFUSED)
def test_a_module_that_cannot_be_compiled_is_refused_before_it_runs(
    laboratory: Laboratory, tmp_path: Path, name: str
) -> None:
    text, expected = REFUSED[name]
    (tmp_path / f"{name}.mlir").write_text(text)
    errors = _errors(laboratory, tmp_path, f"{name}.mlir")
    assert expected in errors[0]
    assert "\n" not in errors[0]


def test_a_damaged_artifact_is_refused(
    laboratory: Laboratory, exported: Path, tmp_path: Path
) -> None:
    content = (exported / "nested.jax").read_bytes()
    (tmp_path / "cut.jax").write_bytes(content[: len(content) // 2])
    (tmp_path / "cut.mlirbc").write_bytes((exported / "chain.mlirbc").read_bytes()[:900])
    assert "cut.jax is damaged" in str(_errors(laboratory, tmp_path, "cut.jax"))
    assert "cut.mlirbc is not a StableHLO module" in str(
        _errors(laboratory, tmp_path, "cut.mlirbc")
    )
