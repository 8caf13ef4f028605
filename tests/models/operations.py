"""Two models that together use every kind of step that XLA emits and the runtime has a kernel for.

python -m tests.models.operations DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


def save_operations(directory: Path) -> None:
    """Saves `batched`, `fixed` and `types` below the directory."""
    batched, fixed, types = Batched(), Fixed(), Types()
    tf.saved_model.save(
        types, str(directory / "types"), signatures={"serving_default": types.evaluate}
    )
    tf.saved_model.save(
        batched, str(directory / "batched"), signatures={"serving_default": batched.evaluate}
    )
    tf.saved_model.save(
        fixed, str(directory / "fixed"), signatures={"serving_default": fixed.evaluate}
    )


ROWS = [
    tf.TensorSpec([None, 6, 8], tf.float32, name="x"),
    tf.TensorSpec([None, 5], tf.int32, name="n"),
]
"""The inputs x and n of models of many operations."""


class Seeded(tf.Module):  # type: ignore[misc]
    """A model with random weights, the same each time it is made."""

    SEED = 0

    def __init__(self) -> None:
        super().__init__()
        self._generator = np.random.default_rng(self.SEED)

    def _weights(self, *shape: int, dtype: Any = np.float32) -> Any:
        return tf.constant(self._generator.standard_normal(shape).astype(dtype))


class Batched(Seeded):
    """Steps over `ROWS`."""

    @tf.function(input_signature=ROWS)  # type: ignore[untyped-decorator]
    def evaluate(self, x: Any, n: Any) -> dict[str, Any]:
        """One output for each operation."""
        return {
            **self._ordering(x),
            **self._transforms(x),
            **self._products(x, n),
            **self._convolutions(x),
            **self._loops(x),
            **self._types(x, n),
        }

    def _ordering(self, x: Any) -> dict[str, Any]:
        values, indices = tf.math.top_k(x, 3)
        return {
            "sort": tf.sort(x, axis=-1),
            "sort_middle_axis": tf.sort(x, axis=1, direction="DESCENDING"),
            "argsort": tf.argsort(x, axis=-1, stable=True),
            "top_k_values": values,
            "top_k_indices": indices,
            "argmax": tf.argmax(x, axis=-1),
        }

    def _transforms(self, x: Any) -> dict[str, Any]:
        z = tf.cast(x, tf.complex64)
        return {
            "fft": tf.math.abs(tf.signal.fft(z)),
            "fft2d": tf.math.real(tf.signal.fft2d(z)),
            "rfft": tf.math.imag(tf.signal.rfft(x)),
            "irfft": tf.signal.irfft(tf.signal.rfft(x)),
            "ifft_of_odd_length": tf.math.real(tf.signal.ifft(z[:, :, :7])),
        }

    def _products(self, x: Any, n: Any) -> dict[str, Any]:
        z = tf.cast(x, tf.complex64)
        integers = tf.constant(self._generator.integers(-9, 9, (5, 3)), tf.int32)
        half = tf.matmul(tf.cast(x, tf.float16), tf.cast(self._weights(8, 4), tf.float16))
        return {
            "matmul": tf.matmul(x, self._weights(8, 16)),
            "matmul_transposed": tf.matmul(x, self._weights(16, 8), transpose_b=True),
            "batch_matmul": tf.matmul(x, x, transpose_b=True),
            "batch_matmul_left": tf.matmul(x, x, transpose_a=True),
            "matmul_float64": tf.matmul(tf.cast(x, tf.float64), self._weights(8, 4, dtype="f8")),
            "matmul_int32": tf.matmul(n[:, None, :], integers),
            "matmul_float16": tf.cast(half, tf.float32),
            "matmul_complex": tf.math.real(tf.matmul(z, tf.cast(self._weights(8, 4), z.dtype))),
        }

    def _convolutions(self, x: Any) -> dict[str, Any]:
        grey = tf.reshape(x, [-1, 6, 8, 1])
        image = tf.tile(grey, [1, 1, 1, 4])
        volume = tf.reshape(x, [-1, 6, 4, 2, 1])
        upsampled = tf.stack([tf.shape(x)[0], 12, 16, 2])
        w = self._weights
        return {
            "convolution": tf.nn.conv2d(grey, w(3, 3, 1, 5), 1, "SAME"),
            "strided": tf.nn.conv2d(image, w(3, 2, 4, 6), [1, 2, 2, 1], "VALID"),
            "dilated": tf.nn.conv2d(image, w(3, 3, 4, 6), 1, "SAME", dilations=2),
            "depthwise": tf.nn.depthwise_conv2d(image, w(3, 3, 4, 2), [1, 1, 1, 1], "SAME"),
            "grouped": tf.nn.conv2d(image, w(3, 3, 2, 6), 1, "SAME"),
            "transposed": tf.nn.conv2d_transpose(image, w(3, 3, 2, 4), upsampled, 2, "SAME"),
            # Longer than the input: XLA exchanges the two.
            "conv1d": tf.nn.conv1d(x, w(9, 8, 7), 1, "SAME"),
            "conv3d": tf.nn.conv3d(volume, w(2, 2, 2, 1, 3), [1] * 5, "SAME"),
            "max_pool": tf.nn.max_pool2d(image, 2, 2, "SAME"),
        }

    def _loops(self, x: Any) -> dict[str, Any]:
        return {
            "while": tf.while_loop(
                lambda i, _: i < 5, lambda i, a: (i + 1, tf.tanh(a * 1.1) + 0.1), [0, x]
            )[1],
            "scan": tf.scan(lambda a, t: a * 0.5 + t, tf.transpose(x, [1, 0, 2]))[-1],
            "cumsum": tf.cumsum(x, axis=1),
        }

    def _types(self, x: Any, n: Any) -> dict[str, Any]:
        return {
            "softmax": tf.nn.softmax(x),
            "erf": tf.math.erf(x),
            "gather": tf.gather(self._weights(7, 3), tf.math.floormod(n, 7)),
            "one_hot": tf.one_hot(n, 4),
            "bool": x > 0,
            "int64": tf.cast(n, tf.int64) * 3,
            "uint8": tf.cast(tf.math.abs(n), tf.uint8),
            "float16": tf.cast(x, tf.float16),
            "bfloat16": tf.cast(x, tf.bfloat16),
            "complex": tf.complex(x, -x),
        }


class Fixed(tf.Module):  # type: ignore[misc]
    """Control flow over one vector: branches by predicate and by index, a loop of unknown length."""

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[
            tf.TensorSpec([4], tf.float32, name="x"),
            tf.TensorSpec([], tf.int32, name="k"),
        ]
    )
    def evaluate(self, x: Any, k: Any) -> dict[str, Any]:
        """One output for each kind of control flow, and results that XLA leaves in odd places."""
        return {
            "cond": tf.cond(tf.reduce_sum(x) > 0, lambda: tf.sin(x) * 2, lambda: x - 1),
            "switch": tf.switch_case(k, [lambda: x + 1, lambda: x * x, lambda: tf.exp(x)]),
            "loop": tf.while_loop(
                lambda a: tf.reduce_sum(tf.abs(a)) < 100.0, lambda a: (a * 1.5 + 1,), [x]
            )[0],
            "scalar": tf.reduce_sum(x),
            "input_passed_on": x,
            "constant": tf.constant([1.0, 2.0]),
        }


TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
"""All element types that have an input and an output."""


class Types(tf.Module):  # type: ignore[misc]
    """Every element type in and out, and random numbers that follow from a seed."""

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[
            [tf.TensorSpec([None, 3], dtype, name=f"in_{dtype}") for dtype in TYPES],
            tf.TensorSpec([2], tf.int32, name="seed"),
        ]
    )
    def evaluate(self, tensors: Any, seed: Any) -> dict[str, Any]:
        """One output for each type and each distribution."""
        outputs = {}
        for dtype, x in zip(TYPES, tensors, strict=True):
            if dtype == "bool":
                outputs["out_bool"] = tf.logical_not(x)
            elif "int" in dtype:
                outputs[f"out_{dtype}"] = tf.bitwise.bitwise_xor(x, tf.reverse(x, [1]))
            else:  # rounded once, so that 16-bit floats are the same to the last bit
                outputs[f"out_{dtype}"] = x + tf.reverse(x, [1])
        rows = tf.cast(tensors[TYPES.index("float32")], tf.float32)
        random = tf.random
        # XLA makes other numbers of the same bits.
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            outputs[f"uniform_{dtype}"] = random.stateless_uniform([2, 5], seed, dtype=dtype)
            outputs[f"normal_{dtype}"] = random.stateless_normal([3, 5], seed, dtype=dtype)
        first = tf.raw_ops.StatelessRandomUniform(shape=[5], seed=seed)
        bits = random.stateless_uniform([3], seed, minval=None, maxval=None, dtype=tf.uint32)
        return {
            **outputs,
            "uniform": rows + tf.cast(tf.bitwise.right_shift(bits, 9), tf.float32) * 2.0**-23,
            "first_version": first,
            "loop": tf.scan(
                lambda a, i: a + random.stateless_normal([3], seed + i), tf.range(4), rows[0]
            ),
            "integers": random.stateless_uniform([5], seed, 0, 1000, tf.int32),
            "shuffled": random.stateless_uniform(
                [5], seed, minval=None, maxval=None, dtype=tf.int64
            ),
        }


if __name__ == "__main__":
    save_operations(Path(sys.argv[1]))
