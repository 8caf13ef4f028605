"""Judges models of one operation as the job `reference` does: the framework is a function of NumPy, its conversion a graph.

Prints what is known about each, as JSON; for test_judged.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import tensorflow as tf

from modelwheel.compiler.freeze.frozen import freeze_graph
from modelwheel.compiler.loaded.base import Arrays, Fetch, SignatureGraph, StaticShapes
from modelwheel.compiler.reference.boundary import evaluate_boundary
from modelwheel.compiler.reference.fitting import check_few_rows, fitting_rows
from modelwheel.compiler.reference.row_noise import RowNoise
from modelwheel.compiler.reference.rows import Rows, check_rows
from modelwheel.compiler.reference.truth.evaluate import kept_sessions, opened
from modelwheel.compiler.reference.truth.find import find_truth
from modelwheel.compiler.stablehlo.xla_module import call_module, embedded_module, read_module
from modelwheel.model.inspection import SignatureInfo, TensorInfo
from modelwheel.model.reference_result import Reference, input_key, output_key
from modelwheel.workers.jobs import ReferenceRequest

Array = np.ndarray[Any, Any]
WEIGHTS = np.random.default_rng(5).normal(size=(4, 4)).astype(np.float32)


class Model:
    """A model of one input `x` [rows, 4], which its framework and its conversion compute."""

    evaluator = "Another 1"

    def __init__(
        self, framework: Callable[[Array], Arrays], graph: Callable[[Any], dict[str, Any]]
    ) -> None:
        self._framework, self._graph = framework, graph
        outputs = framework(np.ones((1, 4), np.float32))
        self.info = SignatureInfo(
            key="serving_default",
            inputs=(TensorInfo(name="x", dtype="float32", shape=(None, 4)),),
            outputs=tuple(
                TensorInfo(name=name, dtype=values.dtype.name, shape=(None, *values.shape[1:]))
                for name, values in outputs.items()
            ),
        )

    def __call__(self, inputs: Arrays) -> Arrays:
        with np.errstate(all="ignore"):
            return self._framework(inputs["x"])

    def graph(self, shapes: StaticShapes, keep: object = ()) -> SignatureGraph:  # noqa: ARG002
        # As formats do that read variables for it.
        assert tf.executing_eagerly()
        with tf.Graph().as_default() as graph:
            x = tf.compat.v1.placeholder(tf.float32, shapes["x"], "x")
            found = self._graph(x)
        fetches = {name: Fetch(tensor.name, tensor.dtype) for name, tensor in found.items()}
        return SignatureGraph(graph.as_graph_def(), {"x": "x"}, fetches)


def _normalise(x: Array) -> Array:
    norm = np.sqrt((x * x).sum(1, keepdims=True))
    return np.asarray(np.where(norm > 0, x / norm, 0.0), np.float32)


def _norm(x: Any) -> Any:
    return x / tf.sqrt(tf.reduce_sum(x * x, 1, keepdims=True))


def _best(x: Array, of_nan: int) -> Arrays:
    shares = x / np.abs(x).sum(1, keepdims=True)
    nan = np.isnan(shares).any(1)
    best = np.where(nan, of_nan, np.nan_to_num(shares).argmax(1)).astype(np.int64)
    return {"shares": shares.astype(np.float32), "best": best}


def _best_graph(x: Any) -> dict[str, Any]:
    shares = x / tf.reduce_sum(tf.abs(x), 1, keepdims=True)
    nan = tf.reduce_any(tf.math.is_nan(shares), 1)
    best = tf.where(nan, tf.constant(3, tf.int64), tf.argmax(shares, 1))
    return {"shares": shares, "best": best}


def _loudness(x: Array) -> Arrays:
    """From 0 to 1; the last logarithm of each row is computed in another way, as by a loop beside one of vectors."""
    found = np.log(x * x + np.float32(1e-10))
    found[:, -1] = np.nextafter(found[:, -1], np.float32(np.inf))
    found -= found.min(1, keepdims=True)
    largest = found.max(1, keepdims=True)
    return {"y": np.where(largest > 0, found / np.where(largest > 0, largest, 1), found)}


_LOUDNESS = """
func.func public @main(%x: tensor<ROWSx4xf32>) -> tensor<ROWSx4xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<ROWSx4xf32>
  %one = stablehlo.constant dense<1.0> : tensor<ROWSx4xf32>
  %least = stablehlo.constant dense<1.0e-10> : tensor<ROWSx4xf32>
  %0 = stablehlo.multiply %x, %x : tensor<ROWSx4xf32>
  %1 = stablehlo.add %0, %least : tensor<ROWSx4xf32>
  %2 = stablehlo.log %1 : tensor<ROWSx4xf32>
  %3 = stablehlo.reduce(%2 init: %high) applies stablehlo.minimum across dimensions = [1] : (tensor<ROWSx4xf32>, tensor<f32>) -> tensor<ROWSxf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<ROWSxf32>) -> tensor<ROWSx4xf32>
  %5 = stablehlo.subtract %2, %4 : tensor<ROWSx4xf32>
  %6 = stablehlo.reduce(%5 init: %none) applies stablehlo.maximum across dimensions = [1] : (tensor<ROWSx4xf32>, tensor<f32>) -> tensor<ROWSxf32>
  %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<ROWSxf32>) -> tensor<ROWSx4xf32>
  %8 = stablehlo.compare GT, %7, %zero : (tensor<ROWSx4xf32>, tensor<ROWSx4xf32>) -> tensor<ROWSx4xi1>
  %9 = stablehlo.select %8, %7, %one : tensor<ROWSx4xi1>, tensor<ROWSx4xf32>
  %10 = stablehlo.divide %5, %9 : tensor<ROWSx4xf32>
  return %10 : tensor<ROWSx4xf32>
}
"""


def _loudness_graph(x: Any) -> dict[str, Any]:
    text = _LOUDNESS.replace("ROWS", str(x.shape[0]))
    (found,) = call_module(read_module(text.encode(), "x").bytecode, [x], [("float32", x.shape)])
    return {"y": found}


_CHOSEN = """
func.func public @main(%x: tensor<ROWSx4xf32>) -> tensor<ROWSx1xf32> {
  %none = stablehlo.constant dense<0.0> : tensor<f32>
  %way = stablehlo.constant dense<1> : tensor<i32>
  %0 = "stablehlo.case"(%way) ({
    %2 = stablehlo.tanh %x : tensor<ROWSx4xf32>
    stablehlo.return %2 : tensor<ROWSx4xf32>
  }, {
    %2 = stablehlo.logistic %x : tensor<ROWSx4xf32>
    stablehlo.return %2 : tensor<ROWSx4xf32>
  }) : (tensor<i32>) -> tensor<ROWSx4xf32>
  %1 = stablehlo.reduce(%0 init: %none) applies stablehlo.add across dimensions = [1] : (tensor<ROWSx4xf32>, tensor<f32>) -> tensor<ROWSxf32>
  %3 = stablehlo.reshape %1 : (tensor<ROWSxf32>) -> tensor<ROWSx1xf32>
  %4 = stablehlo.constant dense<4.0> : tensor<f32>
  %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<ROWSx1xf32>
  %6 = stablehlo.divide %3, %5 : tensor<ROWSx1xf32>
  return %6 : tensor<ROWSx1xf32>
}
"""
"""The mean of sigmoids, in a branch."""


def _chosen_graph(x: Any) -> dict[str, Any]:
    text = _CHOSEN.replace("ROWS", str(x.shape[0]))
    module = read_module(text.encode(), "x").bytecode
    (found,) = call_module(module, [x], [("float32", (x.shape[0], 1))])
    return {"y": found}


_WIDE = np.random.default_rng(6).normal(size=(4, 4096)).astype(np.float32) / 100
_LONG = np.random.default_rng(7).normal(size=(4096, 4)).astype(np.float32) / 2


def _long(x: Array, multiply: Callable[[Array, Array], Array] = np.matmul) -> Arrays:
    """Exponentials of sums of 4096 products, which show the last places of these."""
    total = multiply(x @ _WIDE + 1, _LONG)
    return {"y": np.exp(total, dtype=np.float32)}


def _one_by_one(x: Array, weights: Array) -> Array:
    """A product of matrices as a loop in float32 adds it up."""
    return np.array([np.cumsum(row[:, None] * weights, 0, np.float32)[-1] for row in x])


def long_sums(x: Array) -> dict[str, float]:
    """How far a right library is from float64, relative to the usual tolerance, and to what rounding may move it."""
    model = Model(_long, lambda x: {"y": tf.exp((x @ _WIDE + 1.0) @ _LONG)})
    judged = judge(model, x)
    wide = (x.astype(np.float64) @ _WIDE + 1) @ _LONG.astype(np.float64)
    exact = np.exp(wide)
    error = np.abs(_long(x, _one_by_one)["y"] - exact).max(1)
    allowed = 4 * np.reshape(judged["noise"]["noise/4/y"], (-1, exact.size // 4)).max(1)
    return {
        "of tolerance": float((error / (1e-5 * exact.max(1))).max()),
        "of allowed": float((error / np.broadcast_to(allowed, error.shape)).max()),
    }


def _product(x: Array, weights: Array = WEIGHTS) -> Arrays:
    return {"y": x @ weights}


def _spectrum(x: Array) -> Arrays:
    """A share of the largest logarithm; NaN counts for nothing, as in maxima of TensorFlow Lite."""
    found = np.log(x * x)
    found = found - found.mean(1, keepdims=True)
    return {"y": np.fmax(found, np.float32(0))}


def _spectrum_graph(x: Any) -> dict[str, Any]:
    found = tf.math.log(x * x)
    return {"y": tf.nn.relu(found - tf.reduce_mean(found, 1, keepdims=True))}


MODELS = {
    # What the framework does with zeros is lost in the conversion.
    "lost": Model(lambda x: {"y": _normalise(x)}, lambda x: {"y": _norm(x)}),
    "kept": Model(
        lambda x: {"y": _normalise(x)},
        lambda x: {"y": tf.where(tf.reduce_any(tf.not_equal(x, 0.0), 1, keepdims=True), _norm(x), 0.0)},
    ),
    # Neither says what the largest of NaN is.
    "nan": Model(lambda x: _best(x, 1), _best_graph),
    # A unit in the last place decides about all values of a row of zeros.
    "loudness": Model(_loudness, _loudness_graph),
    # Logarithms of zeros less their mean are NaN, which only one of both maxima keeps.
    "spectrum": Model(_spectrum, _spectrum_graph),
    "weights": Model(_product, lambda x: {"y": x @ (WEIGHTS * np.float32(1.001))}),
    "right": Model(_product, lambda x: {"y": x @ WEIGHTS}),
    "half": Model(
        lambda x: {"y": np.tanh(x.astype(np.float16) @ WEIGHTS.astype(np.float16)).astype(np.float32)},
        lambda x: {"y": tf.cast(tf.tanh(tf.cast(x, tf.float16) @ WEIGHTS.astype(np.float16)), tf.float32)},
    ),
    "chosen": Model(
        lambda x: {"y": (1 / (1 + np.exp(-x))).mean(1, keepdims=True, dtype=np.float32)}, _chosen_graph
    ),
    "shares": Model(
        lambda x: {"y": (1 / (1 + np.exp(20 - x @ WEIGHTS))).astype(np.float32)},
        lambda x: {"y": tf.sigmoid(x @ WEIGHTS - 20.0)},
    ),
}  # fmt: skip


def judge(model: Model, x: Array) -> dict[str, Any]:
    """The truth of four rows, of which some may be zeros, and of boundary rows."""
    request = ReferenceRequest(signature="serving_default", batch_sizes=(1, 4), rows=(1, 4))
    outputs = {rows: model({"x": x[:rows]}) for rows in (1, 4)}
    summary = Reference(
        independent=True, reason=None, leading_per_row=dict.fromkeys(outputs[1], 1),
        batched_inputs=("x",), rows=(1, 4),
    )  # fmt: skip
    arrays = {input_key("x"): x} | {
        output_key(str(rows), name): values
        for rows, found in outputs.items()
        for name, values in found.items()
    }
    summary, boundary = evaluate_boundary(model, model, arrays, summary, request)
    found, truth = find_truth(model, arrays, summary, request)
    said = boundary.add_to(truth).model_dump(mode="json")
    noise = {key: values.tolist() for key, values in found.items() if key.startswith("noise/4/")}
    return {**said, "noise": noise, "defined": sorted(boundary.arrays)}


def independence() -> list[bool]:
    """Whether noise explains what NumPy makes of other rows, for a model without it, and for one that mixes rows."""
    random = np.random.default_rng(1)
    rows, other = (
        Rows({"x": random.normal(size=(4, 4)).astype(np.float32)}, frozenset({"x"})) for _ in "ab"
    )

    def mix(x: Any) -> dict[str, Any]:
        return {"y": x @ WEIGHTS + 1e-5 * tf.reduce_mean(x)}

    def noisy(x: Array) -> Arrays:
        return {"y": x @ WEIGHTS + np.float32(1e-2 * len(x))}

    found = []
    for graph in (lambda x: {"y": x @ WEIGHTS}, mix):
        model = Model(noisy, graph)
        with closing(RowNoise(model, by_spread=True)) as noise:
            found.append(check_rows(model, rows, other, {4: model(rows.arrays)}, (), noise))
    return [verdict.reason is None for verdict in found]


def fits() -> dict[str, Any]:
    """What rows that are evaluated a few at a time give, and how many are evaluated at once."""
    random = np.random.default_rng(1)
    rows, other = (
        Rows({"x": random.normal(size=(19, 4)).astype(np.float32)}, frozenset({"x"})) for _ in "ab"
    )
    most = 0

    def evaluate(arrays: Arrays) -> Arrays:
        nonlocal most
        most = max(most, len(arrays["x"]))
        return {"y": arrays["x"] @ WEIGHTS}

    few, at_once = check_few_rows(evaluate, rows, other, 4, (1, 3, 16, 19), lambda *_: False), most
    assert few is not None
    outputs, verdict = few
    expected = evaluate(rows.arrays)["y"]
    mixed = check_few_rows(
        lambda arrays: {"y": arrays["x"] - arrays["x"].mean(0)},
        rows,
        other,
        4,
        (1, 19),
        lambda *_: False,
    )
    large = Model(_product, lambda x: {"y": tf.reduce_max(tf.tile(x, [1, 1 << 22]), 1)})
    bytes_of_rows = np.zeros((19, 1 << 14), np.float32)
    return {
        "same": all(np.allclose(outputs[n]["y"], expected[:n]) for n in (1, 3, 16, 19)),
        "leading": verdict.leading_per_row,
        "mixed": mixed is None,
        "small": fitting_rows(large, rows),
        "large": fitting_rows(large, Rows({"x": bytes_of_rows}, frozenset({"x"}))),
        "at_once": at_once,
    }


def sessions(x: Array) -> dict[str, Any]:
    """Which evaluations of a graph share a session, within `kept_sessions` and outside, and whether the shared one is right."""

    def times(factor: float) -> Callable[[Any], dict[str, Any]]:
        return lambda x: {"y": factor * x}

    def evaluators() -> list[Callable[[Arrays], Arrays]]:
        found = []
        for factor in (2.0, 2.0, 3.0):
            model = Model(_product, times(factor))
            frozen = freeze_graph(model.graph({"x": x.shape}), {"x": x.shape})
            with opened(frozen.graph_def, frozen) as call:
                found.append(call)
        return found

    with kept_sessions():
        first, second, other = evaluators()
        right = [np.array_equal(call({"x": x})["y"], n * x) for call, n in ((first, 2), (other, 3))]
    content = _LOUDNESS.replace("ROWS", "4").encode()
    return {
        "module": embedded_module(content) is embedded_module(content[:9] + content[9:]),
        "same": first is second,
        "other": first is other,
        "right": right,
        "outside": len(set(evaluators())) < 3,
    }


def main() -> None:
    x = np.random.default_rng(3).normal(size=(4, 4)).astype(np.float32)
    with_zeros = x.copy()
    with_zeros[2] = 0
    found = {
        name: judge(model, with_zeros if name == "nan" else x) for name, model in MODELS.items()
    }
    more = {
        "independence": independence(),
        "long": long_sums(x),
        "fits": fits(),
        "sessions": sessions(x),
    }
    sys.stdout.write(json.dumps({**found, **more}))


if __name__ == "__main__":
    main()
