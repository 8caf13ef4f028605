"""ONNX files are judged by parsing alone: damage, weights beside them, operations, sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.check import Expected, check_signature
from modelwheel.model.inspection import Inspection, TensorInfo
from modelwheel.model.readings import OnnxReading, PyTorchReading
from modelwheel.versions import TORCH_MLIR_VERSION

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, helper, numpy_helper

from modelwheel.compiler.formats.onnx.onnx_file import load_external, read_model, read_signature
from modelwheel.compiler.formats.onnx.onnx_inspect import inspect_file
from tests.support.onnx_models import info, model_of, random

node = helper.make_node


def inspect(model: Any, directory: Path, **constants: Any) -> Inspection:
    (directory / "m.onnx").write_bytes(model.SerializeToString())
    return inspect_file(directory, OnnxReading(file="m.onnx", constants=constants))


def refusal(model: Any, directory: Path) -> str:
    with pytest.raises(UnsupportedModelError) as caught:
        inspect(model, directory)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_inspection_has_the_interface_and_the_operations(tmp_path: Path) -> None:
    model = model_of(
        [node("MatMul", ["in put/0", "w"], ["out:1"], name="/fc/MatMul")], {}, ["out:1"]
    )
    model.graph.input.extend([info("w", [3, 2]), info("in put/0", ["batch", 3])])
    model.graph.initializer.append(numpy_helper.from_array(random(3, 2), "w"))
    model.producer_name, model.producer_version = "maker", "2.1"
    found = inspect(model, tmp_path)
    (signature,) = found.signatures
    assert signature.key == "serving_default"
    (x,) = signature.inputs
    assert x == TensorInfo(name="in put/0", dtype="float32", shape=(None, 3), symbols=("batch", ""))
    assert [tensor.name for tensor in signature.outputs] == ["out:1"]
    assert [(use.op, use.layers, use.support) for use in found.ops] == [
        ("MatMul", ("/fc/MatMul",), "compiled")
    ]
    assert found.written_by == "maker 2.1"
    assert found.largest is not None
    assert found.largest.elements == 6


def test_a_constant_of_the_spec_is_not_an_input(tmp_path: Path) -> None:
    model = model_of([node("Add", ["x", "sr"], ["y"])], {"x": random(2), "sr": random(2)})
    found = inspect(model, tmp_path, sr=[1, 2])
    assert [tensor.name for tensor in found.signatures[0].inputs] == ["x"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 zipped", b"\x08\x07", b"\x0a" * 5000])
def test_what_is_not_onnx_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(UnsupportedModelError, match=r"m\.onnx is damaged or not an ONNX file"):
        read_model(tmp_path, OnnxReading(file="m.onnx"))


def test_graphs_nested_without_end_are_refused(tmp_path: Path) -> None:
    content = b""
    for _ in range(500):  # graph { node { attribute { g { ... } } } }
        for number in (6, 5, 1):
            size = len(content)
            content = (
                bytes([number << 3 | 2, size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
                + content
            )
    size = len(content)
    content = bytes([7 << 3 | 2, size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + content
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(UnsupportedModelError, match=r"m\.onnx is damaged"):
        inspect_file(tmp_path, OnnxReading(file="m.onnx"))


@pytest.mark.parametrize(
    ("op", "domain", "said"),
    [
        ("Forest", "ai.onnx.ml", "Forest 'here' (domain ai.onnx.ml) is not an operation of opset"),
        (
            "WordConvEmbedding",
            "com.microsoft",
            "WordConvEmbedding 'here' (domain com.microsoft) is a custom operation",
        ),
        ("Nothing", "", "Nothing 'here' (domain ai.onnx) is not an operation of opset 17"),
    ],
)
def test_foreign_operations_are_named(op: str, domain: str, said: str, tmp_path: Path) -> None:
    model = model_of([node(op, ["x"], ["y"], name="here", domain=domain)], {"x": random(2)})
    assert refusal(model, tmp_path).startswith(said)


@pytest.mark.parametrize(("opset", "said"), [(5, "opset 5"), (99, "opset 99")])
def test_other_opsets_are_refused(opset: int, said: str, tmp_path: Path) -> None:
    model = model_of([node("Neg", ["x"], ["y"])], {"x": random(2)}, opset=opset)
    assert f"m.onnx has {said}; modelwheel reads 6 to " in refusal(model, tmp_path)


@pytest.mark.parametrize("op", ["NonZero", "RandomNormalLike"])
def test_what_cannot_be_compiled_is_a_finding(op: str, tmp_path: Path) -> None:
    model = model_of([node(op, ["x"], ["y"], name="/a/b")], {"x": random(2)})
    findings = check_signature(inspect(model, tmp_path), Expected())
    assert "unsupported-op" in [f.kind for f in findings if f.severity == "error"]
    assert f"{op} in '/a/b'" in str(findings[0])


def with_function(called: Any, calls: list[Any], known: dict[str, Any], opset: int = 17) -> Any:
    """A model with a function of the domain `own`, which some of its nodes call."""
    model = model_of(calls, {"x": random(4)}, ["y"], known, opset)
    model.functions.append(called)
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


@pytest.mark.parametrize(
    ("calls", "support"), [("c", "compiled"), ("x", "unsupported"), ("cx", "unsupported")]
)
def test_what_a_function_is_called_with_decides_lengths(
    calls: str, support: str, tmp_path: Path
) -> None:
    body = [node("Abs", ["a"], ["b"]), node("NonZero", ["b"], ["i"])]
    imports = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "f", ["a"], ["i"], body, imports)
    nodes = [node("f", [name], [f"of_{name}"], domain="own") for name in calls]
    nodes.append(node("Concat", [f"of_{name}" for name in calls], ["y"], axis=1))
    found = inspect(with_function(function, nodes, {"c": random(4)}), tmp_path)
    assert {use.support for use in found.ops if use.op == "NonZero"} == {support}


def test_what_a_branch_computes_of_constants_is_known(tmp_path: Path) -> None:
    body = [node("Abs", ["c"], ["b"]), node("NonZero", ["b"], ["i"])]
    branch = helper.make_graph(body, "branch", [], [info("i", None, np.int64)])
    model = model_of(
        [node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)],
        {"x": np.array(1, bool)},
        ["y"],
        {"c": random(4)},
    )
    found = inspect(model, tmp_path)
    assert {use.support for use in found.ops if use.op == "NonZero"} == {"compiled"}


def test_a_function_has_opsets_of_its_own(tmp_path: Path) -> None:
    """The operation is newer than the opset of the graph."""
    imports = [helper.make_opsetid("", 17)]
    body = [node("HannWindow", ["a"], ["w"])]
    function = helper.make_function("own", "f", ["a"], ["w"], body, imports)
    calls = [node("f", ["n"], ["y"], domain="own")]
    found = inspect(with_function(function, calls, {"n": np.array(8)}, 15), tmp_path)
    assert [use.op for use in found.ops] == ["HannWindow"]
    model = model_of([node("HannWindow", ["n"], ["y"])], {}, ["y"], {"n": np.array(8)}, 15)
    assert "is not an operation of opset 15" in refusal(model, tmp_path)


def test_functions_that_multiply_are_counted_before_they_are_inlined(tmp_path: Path) -> None:
    """Thirty functions, each of which calls the next one twice."""
    model = model_of([node("F0", ["x"], ["y"], domain="own")], {"x": random(2)})
    own, standard = helper.make_opsetid("own", 1), helper.make_opsetid("", 17)
    model.opset_import.append(own)
    for n in range(30):
        nodes = [node(f"F{n + 1}", [a], [b], domain="own") for a, b in (("i", "t"), ("t", "o"))]
        if n == 29:
            nodes = [node("Neg", ["i"], ["o"])]
        model.functions.append(
            helper.make_function("own", f"F{n}", ["i"], ["o"], nodes, [standard, own])
        )
    found = inspect(model, tmp_path)
    assert found.costs["serving_default"].nodes > 2**29
    errors = [str(f) for f in check_signature(found, Expected()) if f.severity == "error"]
    assert "nodes when its calls are inlined" in errors[0]


def test_a_function_that_calls_itself_is_refused(tmp_path: Path) -> None:
    model = model_of([node("F", ["x"], ["y"], domain="own")], {"x": random(2)})
    own = helper.make_opsetid("own", 1)
    model.opset_import.append(own)
    again = node("F", ["i"], ["o"], domain="own")
    model.functions.append(helper.make_function("own", "F", ["i"], ["o"], [again], [own]))
    assert refusal(model, tmp_path).startswith("the function 'F' calls itself")


# --- weights beside the file ----------------------------------------------------------------------


def _external(location: str, length: int = 8, offset: int = 4) -> Any:
    model = model_of([node("Add", ["x", "w"], ["y"])], {"x": random(2)}, constants={"w": random(2)})
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=str(value))
    return model


def test_weights_beside_the_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 4 + np.array([1.5, -2], np.float32).tobytes())
    model = _external("weights/w.bin")  # the tree has further files at its top
    load_external(model, tmp_path)
    assert numpy_helper.to_array(model.graph.initializer[0]).tolist() == [1.5, -2]


def test_a_directory_holds_one_file(tmp_path: Path) -> None:
    content = model_of([node("Neg", ["x"], ["y"])], {"x": random(2)}).SerializeToString()
    (tmp_path / "one.onnx").write_bytes(content)
    assert read_model(tmp_path, OnnxReading(file="directory")).graph.node[0].op_type == "Neg"
    (tmp_path / "two.onnx").write_bytes(content)
    with pytest.raises(
        UnsupportedModelError, match=r"source\.path is a directory with 2 ONNX files"
    ):
        read_model(tmp_path, OnnxReading(file="directory"))


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/../../w", "C:\\w", "..\\w", ""])
def test_weights_outside_the_directory_are_refused(location: str, tmp_path: Path) -> None:
    assert "outside the model's directory" in refusal(_external(location), tmp_path)


def test_a_link_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out.bin").write_bytes(bytes(12))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "w.bin").symlink_to(tmp_path / "out.bin")
    with pytest.raises(UnsupportedModelError, match="which is not there"):
        load_external(_external("w.bin"), tmp_path / "in")


@pytest.mark.parametrize(("length", "offset"), [(8, 5), (800, 4), (8, -4), (-8, 4), (10**20, 4)])
def test_lengths_beyond_the_file_are_refused(length: int, offset: int, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(12))
    with pytest.raises(
        UnsupportedModelError, match=r"asks for 8 bytes at -?\d of 'w\.bin', which has 12"
    ):
        load_external(_external("w.bin", length, offset), tmp_path)


def test_free_extents_may_be_negative(tmp_path: Path) -> None:
    model = model_of([node("Neg", ["x"], ["y"])], {})
    model.graph.input.append(info("x", [-1, 3]))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    signature = read_signature(read_model(tmp_path, OnnxReading(file="m.onnx")), {})
    assert signature.inputs[0].shape == (None, 3)


def test_the_extra_installs_the_converter_that_is_part_of_keys() -> None:
    project = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"torch-mlir=={TORCH_MLIR_VERSION}"' in project
    assert PyTorchReading(file="m.pt2").converter == f"torch-mlir {TORCH_MLIR_VERSION}"


def test_a_sparse_constant_is_refused_wherever_it_is(tmp_path: Path) -> None:
    """Its values may be in a file that only ONNX Runtime would open."""
    model = model_of(
        [node("Constant", [], ["w"]), node("Add", ["x", "w"], ["y"])], {"x": random(2)}
    )
    values = model.graph.node[0].attribute.add(name="sparse_value").sparse_tensor.values
    values.data_location = TensorProto.EXTERNAL
    values.external_data.add(key="location", value="/etc/passwd")
    assert "the weight 'w' is sparse; save the model with dense weights" in refusal(model, tmp_path)


def test_what_is_not_judged_is_not_evaluated(tmp_path: Path) -> None:
    model = model_of([node("Neg", ["x"], ["y"])], {"x": random(2)})
    model.training_info.add().algorithm.node.add(op_type="Evil")
    unknown = b"\xfa\x3e\x04evil"  # field 1007, which ONNX does not have
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString() + unknown)
    read = read_model(tmp_path, OnnxReading(file="m.onnx")).SerializeToString()
    assert b"vil" not in read
    assert b"Neg" in read
