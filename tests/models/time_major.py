"""A network whose rows are on axis 1 of its inputs, in one format: `python -m tests.models.time_major DIRECTORY FORMAT`.

Inputs are x [3, batch, 2] and h [1, batch]; `expected` has the outputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

_Array = np.ndarray[Any, Any]

STABLEHLO = """\
func.func @main(%x: tensor<3x?x2xf32>, %h: tensor<1x?xf32>)
    -> (tensor<1x?xf32>, tensor<?xf32>, tensor<2x3x?xf32>) {
  %last = stablehlo.add %h, %h : tensor<1x?xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %squares = stablehlo.multiply %x, %x : tensor<3x?x2xf32>
  %power = stablehlo.reduce(%squares init: %zero) applies stablehlo.add across dimensions = [0, 2]
    : (tensor<3x?x2xf32>, tensor<f32>) -> tensor<?xf32>
  %moved = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<3x?x2xf32>) -> tensor<2x3x?xf32>
  %y = stablehlo.tanh %moved : tensor<2x3x?xf32>
  return %last, %power, %y : tensor<1x?xf32>, tensor<?xf32>, tensor<2x3x?xf32>
}
"""


def expected(x: _Array, h: _Array) -> dict[str, _Array]:
    """The outputs: last [1, batch], pairs [3, batch * 2], power [batch] and y [2, 3, batch]."""
    return {
        "last": h + h,
        "pairs": x.reshape(3, -1),
        "power": np.asarray((x * x).sum((0, 2))),
        "y": np.tanh(x.transpose(2, 0, 1)),
    }


def _write_saved_model(directory: Path) -> None:
    import tensorflow as tf

    specs = [tf.TensorSpec([3, None, 2], tf.float32), tf.TensorSpec([1, None], tf.float32)]
    module = tf.Module()

    @tf.function(input_signature=specs)  # type: ignore[untyped-decorator, unused-ignore]
    def call(x: Any, h: Any) -> dict[str, Any]:
        return {
            "last": h + h,
            "pairs": tf.reshape(x, [3, -1]),
            "power": tf.reduce_sum(x * x, [0, 2]),
            "y": tf.tanh(tf.transpose(x, [2, 0, 1])),
        }

    tf.saved_model.save(module, str(directory), signatures=call)


def _write_onnx(directory: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    nodes = [
        # A scalar beside inputs with rows.
        helper.make_node("Sub", ["rate", "rate"], ["none"]),
        helper.make_node("Sum", ["h", "h", "none"], ["last"]),
        helper.make_node("Reshape", ["x", "shape"], ["pairs"]),
        helper.make_node("Mul", ["x", "x"], ["squares"]),
        helper.make_node("ReduceSum", ["squares", "axes"], ["power"], keepdims=0),
        helper.make_node("Transpose", ["x"], ["moved"], perm=[2, 0, 1]),
        helper.make_node("Tanh", ["moved"], ["y"]),
    ]
    shapes: dict[str, Any] = {"x": [3, "N", 2], "h": [1, "N"], "last": [1, "N"], "pairs": [3, None]}
    # Axis 2 of y is the batch: exporters write the names that they are told.
    shapes |= {"rate": [], "power": [None], "y": ["N", None, None]}
    infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()}
    constants = [
        helper.make_tensor(name, TensorProto.INT64, [2], values)
        for name, values in (("shape", [3, -1]), ("axes", [0, 2]))
    ]
    outputs = [infos[name] for name in ("last", "pairs", "power", "y")]
    graph = helper.make_graph(
        nodes, "time_major", [infos[name] for name in ("x", "h", "rate")], outputs, constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, directory / "model.onnx")


def _write_jax(directory: Path) -> None:
    import jax
    import jax.numpy as jnp
    from jax import export

    def call(inputs: dict[str, Any]) -> dict[str, Any]:
        x, h = inputs["x"], inputs["h"]
        y = jnp.tanh(x.transpose(2, 0, 1))
        return {"last": h + h, "pairs": x.reshape(3, -1), "power": (x * x).sum((0, 2)), "y": y}

    (rows,) = export.symbolic_shape("rows_of_batch")
    shapes = {"x": (3, rows, 2), "h": (1, rows)}
    specs = {
        name: jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call, unused-ignore]
        for name, shape in shapes.items()
    }
    exported = export.export(jax.jit(call), platforms=["cpu"])(specs)
    (directory / "model.jax").write_bytes(exported.serialize())


_WRITERS: dict[str, Callable[[Path], None]] = {
    "jax": _write_jax,
    "onnx": _write_onnx,
    "saved_model": _write_saved_model,
}

if __name__ == "__main__":
    _WRITERS[sys.argv[2]](Path(sys.argv[1]))
