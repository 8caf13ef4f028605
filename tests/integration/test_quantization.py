"""`package.compute`: layers of narrower numbers by real rows, for models of float32, and what they change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from modelwheel.dtypes import ElementType
from modelwheel.errors import UnsupportedModelError
from modelwheel.model.quantization import Quantization
from modelwheel.model.readings import KerasReading, OnnxReading, Reading
from modelwheel.program.ops import ByteLayer, Convolution, Dot
from modelwheel.program.program import Program
from modelwheel.program.walk import leaves
from modelwheel.spec.compute import Narrow
from modelwheel.wheelfile.wheel import open_wheel
from modelwheel.workers.jobs import FreezeRequest, QuantizeRequest
from tests.support.commands import Modelwheel
from tests.support.laboratory import Laboratory

pytestmark = pytest.mark.slow

_KERAS = """
import sys, keras as k
layers = k.layers
k.utils.set_random_seed(0)
k.Sequential([
    k.Input((16, 16, 3), name="image"),
    layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
    layers.Conv2D(48, 3, dilation_rate=2, activation="relu"),
    layers.DepthwiseConv2D(3, padding="same"),
    layers.Flatten(),
    layers.Dense(100),
]).save(sys.argv[1])
"""


_DENSE = """
import sys, keras as k
k.utils.set_random_seed(0)
k.Sequential([
    k.Input((300,), name="x"),
    k.layers.Dense(256, activation="relu", name="large"),
    k.layers.Dense(272, activation="relu", name="second"),
    k.layers.Dense(10, name="small"),
]).save(sys.argv[1])
"""


def _write_products(file: Path) -> None:
    """A product with a bias, and one that reads its transposed weights."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (200, 400), "w1": (208, 400), "b1": (208,)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    make = helper.make_node
    nodes = [
        make("MatMul", ["x", "w0"], ["p0"]),
        make("Relu", ["p0"], ["r0"]),
        make("Gemm", ["r0", "w1", "b1"], ["y"], transB=1),
    ]
    x = helper.make_tensor_value_info("x", 1, ["n", 200])
    y = helper.make_tensor_value_info("y", 1, ["n", 208])
    initializers = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    onnx.save(model, file)
    np.savez(file.with_suffix(".npz"), x=rng.uniform(size=(40, 200)).astype(np.float32))


def _write_onnx(file: Path) -> None:
    """Two convolutions and a product, of a version that has no scales for each feature."""
    rng = np.random.default_rng(0)
    shapes = {"w0": (16, 8, 3, 3), "w1": (32, 16, 3, 3), "w2": (10, 32), "b2": (10,)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    make = helper.make_node
    nodes = [
        make("Conv", ["x", "w0"], ["c0"], pads=[1, 1, 1, 1]),
        make("Relu", ["c0"], ["r0"]),
        make("Conv", ["r0", "w1"], ["c1"], strides=[2, 2]),
        make("Relu", ["c1"], ["r1"]),
        make("GlobalAveragePool", ["r1"], ["pooled"]),
        make("Flatten", ["pooled"], ["flat"]),
        make("Gemm", ["flat", "w2", "b2"], ["y"], transB=1),
    ]
    x = helper.make_tensor_value_info("x", 1, ["n", 8, 12, 12])
    y = helper.make_tensor_value_info("y", 1, ["n", 10])
    initializers = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    onnx.save(model, file)
    rows = rng.uniform(size=(64, 8, 12, 12)).astype(np.float32)
    np.savez(file.with_suffix(".npz"), x=rows)


def _quantize(
    laboratory: Laboratory, reading: Reading, samples: str, error: float, numbers: Narrow = "int8"
) -> tuple[FreezeRequest, Quantization]:
    freezing = FreezeRequest(reading=reading, signature="serving_default", batch=1)
    request = QuantizeRequest(
        freezing=freezing, type=numbers, samples=samples, most_changed=1.0, most_error=error
    )
    out = laboratory.run(request.job(laboratory.models, laboratory.new_directory()))
    found = Quantization.load(out / "quantization.json")
    return freezing.with_layers([layer.plain for layer in found.layers]), found


def _byte_layers(laboratory: Laboratory, request: FreezeRequest) -> int:
    """How many layers of a program multiply bytes."""
    request = request.model_copy(update={"batch": 4})
    frozen = laboratory.run(request.job(laboratory.models, laboratory.new_directory()))
    program = Program.load(laboratory.compile("quantized", frozen, "x86-64-v3") / "program.json")
    return sum(
        isinstance(step.op, ByteLayer | Convolution | Dot)
        and ElementType.INT8 in {view.element_type for view in step.inputs.values()}
        for step, _ in leaves(program.steps)
    )


@pytest.fixture(scope="module")
def nets(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    """A file of ONNX and one of Keras, with rows."""
    directory = tmp_path_factory.mktemp("quantization")
    _write_onnx(directory / "net.onnx")
    command = [sys.executable, "-c", _KERAS, str(directory / "net.keras")]
    subprocess.run(command, check=True, capture_output=True)
    rows = np.random.default_rng(1).uniform(size=(40, 16, 16, 3)).astype(np.float32)
    np.savez(directory / "images.npz", image=rows)
    _write_products(directory / "products.onnx")
    command = [sys.executable, "-c", _DENSE, str(directory / "dense.keras")]
    subprocess.run(command, check=True, capture_output=True)
    rows = np.random.default_rng(2).uniform(size=(40, 300)).astype(np.float32)
    np.savez(directory / "dense.npz", x=rows)
    return Laboratory(directory, tmp_path_factory.mktemp("jobs"), laboratory.pool)


def test_layers_of_an_onnx_file_become_layers_of_bytes(nets: Laboratory) -> None:
    request, found = _quantize(nets, OnnxReading(file="net.onnx"), "net.npz", 0.02)
    assert [layer.name for layer in found.layers] == ["c0", "c1"]
    assert found.left == ()
    assert found.rows == 32
    assert 0 < found.errors["y"] < 0.02
    assert all(0 < layer.error < 0.05 and layer.saved_bytes > 0 for layer in found.layers)
    assert _byte_layers(nets, request) == 2


def test_layers_of_keras_become_layers_of_bytes(nets: Laboratory) -> None:
    request, found = _quantize(nets, KerasReading(file="net.keras"), "images.npz", 0.02)
    assert len(found.layers) == 2  # the first and the depthwise one have few weights
    assert 0 < max(found.errors.values()) < 0.02
    assert _byte_layers(nets, request) == 2


@pytest.mark.parametrize(
    ("reading", "samples", "weights"),
    [
        (OnnxReading(file="products.onnx"), "products.npz", [200 * 400, 400 * 208]),
        (KerasReading(file="dense.keras"), "dense.npz", [300 * 256, 256 * 272]),
    ],
    ids=["onnx", "keras"],
)
def test_weights_of_large_products_become_bfloat16(
    nets: Laboratory, reading: Reading, samples: str, weights: list[int]
) -> None:
    request, found = _quantize(nets, reading, samples, 0.02, "bf16")
    assert found.type == "bf16"
    assert [layer.saved_bytes for layer in found.layers] == [2 * size for size in weights]
    assert all(0.001 < layer.error < 2**-8 for layer in found.layers)
    assert {layer.rounding for layer in request.layers} == {None}
    assert found.left == ()
    assert found.rows == 40
    assert 0 < max(found.errors.values()) < 0.01
    with pytest.raises(UnsupportedModelError, match="with bfloat16 weights in all 2 layers"):
        _quantize(nets, reading, samples, 1e-6, "bf16")


def test_a_model_without_large_products_is_refused(nets: Laboratory) -> None:
    with pytest.raises(UnsupportedModelError, match="no product of float32 by large constants"):
        _quantize(nets, OnnxReading(file="net.onnx"), "net.npz", 0.02, "bf16")


def test_layers_over_the_budget_stay_in_float32(nets: Laboratory) -> None:
    """The worst ones, as few as possible; and if one layer alone is too many, the model is refused."""
    reading = OnnxReading(file="net.onnx")
    _, every = _quantize(nets, reading, "net.npz", 1.0)
    _, found = _quantize(nets, reading, "net.npz", 0.95 * every.errors["y"])
    (left,) = found.left
    assert left == max(every.layers, key=lambda layer: layer.error).name
    assert found.errors["y"] < every.errors["y"]
    with pytest.raises(UnsupportedModelError, match="the budget of 1 and 1e-06"):
        _quantize(nets, reading, "net.npz", 1e-6)


def test_a_spec_asks_for_it(nets: Laboratory, modelwheel: Modelwheel, tmp_path: Path) -> None:
    """The wheel computes what the integers do, and says which layers they are in."""
    spec = tmp_path / "net.yaml"
    for name in ("net.onnx", "net.npz"):
        (tmp_path / name).write_bytes((nets.models / name).read_bytes())
    spec.write_text(
        "model: {name: net, version: 1.0.0}\n"
        "source: {directory: ., path: net.onnx}\n"
        "compilation: {batch_sizes: [1, 4]}\n"
        "targets: [x86-64-v3]\n"
        "package: {compute: {samples: net.npz, budget: {error: 0.02, changed_decisions: 0.5}}}\n"
    )
    modelwheel("build", spec, "--out", tmp_path / "dist")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    found = open_wheel(wheel).manifest.compiler.quantization
    assert found is not None
    assert [layer.name for layer in found.layers] == ["c0", "c1"]
    assert "2 layers" in modelwheel("inspect", wheel).out
    text = spec.read_text().replace("0.02", "1e-6")
    spec.write_text(text)
    done = modelwheel("build", spec, "--out", tmp_path / "dist", code=5)
    assert "package.compute: with 8-bit integers in all 2 layers," in done.err


@pytest.mark.parametrize(
    ("file", "samples", "saved"),
    [
        ("products.onnx", "products.npz", 2 * (200 * 400 + 400 * 208)),
        ("dense.keras", "dense.npz", 2 * (300 * 256 + 256 * 272)),
    ],
)
def test_a_spec_asks_for_bfloat16(
    nets: Laboratory, modelwheel: Modelwheel, tmp_path: Path, file: str, samples: str, saved: int
) -> None:
    """The wheel has two bytes for each weight, and passes its comparison with the model that has these weights."""
    for name in (file, samples):
        (tmp_path / name).write_bytes((nets.models / name).read_bytes())
    sizes = []
    for compute in (
        "",
        f"package: {{compute: {{type: bf16, samples: {samples}, budget: {{changed_decisions: 0.5}}}}}}\n",
    ):
        spec = tmp_path / "net.yaml"
        spec.write_text(
            "model: {name: net, version: 1.0.0}\n"
            f"source: {{directory: ., path: {file}}}\n"
            "compilation: {batch_sizes: [1, 20]}\n"
            f"targets: [x86-64-v3]\n{compute}"
        )
        modelwheel("build", spec, "--out", tmp_path / "dist")
        (wheel,) = (tmp_path / "dist").glob("*.whl")
        sizes.append(open_wheel(wheel).manifest.sizes.weights)
    assert 0.95 * saved < sizes[0] - sizes[1] < 1.05 * saved
    found = open_wheel(wheel).manifest.compiler.quantization
    assert found is not None
    assert sum(layer.saved_bytes for layer in found.layers) == saved
    assert "bf16" in modelwheel("inspect", wheel).out
