"""Steps of a program have the names of the model's layers, whatever its format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from modelwheel.bench.profile import layer_of
from modelwheel.compiler.stablehlo.module_names import with_names, without_names
from modelwheel.program.program import Program
from modelwheel.program.walk import leaves
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow

PLAIN = """\
module @m {
  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    %cst = stablehlo.constant dense<1.0> : tensor<2xf32>
    %0 = stablehlo.add %arg0, %cst : tensor<2xf32>
    %1 = call @inner(%0) : (tensor<2xf32>) -> tensor<2xf32>
    %2 = stablehlo.multiply %n, %n : tensor<2xi32>
    %3 = stablehlo.negate %1 : tensor<2xf32>
    %4 = stablehlo.negate %3 : tensor<2xf32>
    return %4 : tensor<2xf32>
  }
}
"""
LOCATED = """\
#loc = loc(unknown)
module @m {
  func.func public @main(%arg0: tensor<2xf32> loc("x")) -> tensor<2xf32> {
    %cst = stablehlo.constant dense<1.0> : tensor<2xf32> loc(#loc2)
    %0 = stablehlo.add %arg0, %cst : tensor<2xf32> loc(#loc2)
    %1 = call @inner(%0) : (tensor<2xf32>) -> tensor<2xf32> loc(#loc2)
    %2 = stablehlo.multiply %n, %n : tensor<2xi32> loc(#loc2)
    %3 = stablehlo.negate %1 : tensor<2xf32> loc(#loc4)
    %4 = stablehlo.negate %3 : tensor<2xf32> loc(#loc1)
    return %4 : tensor<2xf32> loc(#loc2)
  } loc(#loc)
} loc(#loc)
#loc1 = loc("/home/me/net.py":3:4 to :9)
#loc2 = loc("jit(f)/a \\22b\\22"(#loc1))
#loc3 = loc("layer:head/mm":1:0)
#loc4 = loc(callsite(#loc3 at #loc2))
"""


def test_only_operations_of_floats_get_names() -> None:
    named = with_names(PLAIN, LOCATED)
    added = [
        (line, other)
        for line, other in zip(PLAIN.split("\n"), named.split("\n"), strict=True)
        if line != other
    ]
    assert [other[len(line) :] for line, other in added] == [
        ' loc("jit(f)/a \\22b\\22")',
        ' loc("jit(f)/a \\22b\\22")',
        ' loc("jit(f)/a \\22b\\22/head/mm")',
    ]
    assert without_names(named) == PLAIN


def test_locations_that_lead_nowhere_or_on_and_on() -> None:
    ring = LOCATED.replace('#loc3 = loc("layer:head/mm":1:0)', "#loc3 = loc(fused[#loc4, #loc2])")
    assert without_names(with_names(PLAIN, ring)) == PLAIN
    chain = "".join(f"#loc{n} = loc(callsite(#loc{n + 1} at #loc{n + 1}))\n" for n in range(4, 999))
    long = with_names(PLAIN, LOCATED.partition("#loc4")[0] + chain)
    assert len(long) < 2 * len(PLAIN)
    assert with_names(PLAIN, "nothing\nof it") == PLAIN


def layers(laboratory: Laboratory, directory: Path, file: str, format_: str) -> list[str]:
    """The layer of each step that is compiled of a model."""
    own = Laboratory(directory.parent, laboratory.new_directory(), laboratory.pool)
    frozen = own.freeze(directory.name, reading={"format": format_, "file": file})
    program = Program.load(own.compile("net", frozen, "x86-64-v3") / "program.json")
    return [layer_of(step.origin) for step, _ in leaves(program.steps)]


def require(found: Iterable[str], *expected: str) -> None:
    missing = {name for name in expected if name not in found}
    assert not missing, f"{missing} are not among {sorted(found)}"


def test_layers_of_jax(laboratory: Laboratory, tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    np = pytest.importorskip("numpy")

    def net(x: object) -> object:
        with jax.named_scope("encoder"):
            hidden = jax.nn.relu(x @ np.full((16, 32), 0.1, np.float32))
        with jax.named_scope("head"):
            return jax.nn.softmax(hidden @ np.full((32, 3), 0.1, np.float32))

    (rows,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(net))(jax.ShapeDtypeStruct((rows, 16), np.float32))
    (tmp_path / "net.jax").write_bytes(exported.serialize())
    found = layers(laboratory, tmp_path, "net.jax", "stablehlo")
    require(found, "encoder/dot_general", "head/dot_general", "head/exp")


def test_layers_of_pytorch(laboratory: Laboratory, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="pip install 'modelwheel[pytorch]'")
    run_script("torch_programs", tmp_path)
    found = layers(laboratory, tmp_path, "small.pt2", "pytorch")
    require(found, "convolution/convolution", "linear/mm", "_softmax")


def test_layers_of_onnx(laboratory: Laboratory, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    np = pytest.importorskip("numpy")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = [
        onnx.numpy_helper.from_array(np.full(shape, 0.1, np.float32), name)
        for name, shape in (("w1", (16, 32)), ("w2", (32, 3)))
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w1"], ["h"], name="encoder/dense"),
            helper.make_node("Tanh", ["h"], ["t"], name="encoder/tanh"),
            helper.make_node("MatMul", ["t", "w2"], ["y"], name="head/dense"),
        ],
        "net",
        [helper.make_tensor_value_info("x", kind, ["N", 16])],
        [helper.make_tensor_value_info("y", kind, ["N", 3])],
        weights,
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "net.onnx")
    require(
        layers(laboratory, tmp_path, "net.onnx", "onnx"),
        "MatMul 'encoder/dense'",
        "MatMul 'head/dense'",
    )
