"""Steps of a program have the names of the model's operations, whatever its format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from modelwheel.program.op_names import names_of
from modelwheel.program.program import Program
from modelwheel.program.walk import leaves
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow


def operations(
    laboratory: Laboratory, directory: Path, file: str, format_: str, batch: int | None = 4
) -> list[str]:
    """The operations that the steps of a file come from."""
    own = Laboratory(directory.parent, laboratory.new_directory(), laboratory.pool)
    reading = {"format": format_, "file": file}
    return compiled(own, own.freeze(directory.name, batch, reading=reading))


def compiled(laboratory: Laboratory, frozen: Path) -> list[str]:
    """The operations that the steps of a frozen graph come from; every step has one."""
    out = laboratory.compile("net", frozen, "x86-64-v3")
    program = Program.load(out / "program.json")
    origins = [step.origin for step, _ in leaves(program.steps)]
    assert all(origins), origins
    return [name for origin in origins for name in names_of(origin)]


def require(found: Iterable[str], *expected: str) -> None:
    """Refuses what lacks a name, or has one of a call."""
    missing = set(expected) - set(found)
    assert not missing, f"{missing} are not among {sorted(found)}"
    assert not [name for name in found if "XlaCallModule" in name or "Partitioned" in name]


def test_jax(laboratory: Laboratory, tmp_path: Path) -> None:
    """Scopes, functions that are called twice, the body of a loop, branches."""
    jax = pytest.importorskip("jax")
    np = pytest.importorskip("numpy")
    square, wide = (np.full((16, n), 0.1, np.float32) for n in (16, 3))

    def block(x: Any) -> Any:
        return jax.numpy.sin(x @ square)

    twice = jax.jit(block)

    def cell(state: Any, _: Any) -> Any:
        with jax.named_scope("cell"):
            return jax.numpy.tanh(state @ square), None

    def net(x: Any) -> Any:
        with jax.named_scope("encoder"):
            hidden = twice(twice(x))
        with jax.named_scope("rnn"):
            hidden, _ = jax.lax.scan(cell, hidden, length=20)
        with jax.named_scope("choice"):
            hidden = jax.lax.cond(hidden.sum() > 0, lambda h: h @ square, lambda h: -h, hidden)
        with jax.named_scope("head"):
            return jax.nn.softmax(hidden @ wide)

    (rows,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(net))(jax.ShapeDtypeStruct((rows, 16), np.float32))
    (tmp_path / "net.jax").write_bytes(exported.serialize())
    found = operations(laboratory, tmp_path, "net.jax", "stablehlo")
    require(found, "encoder/block/dot_general", "rnn/while/body/cell/dot_general")
    require(found, "choice/cond/branch_1_fun/dot_general", "head/dot_general", "head/exp")


def test_stablehlo(laboratory: Laboratory, tmp_path: Path) -> None:
    """Locations in a text; what has none is named by its kind and number."""
    (tmp_path / "net.mlir").write_text(
        """\
module {
  func.func public @main(%x: tensor<4x16xf32>, %w: tensor<16x16xf32>) -> tensor<4x16xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %1 = stablehlo.sine %0 : tensor<4x16xf32> loc("wave")
    %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
    %3 = stablehlo.sine %2 : tensor<4x16xf32> loc(fused["waves/a", "waves/b"])
    return %3 : tensor<4x16xf32>
  }
}
"""
    )
    found = operations(laboratory, tmp_path, "net.mlir", "stablehlo", batch=None)
    require(found, "dot_general_1", "wave", "dot_general_2", "waves/a", "waves/b")


def test_pytorch(laboratory: Laboratory, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="pip install 'modelwheel[pytorch]'")
    run_script("torch_programs", tmp_path)
    found = operations(laboratory, tmp_path, "small.pt2", "pytorch")
    require(found, "convolution/convolution", "linear/mm", "squash/_softmax")


def test_onnx(laboratory: Laboratory, tmp_path: Path) -> None:
    """Nodes with a name, with a name for their output alone, and with none; a layer that is a loop; branches."""
    onnx = pytest.importorskip("onnx")
    np = pytest.importorskip("numpy")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = {"w1": (16, 16), "w2": (16, 3), "w": (1, 32, 3), "r": (1, 32, 8), "w3": (8, 3)}
    node, info = helper.make_node, helper.make_tensor_value_info
    branches = {
        "then_branch": helper.make_graph(
            [node("MatMul", ["t", "w1"], ["a"], name="mm")], "then", [], [info("a", kind, None)]
        ),
        "else_branch": helper.make_graph(
            [node("Neg", ["t"], ["b"])], "e", [], [info("b", kind, None)]
        ),
    }
    nodes = [
        node("MatMul", ["x", "w1"], ["7"]),
        node("Tanh", ["7"], ["t"], name="/encoder/Tanh"),
        node("ReduceSum", ["t"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["is_large"]),
        node("If", ["is_large"], ["u"], name="choice", **branches),
        node("MatMul", ["u", "w2"], ["v"], name="head/dense"),
        node("Expand", ["v", "shape"], ["s"]),
        node("LSTM", ["s", "w", "r"], ["", "h"], name="rnn/lstm", hidden_size=8),
        node("MatMul", ["h", "w3"], ["y"]),
    ]
    constants = {name: np.full(shape, 0.1, np.float32) for name, shape in weights.items()}
    constants |= {"zero": np.float32(0), "shape": np.array([40, 4, 3])}
    graph = helper.make_graph(
        nodes,
        "net",
        [info("x", kind, [4, 16])],
        [info("y", kind, [1, 4, 3])],
        [onnx.numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "net.onnx")
    found = operations(laboratory, tmp_path, "net.onnx", "onnx", batch=None)
    require(found, "MatMul_7", "encoder/Tanh", "choice/If/mm/MatMul", "head/dense/MatMul")
    require(found, "rnn/lstm/LSTM", "y/MatMul")


def test_tensorflow_1(laboratory: Laboratory) -> None:
    found = compiled(laboratory, laboratory.freeze("tf1_loop"))
    require(found, "while/MatMul")
