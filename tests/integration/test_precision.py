"""Wheels against the same model in float64: whose error it is, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import shutil
import zipfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.accuracy import BOUNDARIES
from modelwheel.platforms import machine
from modelwheel.sandbox.choose import choose_sandbox
from modelwheel.sandbox.policy import Policy
from modelwheel.verify.environment import install_wheel
from modelwheel.verify.selftest import emulate_skipped
from modelwheel.wheelfile.reports import Report
from tests.support.commands import Modelwheel
from tests.support.laboratory import Laboratory, run_script
from tests.support.wheels import LOWEST, unpack

pytestmark = pytest.mark.slow

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {name}{file}}}
targets: [{level}]
compilation: {{batch_sizes: [2]}}
verify: {verify}
"""

_VERIFY = {
    "leaking": "{}",
    # Nothing is allowed beyond TensorFlow's own rounding.
    "precise": "{tolerance: {rtol: 1.0e-9}, outputs: {sensitive: {rtol: 1.0e-6}}, error_factor: 1.5}",
    "chaotic": "{}",
    "onnx": "{tolerance: {rtol: 1.0e-9}, error_factor: 1.5}",
    # Nothing is asked for.
    "rounding": "{}",
}
_ONNX = ("onnx", "rounding")
_ONNX_MISSING = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]


_UNDEFINED = {"denormals": {"decided", "sensitive"}, "nan": {"decided"}}
_MATRIX = np.random.default_rng(9).normal(size=(16, 16)).astype(np.float32) / 4
WEIGHTS = np.random.default_rng(8).uniform(1.0, 2.0, 16).astype(np.float32)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the models."""
    made = tmp_path_factory.mktemp("precision")
    np.save(made / "weights.npy", WEIGHTS)
    run_script("precision", made)
    return made


@pytest.fixture(scope="module")
def results(directory: Path, modelwheel: Modelwheel) -> dict[str, Any]:
    """What building all models says, by name."""
    for name, verify in _VERIFY.items():
        if name in _ONNX and _ONNX_MISSING:
            continue
        file = ", path: model.onnx" if name in _ONNX else ""
        text = _SPEC.format(name=name, file=file, level=LOWEST, verify=verify)
        (directory / f"{name}.yaml").write_text(text, encoding="utf-8")
    if not _ONNX_MISSING:
        _write_onnx(directory / "onnx" / "model.onnx")
        _write_rounding(directory / "rounding" / "model.onnx")
    built = modelwheel.build(directory, "--out", directory / "dist", code=9)
    return {result["model"].removesuffix("-1.0.0"): result for result in built}


def _write_onnx(path: Path) -> None:
    import onnx
    from onnx import helper

    from tests.support.onnx_models import model_of, random

    node = helper.make_node("Mul", ["x", "weights"], ["y"])
    path.parent.mkdir()
    onnx.save(model_of([node], {"x": random(2, 16)}, ["y"], {"weights": WEIGHTS}), path)


def _write_rounding(path: Path) -> None:
    """A sigmoid whose values are about a thousandth, and a product of which float16 is inside."""
    import onnx
    from onnx import TensorProto, helper

    from tests.support.onnx_models import model_of, random

    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["product"]),
        helper.make_node("Sub", ["product", "seven"], ["lower"]),
        helper.make_node("Sigmoid", ["lower"], ["share"]),
        helper.make_node("Cast", ["x"], ["x_half"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["weights"], ["w_half"], to=TensorProto.FLOAT16),
        helper.make_node("MatMul", ["x_half", "w_half"], ["p_half"]),
        helper.make_node("Tanh", ["p_half"], ["t_half"]),
        helper.make_node("Cast", ["t_half"], ["half"], to=TensorProto.FLOAT),
    ]
    constants = {"weights": _MATRIX, "seven": np.float32(7)}
    path.parent.mkdir()
    onnx.save(model_of(nodes, {"x": random(2, 16)}, ["share", "half"], constants), path)


def test_errors_are_attributed(results: dict[str, Any]) -> None:
    report = results["precise"]["report"]
    truth = report["truth"]
    assert (truth["missing"], truth["xla_missing"], truth["without"]) == (None, None, {})
    for who in (truth["framework"], truth["xla"], report["comparisons"]):
        assert {error["output"] for error in who} == {"decided", "scaled", "sensitive"}
    ordinary = [e for e in truth["framework"] if e["circumstance"] is None]
    scaled = [e for e in ordinary if e["output"] == "scaled"]
    # One multiplication: TensorFlow rounds once, by half a unit in the last place at most.
    assert all(0 < error["ulp"] <= 0.5 and error["changed"] == 0 for error in scaled)


def test_a_wheel_may_be_right_where_tensorflow_is_not(results: dict[str, Any]) -> None:
    """TensorFlow misses the truth by more than the tolerance, so that nothing could be near both."""
    report = results["precise"]["report"]
    assert report["passed"]
    sensitive = [c for c in report["comparisons"] if c["output"] == "sensitive"]
    own = max(e["relative"] for e in report["truth"]["framework"] if e["output"] == "sensitive")
    assert own > 1e-6
    assert max(c["relative"] for c in sensitive) > 1e-6
    # Beside extreme rows, results are compared with those beside others.
    assert all(c["exact"] for c in sensitive if c["circumstance"] != "beside extreme rows")


def test_rows_at_boundaries_are_compared_where_they_are_defined(results: dict[str, Any]) -> None:
    report = results["precise"]["report"]
    undefined = report["truth"]["undefined"]
    assert undefined == {
        # TensorFlow takes them for zeros.
        "denormals": "output 'decided': in float64 2 of 2 values differ, output 'sensitive': in float64 it "
        "differs by 1 of the largest value",
        # XLA takes NaN for the largest number, TensorFlow does not.
        "nan": "output 'decided': with XLA 2 of 2 values differ",
    }
    for who in (report["truth"]["framework"], report["comparisons"]):
        compared = {(e["circumstance"], e["output"]) for e in who}
        for kind in BOUNDARIES:
            defined = {"decided", "scaled", "sensitive"} - _UNDEFINED.get(kind, set())
            assert {output for other, output in compared if other == kind} == defined


def test_extreme_rows_leave_those_beside_them_alone(
    results: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    report = results["precise"]["report"]
    beside = [c for c in report["comparisons"] if c["circumstance"] == "beside extreme rows"]
    assert {(c["rows"], c["output"]) for c in beside} == {
        (2, "decided"), (2, "scaled"), (2, "sensitive"),
    }  # fmt: skip
    assert all(c["absolute"] == 0 for c in beside)
    monkeypatch.syspath_prepend(unpack(Path(results["precise"]["wheel"]), tmp_path))
    package = importlib.import_module("model_precise")
    reference = importlib.import_module("model_precise._reference")
    ways = importlib.import_module("model_precise._ways")

    class Leaking(package.Model):  # type: ignore[misc,name-defined]
        def predict(self, inputs: dict[str, Any]) -> Any:
            found = super().predict(inputs)
            return found | {"scaled": found["scaled"] + 0 * inputs["x"].sum()}

    samples = reference.load_samples()
    extremes = reference.load_boundary(samples)
    with np.errstate(invalid="ignore"):
        leaked = [
            not np.array_equal(found["scaled"].ravel(), sample.outputs["scaled"].values)
            for sample, found in ways.beside_extremes(Leaking(), samples, extremes)
        ]
    # Two rows of each kind in a batch of two, one after the other; infinity and NaN leak.
    assert leaked == [
        sample.circumstance in ("infinity", "nan") for sample in extremes for _ in (0, 1)
    ]


def test_rows_that_depend_on_extreme_ones_are_not_independent(results: dict[str, Any]) -> None:
    with zipfile.ZipFile(results["leaking"]["wheel"]) as archive:
        manifest = json.loads(archive.read("model_leaking/_manifest.json"))
    reason = manifest["batching"]["no_emulation_reason"]
    assert "a row of output 'y' changes when other rows are extreme" in reason
    kinds = set(manifest["verification"]["boundary"])
    assert {"zeros", "nan"} <= kinds
    assert manifest["verification"]["boundary_rows"] == 2


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 is not installed")
@pytest.mark.skipif(machine() != "x86_64", reason="levels are emulated by the same architecture")
def test_a_level_that_the_cpu_lacks_is_emulated(results: dict[str, Any], tmp_path: Path) -> None:
    wheel = Path(results["precise"]["wheel"])
    installed = install_wheel(wheel, "model_precise", tmp_path, choose_sandbox(Policy.PREFERRED))
    lacking = Report(passed=False, comparisons=(), skipped={LOWEST: "this CPU lacks it"})
    report = emulate_skipped(installed, lacking, None)
    assert (report.passed, report.emulated, report.skipped) == (True, (LOWEST,), {})
    assert len(report.comparisons) == len(results["precise"]["report"]["comparisons"])


@pytest.mark.parametrize(("name", "output"), [("precise", "scaled"), ("onnx", "y")])
def test_a_weight_that_changes_in_its_eighth_digit(
    results: dict[str, Any], modelwheel: Modelwheel, tmp_path: Path, name: str, output: str
) -> None:
    if name not in results:
        pytest.skip(f"{' and '.join(_ONNX_MISSING)} is not installed")
    wheel = Path(results[name]["wheel"])
    changed = tmp_path / wheel.name
    largest = WEIGHTS.max()
    above = np.nextafter(largest, np.float32(4))
    assert 0 < above / np.float64(largest) - 1 < 1.3e-7
    _replace(wheel, changed, largest.tobytes(), above.tobytes())
    done = modelwheel("verify", changed, code=9)
    assert f"output {output!r}" in done.err
    assert "the wheel computes something else" in done.err


def test_rounding_is_allowed_and_a_wrong_weight_is_not(
    results: dict[str, Any], modelwheel: Modelwheel, tmp_path: Path
) -> None:
    if "rounding" not in results:
        pytest.skip(f"{' and '.join(_ONNX_MISSING)} is not installed")
    built = results["rounding"]
    assert built["report"]["passed"], built["errors"]
    assert built["report"]["truth"]["scales"] == {"share": 1.0, "half": 1.0}
    assert built["report"]["truth"]["narrow"] == {"half": "float16"}
    wheel = Path(built["wheel"])
    changed = tmp_path / wheel.name
    weight = _MATRIX.ravel()[np.abs(_MATRIX).argmax()]
    _replace(wheel, changed, weight.tobytes(), np.float32(weight * 1.001).tobytes())
    done = modelwheel("verify", changed, code=9)
    assert "output 'share'" in done.err


def test_operations_without_kernels_for_float64(directory: Path, laboratory: Laboratory) -> None:
    jobs = Laboratory(directory, directory / "jobs", laboratory.pool)
    out, reference = jobs.refer("images")
    assert (reference.truth.missing, reference.truth.without) == (None, {})
    with np.load(out / "reference.npz") as arrays:
        x = arrays["in/x"][:4].astype(np.float64)
        exact = {
            name: arrays[f"out/4/{name}"].astype(np.float64) + arrays[f"exact/4/{name}"]
            for name in reference.leading_per_row
        }
    w = WEIGHTS.astype(np.float64)
    looped = x
    for step in range(2):
        looped = _resize(_resize(looped, (7, 6), "half_pixels"), (5, 4)) + step
    pixels = np.float32(np.abs(x) * 100).astype(np.uint8)
    expected = {
        "half_pixels": _resize(x, (9, 3), "half_pixels"),
        "corners": _resize(x, (8, 1), "corners"),
        "legacy": _resize(x, (3, 7)),
        "looped": looped,
        "pixels": _resize(pixels.astype(np.float64), (2, 11), "half_pixels"),
        "normal": (x - w[4:6]) / np.sqrt(w[6:8] + np.float32(1e-3)) * w[:2] + w[2:4],
    }
    filters = np.cos(np.arange(108, dtype=np.float32)).astype(np.float64).reshape(3, 2, 3, 3, 2)
    volume = _transposed(np.stack([x, x * 0.5, -x], 1), filters, (6, 9, 4), (2, 2, 1))
    expected["volume"] = _pooled(volume, (2, 3, 2), (2, 2, 1))
    shares = np.array([1.3, 0.3, 0.7], np.float32).astype(np.float64)
    expected["array"] = x * shares[0] - x * shares[1] * shares[2]
    assert exact.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(exact[name], values, rtol=0, atol=1e-12 * np.abs(values).max())


def _before(given: int, made: int, window: int, stride: int) -> int:
    """Zeros before the first element, where `given` windows cover `made` elements."""
    return max((given - 1) * stride + window - made, 0) // 2


def _transposed(
    x: np.ndarray[Any, Any],
    filters: np.ndarray[Any, Any],
    size: tuple[int, ...],
    strides: tuple[int, ...],
) -> Any:
    """The sums of all that elements of the input add to those that they reach."""
    made = np.zeros((len(x), *size, filters.shape[3]))
    before = list(map(_before, x.shape[1:4], size, filters.shape[:3], strides))
    for source in np.ndindex(*x.shape[1:4]):
        for tap in np.ndindex(*filters.shape[:3]):
            target = [
                s * n + t - b for s, n, t, b in zip(strides, source, tap, before, strict=True)
            ]
            if all(0 <= place < extent for place, extent in zip(target, size, strict=True)):
                places = (slice(None), *target), (slice(None), *source)
                made[places[0]] += x[places[1]] @ filters[tap].T
    return made


def _pooled(x: np.ndarray[Any, Any], window: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    given = x.shape[1:4]
    size = [-(-extent // stride) for extent, stride in zip(given, strides, strict=True)]
    before = list(map(_before, size, given, window, strides))
    made = np.empty((len(x), *size, x.shape[4]))
    for target in np.ndindex(*size):
        starts = [n * s - b for n, s, b in zip(target, strides, before, strict=True)]
        parts = [slice(max(a, 0), a + w) for a, w in zip(starts, window, strict=True)]
        places = (slice(None), *target), (slice(None), *parts)
        made[places[0]] = x[places[1]].max((1, 2, 3))
    return made


def _resize(x: np.ndarray[Any, Any], size: tuple[int, int], rule: str = "") -> Any:
    """Two matrix products whose weights are the shares of the pixels."""
    return np.einsum("nhwc,yh,xw->nyxc", x, *map(partial(_shares, rule), x.shape[1:3], size))


def _shares(rule: str, given: int, wanted: int) -> Any:
    places = np.arange(wanted) * given / wanted
    if rule == "half_pixels":
        places = (np.arange(wanted) + 0.5) * given / wanted - 0.5
    elif rule == "corners" and wanted > 1:
        places = np.arange(wanted) * (given - 1) / (wanted - 1)
    inside = np.clip(places, 0, given - 1)
    return np.maximum(0, 1 - np.abs(inside[:, None] - np.arange(given)))


def test_anybodys_numbers(results: dict[str, Any], modelwheel: Modelwheel, tmp_path: Path) -> None:
    wheel = Path(results["precise"]["wheel"])
    x = np.random.default_rng(5).uniform(-1, 1, (3, 16)).astype(np.float32)
    scaled, sensitive = x * np.float64(WEIGHTS), np.abs(np.float64(x))
    for _ in range(14):
        sensitive = sensitive * np.exp(3 * (1 - sensitive))
    given = {
        "in/x": x,
        "out/scaled": scaled.astype(np.float32),
        # As exact as float64 is; the wheel's own errors are too large for its tolerance then.
        "out/sensitive": sensitive,
        "out/decided": scaled.argmax(-1),
    }
    theirs = tmp_path / "theirs.npz"
    np.savez(theirs, **given)
    done = modelwheel("verify", "--json", "--against", theirs, wheel, code=9)
    comparisons = json.loads(done.out)[0]["report"]["comparisons"]
    assert {c["output"] for c in comparisons if not c["passed"]} == {"sensitive"}
    assert {2, 3} <= {c["rows"] for c in comparisons}
    del given["out/scaled"]
    np.savez(theirs, **given)
    done = modelwheel("verify", "--against", theirs, wheel, code=9)
    assert "the file has no array 'out/scaled'" in done.err


def test_a_chaotic_model_is_called_sensitive(results: dict[str, Any]) -> None:
    assert results["chaotic"]["wheel"] is None
    assert "the model is sensitive on these rows" in str(results["chaotic"]["errors"])


def _replace(wheel: Path, changed: Path, old: bytes, new: bytes) -> None:
    """Writes a wheel with other bytes in its library, and a RECORD that agrees."""
    with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(changed, "w") as out:
        (library,) = (name for name in archive.namelist() if "/lib/lib" in name)
        content = archive.read(library)
        assert content.count(old) == 1
        content = content.replace(old, new)
        for info in archive.infolist():
            data = content if info.filename == library else archive.read(info)
            if info.filename.endswith("/RECORD"):
                data = _listed(data.decode(), library, content).encode()
            out.writestr(info, data)


def _listed(record: str, name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    return "".join(
        f"{name},sha256={digest},{len(content)}\n" if line.startswith(f"{name},") else f"{line}\n"
        for line in record.splitlines()
    )
