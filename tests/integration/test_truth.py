"""Float64 truth of StableHLO modules: what NumPy computes in float64, or the reason why there is none."""

from __future__ import annotations

import itertools
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.accuracy import Truth
from modelwheel.compiler.reference.truth.convolution import expand_integer_convolutions
from modelwheel.errors import ModelwheelError
from modelwheel.model.readings import OnnxReading, Reading, StableHloReading
from modelwheel.model.reference_result import Reference
from modelwheel.workers.jobs import ReferenceRequest
from tests.support.laboratory import Laboratory

pytestmark = pytest.mark.slow

Array = np.ndarray[Any, Any]

# Names of the axes, window, groups, and shapes of input, kernel and output.
CONVOLUTIONS = [
    ("[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", "stride = [2, 2], pad = [[1, 1], [1, 1]]", 1,
     "3x4x9x7", "5x4x3x3", "3x5x5x4"),
    ("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
     "stride = [1, 2], pad = [[0, 1], [2, -1]], rhs_dilate = [2, 1]", 1,
     "3x9x7x4", "3x2x4x6", "3x6x4x6"),
    ("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "stride = [2, 1], pad = [[1, 1], [1, 1]]", 4,
     "3x9x7x4", "3x3x1x4", "3x5x7x4"),
    ("[b, 0, 1, f]x[0, 1, i, o]->[f, 0, 1, b]", "pad = [[1, 1], [1, 1]]", 4,
     "3x9x7x8", "3x3x2x12", "12x9x7x3"),
    ("[b, 0, f]x[0, i, o]->[b, 0, f]", "pad = [[2, 2]], lhs_dilate = [2], reverse = [true]", 1,
     "3x9x4", "4x4x6", "3x18x6"),
    ("[b, 0, f]x[0, i, o]->[b, 0, f]", "", 1, "3x9x4", "4x4x6", "3x6x6"),
]  # fmt: skip

WEIGHTS = np.random.default_rng(3).normal(size=(16, 16)).astype(np.float32)
FEW = np.random.default_rng(4).normal(size=16).astype(np.float32)

CONSTANTS = f"""\
func.func @main(%x: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xcomplex<f32>>) {{
  %large = stablehlo.constant dense<"0x{WEIGHTS.tobytes().hex().upper()}"> : tensor<16x16xf32>
  %few = stablehlo.constant dense<{FEW.tolist()}> : tensor<16xf32>
  %same = stablehlo.constant dense<0.1> : tensor<4x16xf32>
  %endless = stablehlo.constant dense<0xFF800000> : tensor<4x16xf32>
  %shared = stablehlo.constant dense_resource<shared> : tensor<4xf32>
  %turned = stablehlo.constant dense<(0.1, -0.7)> : tensor<4x16xcomplex<f32>>
  %y = stablehlo.dot_general %x, %large, contracting_dims = [1] x [0] : (tensor<4x16xf32>, tensor<16x16xf32>) -> tensor<4x16xf32>
  %bias = stablehlo.broadcast_in_dim %few, dims = [1] : (tensor<16xf32>) -> tensor<4x16xf32>
  %z = stablehlo.add %y, %bias : tensor<4x16xf32>
  %rows = stablehlo.broadcast_in_dim %shared, dims = [0] : (tensor<4xf32>) -> tensor<4x16xf32>
  %first = stablehlo.multiply %z, %rows : tensor<4x16xf32>
  %above = stablehlo.compare GT, %x, %same : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xi1>
  %odd = stablehlo.constant dense_resource<"odd rows"> : tensor<4x1xi1>
  %wide = stablehlo.broadcast_in_dim %odd, dims = [0, 1] : (tensor<4x1xi1>) -> tensor<4x16xi1>
  %both = stablehlo.and %above, %wide : tensor<4x16xi1>
  %second = stablehlo.select %both, %x, %endless : tensor<4x16xi1>, tensor<4x16xf32>
  %wave = stablehlo.complex %x, %same : tensor<4x16xcomplex<f32>>
  %third = stablehlo.multiply %wave, %turned : tensor<4x16xcomplex<f32>>
  return %first, %second, %third : tensor<4x16xf32>, tensor<4x16xf32>, tensor<4x16xcomplex<f32>>
}}
{{-#
  dialect_resources: {{
    builtin: {{
      shared: "0x04000000{FEW[:4].tobytes().hex().upper()}",
      "odd rows": "0x0100000000010001"
    }}
  }}
#-}}
"""

_MAIN = (
    "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{}\n  return %y : tensor<4xf32>\n}}\n"
)
WITHOUT = {
    "convert computes in bf16": (
        "%z = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xbf16>\n"
        "%y = stablehlo.convert %z : (tensor<4xbf16>) -> tensor<4xf32>"
    ),
    "reduce_precision prescribes its rounding": (
        "%y = stablehlo.reduce_precision %x, format = e5m10 : tensor<4xf32>"
    ),
    "uses the bits of float32 numbers": (
        "%z = stablehlo.bitcast_convert %x : (tensor<4xf32>) -> tensor<4xi32>\n"
        "%y = stablehlo.bitcast_convert %z : (tensor<4xi32>) -> tensor<4xf32>"
    ),
}  # fmt: skip


def find(
    laboratory: Laboratory, directory: Path, reading: Reading
) -> tuple[dict[str, Array], dict[str, Array], Truth]:
    """Inputs, outputs with their corrections, and what is known about errors."""
    request = ReferenceRequest(
        reading=reading, signature="serving_default", batch_sizes=(), rows=(1,)
    )
    out = laboratory.run(request.job(directory, laboratory.new_directory()))
    with np.load(out / "reference.npz") as arrays:
        inputs = {k.removeprefix("in/"): arrays[k] for k in arrays if k.startswith("in/")}
        exact = {
            k.removeprefix("exact/1/"): wide(arrays[k.replace("exact/", "out/")]) + wide(arrays[k])
            for k in arrays
            if k.startswith("exact/1/")
        }
    return inputs, exact, Reference.load(out / "reference.json").truth


def module(laboratory: Laboratory, directory: Path, text: str) -> Any:
    """The same for a module of StableHLO."""
    (directory / "m.mlir").write_text(text, encoding="utf-8")
    return find(laboratory, directory, StableHloReading(file="m.mlir"))


def wide(values: Array) -> Array:
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def agree(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=1e-12 * np.abs(expected[np.isfinite(expected)]).max()
    )


def test_constants_keep_their_values(laboratory: Laboratory, tmp_path: Path) -> None:
    inputs, exact, truth = module(laboratory, tmp_path, CONSTANTS)
    assert (truth.missing, truth.without, truth.evaluator) == (None, {}, "TensorFlow")
    x, tenth = wide(inputs["arg0"]), np.float64(np.float32(0.1))
    agree(exact["result0"], (x @ wide(WEIGHTS) + wide(FEW)) * wide(FEW[:4, None]))
    odd = np.array([[False], [True], [False], [True]])
    agree(exact["result1"], np.where((x > tenth) & odd, x, -np.inf))
    agree(exact["result2"], (x + 1j * tenth) * (tenth - 1j * np.float64(np.float32(0.7))))


@pytest.mark.parametrize(("element", "sum_"), [("f32", "f32"), ("i8", "i32"), ("ui8", "i32")])
def test_convolutions_are_written_out(
    laboratory: Laboratory, tmp_path: Path, element: str, sum_: str
) -> None:
    lines, types = [], []
    for number, (axes, window, groups, x, w, y) in enumerate(CONVOLUTIONS):
        types += [x, w]
        lines.append(
            f"  %sum{number} = stablehlo.convolution(%x{2 * number}, %x{2 * number + 1}) dim_numbers = {axes}, "
            f"window = {{{window}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : "
            f"(tensor<{x}x{element}>, tensor<{w}x{element}>) -> tensor<{y}x{sum_}>\n"
            f"  %y{number} = stablehlo.convert %sum{number} : (tensor<{y}x{sum_}>) -> tensor<{y}xf32>"
        )
    arguments = ", ".join(f"%x{n}: tensor<{shape}x{element}>" for n, shape in enumerate(types))
    results = ", ".join(f"tensor<{c[-1]}xf32>" for c in CONVOLUTIONS)
    names = ", ".join(f"%y{n}" for n in range(len(CONVOLUTIONS)))
    text = "\n".join(
        (
            f"func.func @main({arguments}) -> ({results}) {{",
            *lines,
            f"  return {names} : {results}",
            "}",
        )
    )
    if element != "f32":
        assert "stablehlo.convolution" not in expand_integer_convolutions(text)
    inputs, exact, truth = module(laboratory, tmp_path, text)
    assert (truth.missing, truth.without) == (None, {})
    for number, (axes, window, groups, *_) in enumerate(CONVOLUTIONS):
        given, kernel = (wide(inputs[f"arg{2 * number + i}"]) for i in (0, 1))
        agree(exact[f"result{number}"], convolve(given, kernel, axes, window, groups))


def convolve(x: Array, w: Array, axes: str, window: str, groups: int) -> Array:
    """The convolution by its definition."""
    xs, ws, ys = (part.strip("[]").split(", ") for part in axes.replace("->", "x").split("x"))
    space = [str(n) for n in range(x.ndim - 2)]
    x = x.transpose([xs.index(label) for label in ("b", *space, "f")])
    w = w.transpose([ws.index(label) for label in (*space, "i", "o")])
    given = {
        name: json.loads(values)
        for name, values in re.findall(r"(\w+) = (\[.*?\])(?=, \w|$)", window)
    }
    ones = [1] * len(space)
    strides, steps = given.get("stride", ones), given.get("rhs_dilate", ones)
    spread, pads = given.get("lhs_dilate", ones), given.get("pad", [[0, 0]] * len(space))
    if given.get("reverse"):
        w = w[::-1]
    for axis, (low, high) in enumerate(pads, 1):
        extent = (x.shape[axis] - 1) * spread[axis - 1] + 1
        padded = np.zeros((*x.shape[:axis], low + extent + max(high, 0), *x.shape[axis + 1 :]))
        padded.swapaxes(0, axis)[low : low + extent : spread[axis - 1]] = x.swapaxes(0, axis)
        x = padded.take(range(padded.shape[axis] + min(high, 0)), axis)
    kernel, (features, outputs) = w.shape[:-2], w.shape[-2:]
    extents = [
        (e - (k - 1) * step - 1) // stride + 1
        for e, k, step, stride in zip(x.shape[1:], kernel, steps, strides, strict=False)
    ]
    y = np.zeros((x.shape[0], *extents, outputs))
    per_group = outputs // groups
    for place in itertools.product(*map(range, kernel)):
        at = [slice(None)] + [
            slice(p * step, p * step + (e - 1) * stride + 1, stride)
            for p, step, e, stride in zip(place, steps, extents, strides, strict=True)
        ]
        met = x[tuple(at)]
        for group in range(groups):
            outs = slice(group * per_group, (group + 1) * per_group)
            y[..., outs] += met[..., group * features : (group + 1) * features] @ w[place][:, outs]
    return np.transpose(y, [("b", *space, "f").index(label) for label in ys])


@pytest.mark.parametrize("reason", WITHOUT)
def test_modules_that_round_by_design_have_no_truth(
    laboratory: Laboratory, tmp_path: Path, reason: str
) -> None:
    _, exact, truth = module(laboratory, tmp_path, _MAIN.format(WITHOUT[reason]))
    assert not exact
    assert reason in str(truth.missing)


_LOOP = """\
%one = stablehlo.constant dense<1> : tensor<i32>
%last = stablehlo.constant dense<9> : tensor<i32>
%r:2 = stablehlo.while(%i = %one, %z = %x) : tensor<i32>, tensor<4xf32>
cond {
  %more = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %more : tensor<i1>
} do {
  %next = stablehlo.add %i, %i : tensor<i32>
  %w = stablehlo.multiply %z, %x : tensor<4xf32>
  stablehlo.return %next, %w : tensor<i32>, tensor<4xf32>
}
%y = stablehlo.negate %r#1 : tensor<4xf32>"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("%y = stablehlo.constant dense_resource<w> : tensor<4xf32>",
         r"m.mlir has no values for the constant dense_resource<w>, .* export it again with its resources"),
        (_LOOP, r"a loop that adds its counter to itself .* write i \* 2"),
    ],
)  # fmt: skip
def test_what_xla_would_stumble_over_is_refused_in_one_sentence(
    laboratory: Laboratory, tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(ModelwheelError, match=words):
        module(laboratory, tmp_path, _MAIN.format(text))


def test_an_onnx_model(laboratory: Laboratory, tmp_path: Path) -> None:
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        pytest.skip("onnx and onnxruntime are not installed")
    import onnx
    from onnx import helper

    from tests.support.onnx_models import model_of, random

    weights, kernel = random(40, 33, seed=5), random(4, 3, 3, 3, seed=6)
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["c", "shape"], ["r"]),
        helper.make_node("MatMul", ["r", "weights"], ["m"]),
        helper.make_node("Tanh", ["m"], ["y"]),
    ]
    constants = {"weights": weights, "kernel": kernel, "shape": np.array([2, -1, 40])}
    onnx.save(model_of(nodes, {"x": random(2, 3, 4, 5)}, ["y"], constants), tmp_path / "m.onnx")
    inputs, exact, truth = find(laboratory, tmp_path, OnnxReading(file="m.onnx"))
    assert (truth.missing, truth.without, truth.evaluator) == (None, {}, "ONNX Runtime")
    axes, pads = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", "pad = [[1, 1], [1, 1]]"
    convolved = convolve(wide(inputs["x"]), wide(kernel), axes, pads, 1)
    agree(exact["y"], np.tanh(convolved.reshape(2, -1, 40) @ wide(weights)))


def test_probabilities_of_what_is_not_there_have_a_truth(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """A runtime's sigmoid may be off by a rounding of 1, where that is all there is."""
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        pytest.skip("onnx and onnxruntime are not installed")
    import onnx
    from onnx import helper

    from tests.support.onnx_models import model_of, random

    nodes = [
        helper.make_node("Sub", ["x", "far"], ["s"]),
        helper.make_node("Sigmoid", ["s"], ["y"]),
    ]
    x = random(2, 64)
    constants = {"far": np.array(25, np.float32)}
    onnx.save(model_of(nodes, {"x": x}, ["y"], constants), tmp_path / "m.onnx")
    inputs, exact, truth = find(laboratory, tmp_path, OnnxReading(file="m.onnx"))
    assert truth.framework[0].relative > 0.05
    assert truth.without == {}
    assert exact["y"] == pytest.approx(1 / (1 + np.exp(25 - wide(inputs["x"]))), rel=1e-4)
