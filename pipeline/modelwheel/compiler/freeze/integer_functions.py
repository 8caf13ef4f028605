"""Operations on integers, and conversions to them, written so that XLA computes what TensorFlow's kernels do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from ..stablehlo.canonical import canonical_form
from ..stablehlo.xla_module import call_module

_BYTES = (tf.int8, tf.uint8)
_GATHERS = frozenset({("Gather", 1), ("GatherV2", 1), ("GatherNd", 1)})
"""Where an index that no integer can be is no better than another one out of range."""


@dataclass(frozen=True)
class Operation:
    """A node of a graph."""

    node: Any
    nodes: Mapping[str, Any]
    """All of its body, by name."""
    readers: Collection[tuple[str, int]]
    """The operations that read it, and as which of their inputs."""

    def type(self, attribute: str) -> Any:
        """A type among its attributes."""
        return tf.dtypes.as_dtype(self.node.attr[attribute].type)

    def constant(self, position: int) -> np.ndarray[Any, Any] | None:
        """An input, if it is a constant; variables are read as copies, which may be reshaped."""
        return self._constant(self.node.input[position])

    def _constant(self, tensor: str) -> np.ndarray[Any, Any] | None:
        node = self.nodes.get(tensor.partition(":")[0])
        if node is None:
            return None
        if node.op == "Const":
            return np.asarray(tf.make_ndarray(node.attr["value"].tensor))
        if node.op == "Identity":
            return self._constant(node.input[0])
        if node.op == "Reshape":
            values, shape = map(self._constant, node.input[:2])
            return None if values is None or shape is None else values.reshape(shape)
        return None


@dataclass(frozen=True)
class Written:
    """The node that computes a result."""

    build: Callable[..., Any]
    distinct: Hashable = None
    """What it depends on beside the operation and its attributes."""


_Write: TypeAlias = Callable[[Operation], "Written | None"]


def _shift(operation: Operation) -> Written | None:
    """TensorFlow shifts by 0 to one less than the bits of the type; XLA's results of more are 0, or the sign."""
    dtype = operation.type("T")
    most, by = dtype.size * 8 - 1, operation.constant(1)
    if by is not None and np.all((by >= 0) & (by <= most)):
        return None
    shift = {"LeftShift": tf.bitwise.left_shift, "RightShift": tf.bitwise.right_shift}
    function = shift[operation.node.op]

    def build(x: Any, by: Any) -> Any:
        by = tf.minimum(by, tf.constant(most, dtype))
        return function(x, tf.maximum(by, tf.constant(0, dtype)))

    return Written(build)


def _power(operation: Operation) -> Written | None:
    """By squares, which wrap; XLA's look at six bits of the exponent. TensorFlow refuses negative exponents."""
    dtype = operation.type("T")
    if not dtype.is_integer:
        return None
    exponents = operation.constant(1)
    # Squares of this number of squares are 1 or 0.
    bits = dtype.size * 8 - 1
    if exponents is not None:
        bits = min(bits, int(exponents.max(initial=0)).bit_length())

    def build(x: Any, y: Any) -> Any:
        one, result = tf.constant(1, dtype), tf.ones_like(x + y)
        for bit in range(bits):
            wanted = tf.bitwise.bitwise_and(y, tf.bitwise.left_shift(one, tf.constant(bit, dtype)))
            result *= tf.where(tf.equal(wanted, tf.constant(0, dtype)), one, x)
            x = hide(x * x)
        return hide(result)

    return Written(build, bits)


def hide(x: Any) -> Any:
    """Copies integers; XLA does not see what they are, see `integers`."""
    return tf.bitwise.bitwise_or(x, tf.bitwise.bitwise_and(x, -x))


def _mean(operation: Operation) -> Written | None:
    """TensorFlow's kernel adds numbers of 32 bits in 64 bits."""
    dtype = operation.type("T")
    if dtype not in (tf.int32, tf.uint32):
        return None
    keep = operation.node.attr["keep_dims"].b

    def build(x: Any, axes: Any) -> Any:
        total = tf.reduce_sum(tf.cast(x, tf.int64), axes, keepdims=keep)
        count = tf.size(x, tf.int64) // tf.maximum(tf.size(total, tf.int64), 1)
        return tf.cast(tf.truncatediv(total, tf.maximum(count, 1)), dtype)

    return Written(build)


def _clip(operation: Operation) -> Written | None:
    """Limits in the wrong order give the lower one; XLA's, the upper one."""
    low, high = operation.constant(1), operation.constant(2)
    if low is not None and high is not None and np.all(low <= high):
        return None
    return Written(lambda x, low, high: tf.maximum(tf.minimum(x, high), low))


def _one_hot(operation: Operation) -> Written | None:
    """XLA counts to the depth in the type of the indices, which wraps."""
    dtype, depth = operation.type("TI"), operation.constant(1)
    if dtype not in _BYTES or (depth is not None and depth <= dtype.max):
        return None
    axis = operation.node.attr["axis"].i

    def build(indices: Any, depth: Any, on_value: Any, off_value: Any) -> Any:
        return tf.raw_ops.OneHot(
            indices=tf.cast(indices, tf.int32),
            depth=depth,
            on_value=on_value,
            off_value=off_value,
            axis=axis,
        )

    return Written(build)


def _cast(operation: Operation) -> Written | None:
    """A cast to integers: a number that fits none is the least one, as in TensorFlow on x86; XLA gives the nearest one, and 0 for NaN.

    For narrower types TensorFlow has no value of its own: it wraps in short tensors and not in long ones.
    """
    source, wanted = operation.type("SrcT"), operation.type("DstT")
    if not source.is_floating or wanted not in _CASTS or _GATHERS.issuperset(operation.readers):
        return None
    return Written(_CASTS[wanted])


def _to_signed(wanted: Any) -> Callable[[Any], Any]:
    def build(x: Any) -> Any:
        # Infinite in float16, which no number exceeds.
        limit = tf.constant(2.0 ** (wanted.size * 8 - 1), x.dtype)
        return tf.where(x < limit, tf.cast(x, wanted), tf.constant(wanted.min, wanted))

    return build


def _to_uint64(x: Any) -> Any:
    """Negative numbers wrap."""
    small = tf.bitcast(_to_signed(tf.int64)(x), tf.uint64)
    half, all_ = tf.constant(2.0**63, x.dtype), tf.constant(2.0**64, x.dtype)
    large = tf.where(x < all_, tf.cast(x, tf.uint64), tf.constant(1 << 63, tf.uint64))
    return tf.where(x < half, small, large)


_CASTS: Mapping[Any, Callable[[Any], Any]] = {
    tf.int32: _to_signed(tf.int32),
    tf.int64: _to_signed(tf.int64),
    tf.uint32: lambda x: tf.cast(_to_signed(tf.int64)(x), tf.uint32),
    tf.uint64: _to_uint64,
}

_ROWS = 2**31 - 1
_PRODUCT = f"""\
module {{{{
  func.func public @main(%x: tensor<{_ROWS}x{{k}}xi8>, %w: tensor<{{k}}x{{n}}xi8>) -> tensor<{_ROWS}x{{n}}xi32> {{{{
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<{_ROWS}x{{k}}xi8>, tensor<{{k}}x{{n}}xi8>) -> tensor<{_ROWS}x{{n}}xi32>
    return %y : tensor<{_ROWS}x{{n}}xi32>
  }}}}
}}}}
"""
"""Canonical forms need known shapes. So many rows, which no weights have, become any number of them afterwards."""


def _product(operation: Operation) -> Written | None:
    """A product of 8-bit integers with a matrix of constants is that of a module, whose bytes are kept (`kept_bytes`)."""
    node = operation.node
    types = [operation.type(name) for name in ("Ta", "Tb", "Tout")]
    if types != [tf.int8, tf.int8, tf.int32] or node.attr["adj_x"].b or node.attr["adj_y"].b:
        return None
    weights = operation.constant(1)
    if weights is None or weights.ndim != 2 or 0 in weights.shape:
        return None
    k, n = weights.shape
    kept = canonical_form(_PRODUCT.format(k=k, n=n), constants=[1])
    text = kept.replace(f"tensor<{_ROWS}x", "tensor<?x")

    def build(x: Any, w: Any) -> Any:
        flat = tf.reshape(x, [-1, k])
        (sums,) = call_module(text, [flat, tf.reshape(w, [k, n])], [("int32", (None, n))])
        return tf.reshape(sums, tf.concat([tf.shape(x)[:-1], [n]], 0))

    return Written(build, (k, n))


FUNCTIONS: Mapping[str, _Write] = {
    "BatchMatMulV3": _product,
    "Cast": _cast,
    "ClipByValue": _clip,
    "LeftShift": _shift,
    "Mean": _mean,
    "OneHot": _one_hot,
    "Pow": _power,
    "RightShift": _shift,
}
"""What takes the place of an operation, by its name; None where XLA has the same arithmetic."""
