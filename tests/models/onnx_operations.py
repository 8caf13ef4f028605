"""ONNX's operations against ONNX Runtime: `onnx_operations DIRECTORY`.

All cases of one opset are one model, which is converted once; its graph is evaluated. Prints one JSON object: by case, the largest difference relative to the largest value.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from modelwheel.compiler import formats
from modelwheel.model.readings import OnnxReading
from tests.models.onnx_cases import BITS, INTEGERS, POSITIVE, UNIT, Case, M, X, case, f32, ints
from tests.models.onnx_classical import CLASSICAL, classical
from tests.models.onnx_fusions import MICROSOFT, attention, fusions, quantized_fusions
from tests.models.onnx_loops import loops, recurrent
from tests.models.onnx_sampling import sampling
from tests.support.onnx_models import Array, info, random


def elementwise() -> Iterator[Case]:
    for op in (
        "Abs",
        "Ceil",
        "Cos",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
    ):
        yield case(op, X)
    for op in (
        "Neg",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Tan",
    ):
        yield case(op, X)
    for op in (
        "Tanh",
        "ThresholdedRelu",
        "Mish",
        "Celu",
        "Gelu",
        "Atan",
        "Sinh",
        "Cosh",
        "Asinh",
        "Identity",
    ):
        yield case(op, X)
    for op in ("Log", "Reciprocal", "Sqrt"):
        yield case(op, POSITIVE)
    for op in ("Asin", "Acos", "Atanh"):
        yield case(op, UNIT)
    yield case("Acosh", POSITIVE + 1)
    yield case("Gelu", X, to="tanh", approximate="tanh")
    yield case("Shrink", X, lambd=0.4, bias=0.1)
    yield case("PRelu", X, w=(random(3, 1, 1, seed=3),))
    yield case("Clip", X, w=(np.float32(-0.5), np.float32(0.7)))
    yield case("Clip", X, w=(None, np.float32(0.7)), to="above")
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        yield case(op, X, random(5, 1, seed=4) + 3)
    yield case("Pow", POSITIVE, random(4, seed=5))
    yield case("Mod", X, random(4, seed=5), fmod=1)
    yield case("Mod", INTEGERS, to="int", w=(np.array([3, -2, 5], np.int32),))
    yield case("Div", INTEGERS, to="int", w=(np.array([3, -2, 5], np.int32),))
    yield case("Sum", X, random(4, seed=6), random(5, 1, seed=7))
    yield case("Mean", X, random(4, seed=6))
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        yield case(op, INTEGERS, w=(np.array([3, 2, -4], np.int32),))
    for op in ("And", "Or", "Xor"):
        yield case(op, BITS, BITS[:, ::-1].copy())
    yield case("Not", BITS)
    yield case("Where", BITS, random(2, 3), random(3, seed=8))
    yield case("IsNaN", np.where(X > 1, np.float32(np.nan), X))
    yield case("IsInf", np.where(X > 1, np.float32(np.inf), X))
    yield Case("Cast int64", "Cast", (X,), (), 1, {"to": 7})
    yield Case("Cast float16", "Cast", (X,), (), 1, {"to": 10})
    yield Case("Cast bool", "Cast", (X,), (), 1, {"to": 9})
    yield case("BitwiseNot", INTEGERS)
    for op in ("BitwiseOr", "BitwiseXor"):
        yield case(op, INTEGERS, w=(np.array([6, 3, 12], np.int32),))
    yield case("CastLike", X, w=(np.array(1, np.int64),))
    yield case("BitwiseAnd", INTEGERS, w=(np.array([6, 3, 12], np.int32),))
    yield case(
        "BitShift",
        INTEGERS.astype(np.uint32) & 7,
        w=(np.array([1, 2, 3], np.uint32),),
        direction="LEFT",
    )


def layers() -> Iterator[Case]:
    kernel, bias = random(6, 3, 3, 2, seed=2), random(6, seed=3)
    yield case("Conv", X, w=(kernel, bias), pads=[1, 0, 0, 1], strides=[2, 1])
    yield case("Conv", X, w=(kernel,), to="same", auto_pad="SAME_UPPER", strides=[2, 2])
    yield case(
        "Conv",
        X,
        w=(random(6, 1, 3, 3, seed=4),),
        to="depthwise",
        group=3,
        dilations=[2, 1],
        pads=[2, 1, 2, 1],
    )
    yield case("Conv", random(2, 4, 9), w=(random(6, 2, 3, seed=4),), to="1d", group=2)
    yield case("Conv", random(1, 2, 4, 5, 3), w=(random(3, 2, 2, 2, 2, seed=4),), to="3d")
    yield case(
        "ConvTranspose", X, w=(random(3, 2, 3, 3, seed=4),), strides=[2, 1], pads=[1, 0, 1, 0]
    )
    yield case(
        "ConvTranspose",
        X,
        w=(random(3, 2, 3, 2, seed=4), random(2, seed=5)),
        to="padded",
        output_padding=[1, 0],
        strides=[2, 2],
    )
    yield case(
        "ConvTranspose", random(1, 4, 5, 5), w=(random(4, 3, 3, 3, seed=4),), to="groups", group=2
    )
    yield case("MaxPool", X, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    yield case("MaxPool", X, to="ceil", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    yield case("AveragePool", X, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    yield case(
        "AveragePool", X, to="included", kernel_shape=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1
    )
    yield case("GlobalAveragePool", X)
    yield case("GlobalMaxPool", X)
    yield case("LpPool", X, kernel_shape=[2, 2])
    yield case("LpNormalization", X, axis=1, p=2)
    four = (
        random(3, seed=3),
        random(3, seed=4),
        random(3, seed=5),
        np.abs(random(3, seed=6)) + 0.2,
    )
    yield case("BatchNormalization", X, w=four, epsilon=0.01)
    yield case("InstanceNormalization", X, w=four[:2])
    yield case("LayerNormalization", X, w=(random(4, seed=3), random(4, seed=4)))
    yield case("LayerNormalization", X, w=(random(5, 4, seed=3),), to="two axes", axis=-2)
    yield case(
        "GroupNormalization",
        random(2, 4, 3, 3),
        w=(random(4, seed=3), random(4, seed=4)),
        num_groups=2,
    )
    yield case("LRN", X, size=3, alpha=0.1)
    yield case("MeanVarianceNormalization", X)
    yield case(
        "Gemm",
        random(3, 4),
        w=(random(5, 4, seed=2), random(5, seed=3)),
        transB=1,
        alpha=0.5,
        beta=2.0,
    )
    yield case("Gemm", random(4, 3), w=(random(4, 5, seed=2),), to="transposed", transA=1)
    yield case("MatMul", M, random(6, 3, seed=3))
    yield case("MatMul", random(2, 1, 3, 4), random(5, 4, 2, seed=3), to="batches")
    yield case("Einsum", M, random(2, 6, 3, seed=3), equation="bij,bjk->bki")
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield case(op, X, axis=1)
    yield case("Dropout", X)
    yield case(
        "LSTM",
        random(4, 2, 3),
        w=(random(2, 20, 3, seed=2), random(2, 20, 5, seed=3), random(2, 40, seed=4)),
        n=3,
        hidden_size=5,
        direction="bidirectional",
    )
    yield case(
        "GRU",
        random(4, 2, 3),
        w=(random(1, 15, 3, seed=2), random(1, 15, 5, seed=3), random(1, 30, seed=4)),
        n=2,
        hidden_size=5,
        linear_before_reset=1,
    )
    yield case(
        "RNN",
        random(4, 2, 3),
        w=(random(1, 5, 3, seed=2), random(1, 5, 5, seed=3)),
        n=2,
        hidden_size=5,
        direction="reverse",
    )
    lengths = np.array([4, 2], np.int32)
    yield case(
        "LSTM",
        random(4, 2, 3),
        w=(random(1, 20, 3, seed=2), random(1, 20, 5, seed=3), None, lengths),
        to="lengths",
        n=3,
        hidden_size=5,
    )
    yield case("GridSample", X, random(2, 3, 3, 2, seed=3) / 2, align_corners=1)
    yield case("DepthToSpace", random(1, 8, 2, 3), blocksize=2)
    yield case("DepthToSpace", random(1, 8, 2, 3), to="crd", blocksize=2, mode="CRD")
    yield case("SpaceToDepth", random(1, 2, 4, 6), blocksize=2)


def shapes() -> Iterator[Case]:
    yield case("Reshape", X, w=(ints(0, -1, 2),))
    yield case("Flatten", X, axis=2)
    yield case("Transpose", X, perm=[2, 0, 3, 1])
    yield case("Squeeze", random(1, 3, 1), w=(ints(0),))
    yield case("Unsqueeze", X, w=(ints(0, -1),))
    yield case("Concat", X, random(2, 3, 1, 4, seed=3), axis=2)
    yield case("Split", X, w=(ints(1, 4),), n=2, axis=2)
    yield case("Split", X, to="equal", n=2, axis=3, num_outputs=2)
    yield case("Slice", X, w=(ints(3, -1), ints(0, -5), ints(2, 3), ints(-1, -2)))
    yield case("Pad", X, w=(ints(0, 0, 1, 2, 0, 0, 0, 1), np.float32(1.5)))
    yield case("Pad", X, w=(ints(0, 0, 1, 2, 0, 0, 2, 1),), to="reflect", mode="reflect")
    yield case("Pad", X, w=(ints(0, 0, 1, 2, 0, 0, 2, 1),), to="edge", mode="edge")
    yield case("Expand", random(3, 1), w=(ints(2, 3, 4),))
    yield case("Tile", random(2, 3), w=(ints(2, 3),))
    yield case("Gather", X, w=(ints(2, -1, 0),), axis=1)
    yield case("Gather", random(7, 3), np.array([[6, 0], [2, -3]], np.int64), to="table")
    yield case("GatherElements", random(3, 3), np.array([[1, 2, 0], [2, 0, -1]], np.int64), axis=0)
    yield case("GatherND", random(2, 3, 4), np.array([[0, 1], [1, -1]], np.int64))
    yield case("ScatterND", random(4, 3), w=(np.array([[2], [0]], np.int64), random(2, 3, seed=4)))
    yield case(
        "ScatterElements",
        random(3, 3),
        w=(np.array([[1, 0, 2]], np.int64), random(1, 3, seed=4)),
        axis=0,
    )
    yield case("TopK", random(3, 7), w=(ints(3),), n=2)
    yield case("TopK", random(3, 7), w=(ints(2),), n=2, to="smallest", largest=0, axis=0)
    yield case("ArgMax", X, axis=2, keepdims=0)
    yield case("ArgMin", X, axis=-1)
    yield case("CumSum", X, w=(np.array(2, np.int64),))
    yield case("CumSum", X, w=(np.array(1, np.int64),), to="backwards", reverse=1, exclusive=1)
    yield case("OneHot", np.array([[1, 3], [0, -1]], np.int64), w=(ints(4), f32(-1, 2)))
    yield case("Trilu", random(4, 5), w=(np.array(1, np.int64),), upper=0)
    yield case("EyeLike", random(3, 4), k=1, dtype=1)
    for op in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"):
        yield case(f"Reduce{op}", POSITIVE, w=(ints(1, -1),), keepdims=0)
    yield case("ReduceMean", X, to="all")
    for mode in ("linear", "cubic", "nearest"):
        yield case("Resize", X, w=(None, None, ints(2, 3, 8, 7)), to=mode, mode=mode)
    yield case(
        "Resize",
        X,
        w=(None, f32(1, 1, 2, 2)),
        to="twice",
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    yield case(
        "Resize", X, w=(None, f32(1, 1, 0.6, 0.5)), to="antialias", mode="linear", antialias=1
    )
    yield case(
        "Resize",
        X,
        w=(None, f32(1, 1, 1.6, 2.5)),
        to="corners",
        mode="cubic",
        coordinate_transformation_mode="align_corners",
        exclude_outside=1,
    )
    yield case("ReduceMin", INTEGERS, w=(ints(1),), to="of integers")
    yield case("Constant", value=numpy_helper.from_array(random(2, 3)))
    yield case("Size", X)
    yield case("Shape", X, start=1)
    yield case("ConstantOfShape", w=(ints(2, 3),))
    yield case("Range", w=(np.float32(1), np.float32(9), np.float32(2)))
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        yield case(op, w=(np.array(8, np.int64),))
    mel = (*(np.array(n, np.int64) for n in (8, 16, 8000)), np.float32(0), np.float32(4000))
    yield case("MelWeightMatrix", w=mel)
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        yield case(op, random(3, 4), w=(ints(1, 0, 3),))
    yield case("AffineGrid", random(2, 2, 3), w=(ints(2, 3, 4, 5),))
    yield case("CenterCropPad", X, w=(ints(3, 6),), axes=[2, 3])


def quantized() -> Iterator[Case]:
    a = np.random.default_rng(1).integers(0, 255, (3, 8), np.uint8)
    b = np.random.default_rng(2).integers(-127, 127, (8, 5), np.int8)
    yield case(
        "QuantizeLinear", 30 * X, w=(f32(0.3, 0.2, 0.5), np.array([3, 128, 200], np.uint8)), axis=1
    )
    yield case("DequantizeLinear", a, w=(np.float32(0.02), np.uint8(113)))
    yield case("DynamicQuantizeLinear", random(3, 8), n=3)
    yield case("DynamicQuantizeLinear", np.zeros((3, 8), np.float32), to="of zeros", n=3)
    yield case("MatMulInteger", a, w=(b, np.uint8(7), np.int8(-3)))
    scale = (
        np.float32(0.02),
        np.uint8(113),
        b // 2,  # ONNX Runtime limits sums of two products to 16 bits on CPUs without VNNI
        np.float32(0.01),
        np.int8(2),
        np.float32(0.4),
        np.uint8(120),
    )
    yield case("QLinearMatMul", a, w=scale)
    x = np.random.default_rng(1).integers(0, 255, (1, 2, 5, 5), np.uint8)
    k = np.random.default_rng(2).integers(-127, 127, (3, 2, 3, 3), np.int8)
    yield case("ConvInteger", x, w=(k.view(np.uint8), np.uint8(7)))
    more = (
        np.float32(0.02),
        np.uint8(113),
        k,
        np.float32(0.01),
        np.int8(0),
        np.float32(0.4),
        np.uint8(120),
    )
    yield case("QLinearConv", x, w=(*more, np.array([100, -50, 7], np.int32)))
    alone = np.random.default_rng(3).integers(-128, 127, (2, 1, 3, 3), np.int8)
    pads = [1, 1, 1, 1]
    yield case("ConvInteger", x, to="depthwise", w=(alone, np.uint8(7)), group=2, pads=pads)
    of_features = (*more[:2], alone, *more[3:], np.array([100, -50], np.int32))
    yield case("QLinearConv", x, to="depthwise", w=of_features, group=2, pads=pads)


def older() -> Iterator[Case]:
    """Forms that operations had in opset 11."""
    yield case("Softmax", X, axis=2)
    yield case("Squeeze", random(1, 3, 1), axes=[0])
    yield case("Unsqueeze", X, axes=[0, 5])
    yield case("Split", X, n=2, axis=2, split=[1, 4])
    yield case("ReduceSum", X, axes=[1, 3], keepdims=0)
    yield case("Clip", X, w=(np.float32(-0.5), np.float32(0.7)))
    yield case(
        "BatchNormalization",
        X,
        w=(
            random(3, seed=3),
            random(3, seed=4),
            random(3, seed=5),
            np.abs(random(3, seed=6)) + 0.2,
        ),
    )
    yield case("Dropout", X, ratio=0.4)
    yield case("AveragePool", X, kernel_shape=[2, 2], auto_pad="SAME_LOWER")
    yield case(
        "Resize",
        X,
        w=(f32(), f32(1, 1, 2, 2)),
        mode="linear",
        coordinate_transformation_mode="pytorch_half_pixel",
    )


def oldest() -> Iterator[Case]:
    """Operations that later versions have under other names."""
    yield case("Upsample", X, w=(f32(1, 1, 2, 3),), mode="nearest")
    places = np.array([[1, 0], [2, 3]], np.int64)
    yield case("Scatter", random(3, 4), w=(places, random(2, 2, seed=4)), axis=1)


GROUPS: dict[int, tuple[Callable[[], Iterator[Case]], ...]] = {
    21: (elementwise, layers, shapes, quantized, loops, sampling, recurrent),
    20: (fusions, attention, quantized_fusions, classical),
    11: (older,),
    9: (oldest,),
}


DOMAINS = {MICROSOFT: 1, CLASSICAL: 3}


def merge(cases: list[Case], opset: int) -> Any:
    """One model of several cases; their values are told apart by their names."""
    nodes = [one.node() for one in cases]
    graph = helper.make_graph(
        nodes,
        "cases",
        [info(name, v.shape, v.dtype) for one in cases for name, v in one.feeds.items()],
        [onnx.ValueInfoProto(name=name) for made in nodes for name in made.output],
        [numpy_helper.from_array(v, name) for one in cases for name, v in one.weights.items()],
    )
    opsets = [helper.make_opsetid(*one) for one in {"": opset, **DOMAINS}.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {n: t for one in cases for n, t in zip(one.node().output, one.types, strict=False)}
    for output in inferred.graph.output:  # of operations for which ONNX infers no shape
        element = helper.np_dtype_to_tensor_dtype(np.dtype(types.get(output.name, np.float32)))
        output.type.tensor_type.elem_type = output.type.tensor_type.elem_type or element
    return inferred


def difference(found: Array, expected: Array) -> float:
    """Relative to the largest value; infinite for another shape or type."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    if not found.size:
        return 0.0
    one, two = found.astype(np.float64), expected.astype(np.float64)
    scale = max(1.0, float(np.abs(two[np.isfinite(two)]).max(initial=0)))
    return (
        float(
            np.nan_to_num(
                np.abs(one - two), nan=0 if (np.isnan(one) == np.isnan(two)).all() else 9
            ).max()
        )
        / scale
    )


def run_graph(loaded: Any, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """What a model was converted to, evaluated by TensorFlow."""
    import tensorflow as tf  # a test reads the table of cases without it

    made = loaded.graph({name: values.shape for name, values in feeds.items()})
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.import_graph_def(made.graph_def, name="")
        given = {f"{made.feeds[name]}:0": values for name, values in feeds.items()}
        fetched = {name: fetch.tensor for name, fetch in made.fetches.items()}
        results: dict[str, Array] = session.run(fetched, given)
        return results


def main(directory: Path) -> None:
    """Prints the differences."""
    found: dict[str, float] = {}
    for opset, groups in GROUPS.items():
        cases = [one for group in groups for one in group()]
        name = f"opset{opset}.onnx"
        model = merge(cases, opset)
        onnx.save(model, directory / name)
        feeds = {k: v for one in cases for k, v in one.feeds.items()}
        names = [output.name for output in model.graph.output]
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.x64quantprecision", "1")  # without VNNI too
        session = onnxruntime.InferenceSession(directory / name, options)
        expected = dict(zip(names, session.run(names, feeds), strict=True))
        reading = OnnxReading(file=name)
        loaded = formats.of(reading).load(directory, reading, formats.DEFAULT_SIGNATURE)
        results = run_graph(loaded, feeds)
        for one in cases:
            worst = max(difference(np.asarray(results[n]), expected[n]) for n in one.node().output)
            found[f"{one.name}, opset {opset}"] = worst
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
