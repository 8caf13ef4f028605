"""Comparing real wheels with other runtimes, and profiling them: that all of it is measured, and ratios with wide margins."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from modelwheel.bench.profile import Profile
from modelwheel.bench.results import OURS, Benchmark, Kind
from modelwheel.compiler.passes import PIPELINE
from modelwheel.errors import UsageError
from modelwheel.levels import cpu_level
from modelwheel.platforms import machine
from tests.bench import footprint, networks, threads
from tests.bench.__main__ import QUICK, main
from tests.bench.onnx_networks import WRITERS
from tests.support.commands import Modelwheel
from tests.support.wheels import Built

pytestmark = pytest.mark.slow

LOWERS = sys.platform == "linux" and machine() == "x86_64"
"""Whether other runtimes can be shown a CPU of a lower level: CPUID faults, or they are patched copies."""


def test_a_wheel_is_compared_with_tensorflow(
    modelwheel: Modelwheel, built: Built, models: Path, tmp_path: Path
) -> None:
    done = modelwheel(
        *("bench", built.wheel("mlp"), "--peer", f"saved_model={models / 'mlp'}", "--json"),
        *("--seconds", "0.1", "--batch-size", "4", "--plots", tmp_path),
    )
    found = Benchmark.model_validate(done.json)
    (compared,) = found.models
    (case,) = compared.cases
    sides = {side.kind: side for side in compared.sides}
    for kind in (OURS, "tensorflow", "xla"):
        cell, side = case.cell(kind), sides[kind]
        assert cell is not None
        assert cell.error is None, cell.error
        assert cell.us is not None
        assert side.first_ms is not None
        assert 0 < cell.us.median < 1e6
        assert compared.trace is not None
        for part in (cell.new_arrays, cell.after_silence, compared.trace.cell(kind)):
            assert part is not None
            assert part.error is None
            assert part.us is not None
            assert 0 < part.us.median < 1e6
        assert 0 < side.first_ms < 1e6
        assert side.lowered == (kind != OURS and compared.level != cpu_level().name and LOWERS)
    assert sides["onnxruntime"].error == "there is no onnx file"
    assert found.mean is not None
    assert [path.suffix for path in tmp_path.iterdir()] == [".svg"]


@pytest.mark.exhaustive
def test_other_weights_are_not_compared(modelwheel: Modelwheel, built: Built, models: Path) -> None:
    """A model of the same signature that computes something else."""
    peer = f"saved_model={models / 'batch_mean'}"
    options = ("--seconds", "0.1", "--batch-size", "4", "--json")
    done = modelwheel("bench", built.wheel("mlp"), "--peer", peer, *options)
    (compared,) = Benchmark.model_validate(done.json).models
    cell = compared.cases[0].cell("xla")
    assert cell is not None
    assert cell.us is None
    assert (cell.error or "").startswith("outputs differ: y")


def test_every_step_is_profiled(modelwheel: Modelwheel, built: Built, tmp_path: Path) -> None:
    flames, roofline = tmp_path / "flames.svg", tmp_path / "roofline.svg"
    options = ("--batch-size", "4", "--seconds", "0.1", "--flames", flames)
    plots = ("--roofline", roofline, "--json", "--dump", tmp_path / "dump")
    found = Profile.model_validate(modelwheel("profile", built.spec("mlp"), *options, *plots).json)
    assert found.peak_gflops > 0
    assert all(step.us > 0 for step in found.steps)
    assert [step.runs for step in found.steps] == [1] * len(found.steps)
    assert sum(step.us for step in found.steps) < found.us
    assert any(step.layer for step in found.steps)
    for plot in (flames, roofline):
        assert plot.read_bytes().startswith(b"<?xml")
    (dump,) = (tmp_path / "dump").iterdir()
    assert dump.name.endswith("-b4.txt")
    heads = [line[3:] for line in dump.read_text().splitlines() if line.startswith("== ")]
    assert heads == ["lifted", *(one.name for one in PIPELINE), "program"]


def test_steps_are_also_profiled_with_threads(modelwheel: Modelwheel, built: Built) -> None:
    options = ("--batch-size", "4", "--seconds", "0.1", "--threads", "2", "--json")
    found = Profile.model_validate(modelwheel("profile", built.spec("mlp"), *options).json)
    assert (found.threads, len(found.steps)) == (2, len([step.gain for step in found.steps]))
    assert found.threaded_us is not None
    assert all(step.gain for step in found.steps)


def test_a_wheel_has_no_clock(modelwheel: Modelwheel, built: Built) -> None:
    done = modelwheel("profile", built.wheel("mlp"), code=UsageError.exit_code)
    assert "name the spec instead" in done.err


@pytest.mark.exhaustive
def test_wheels_are_not_slower_than_half_of_onnx_runtime(tmp_path: Path) -> None:
    found = main(["--quick", "--seconds", "0.5", "--work", str(tmp_path)])
    ratios = {}
    for model in found.models:
        for case in model.cases:
            cell = case.cell("onnxruntime")
            assert cell is not None
            assert cell.ratio is not None, cell.error
            ratios[model.model, case.rows] = cell.ratio.median
    assert len(ratios) == sum(map(len, QUICK.values()))
    assert min(ratios.values()) > 0.5, ratios


@pytest.mark.exhaustive
def test_what_threads_gain_and_what_wheels_weigh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ((name, rows, found), *_) = threads.cells(["mlp"], cpu_level().name, tmp_path)
    assert (name, rows) == ("mlp", 1)
    assert 0 < found.low <= found.median <= found.high
    footprint.main(["--work", str(tmp_path), "mlp"])
    builds, sizes = capsys.readouterr().out.strip().split("\n\n")
    assert len(builds.splitlines()) == 2 + 3
    (row,) = sizes.splitlines()[2:]
    weights, library, wheel, limit, imported, used, _ = map(int, row.split("|")[2:-1])
    assert 0 < weights < wheel < library
    assert wheel < limit
    assert 0 < imported <= used


@pytest.mark.parametrize("name", ["gru", "transformer"])
def test_an_onnx_file_of_the_reference_set_computes_what_its_network_does(
    name: str, tmp_path: Path
) -> None:
    network, file = networks.make(name), tmp_path / "model.onnx"
    WRITERS[name](network, file)
    x = np.random.default_rng(1).normal(size=(3, *network.input_shape[1:])).astype(np.float32)
    (found,) = onnxruntime.InferenceSession(str(file)).run(["output_0"], {"x": x})
    np.testing.assert_allclose(np.asarray(found), network(x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["lstm_masked", "bilstm"])
def test_a_network_without_loops_computes_the_same(name: str) -> None:
    network = networks.make(name)
    copy = networks.unrolled(network)
    x = np.random.default_rng(1).normal(size=(3, *network.input_shape[1:])).astype(np.float32)
    x[1, -4:] = 0  # masked steps
    np.testing.assert_allclose(copy(x), network(x), rtol=1e-4, atol=1e-6)
    layers = [layer for layer in copy.layers if hasattr(layer, "unroll")]
    layers += [getattr(layer, "forward_layer", layer) for layer in copy.layers]
    assert any(getattr(layer, "unroll", False) for layer in layers)


def test_an_onnx_file_with_weights_beside_it_is_a_peer(
    modelwheel: Modelwheel, tmp_path: Path
) -> None:
    x, y = (helper.make_tensor_value_info(name, 1, ["n", 300]) for name in "xy")
    weights = numpy_helper.from_array(np.eye(300, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weights]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data")
    options = ("--seconds", "0.1", "--batch-size", "1", "--json")
    done = modelwheel("bench", tmp_path / "net.onnx", *options)
    (compared,) = Benchmark.model_validate(done.json).models
    cell = compared.cases[0].cell("onnxruntime")
    assert cell is not None
    assert cell.ratio is not None, cell.error


def test_a_model_of_keras_is_exported_for_the_others(
    modelwheel: Modelwheel, tmp_path: Path
) -> None:
    file = tmp_path / "net.h5"
    script = (
        "import sys, keras as k; k.Sequential([k.Input((8,)), k.layers.Dense(4)]).save(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", script, file], check=True, capture_output=True)
    done = modelwheel("bench", file, "--seconds", "0.05", "--batch-size", "2", "--json")
    (compared,) = Benchmark.model_validate(done.json).models
    optional: dict[Kind, str] = {"litert": "ai_edge_litert", "openvino": "openvino"}
    installed = [kind for kind, module in optional.items() if find_spec(module) is not None]
    for kind in ("onnxruntime", "tensorflow", "xla", *installed):
        cell = compared.cases[0].cell(kind)
        assert cell is not None, compared.sides
        assert cell.ratio is not None, cell.error
