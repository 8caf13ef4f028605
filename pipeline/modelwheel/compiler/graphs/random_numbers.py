"""Random numbers that follow from a seed, as TensorFlow's own kernels make them.

XLA and TensorFlow draw the same bits from a key, but XLA makes another key of a seed below zero, floats of
the upper bits, and normal numbers by another formula. So these operations are replaced by functions of
integers of random bits, with the arithmetic of TensorFlow's kernels (core/kernels/stateless_random_ops.cc,
xla/tsl/lib/random/random_distributions.h): keys, integers and uniform numbers are the same to the last bit,
normal ones but for rounding of logarithms and sines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from .graphs import bodies, call_function, nodes_of, rename_tensor

REPLACED = re.compile(
    r"StatelessRandom(GetKeyCounter|Uniform|UniformInt|UniformFullInt|Normal|UniformV2|NormalV2)"
)
_KEY_COUNTER = "StatelessRandomGetKeyCounter"
_PHILOX = 1
_SCRAMBLER = 0x02461E293EC8F720
"""The key with which TensorFlow makes keys of seeds (core/kernels/stateless_random_ops.cc, GenerateKey)."""
_LEAST = 1e-7
"""Smaller numbers are replaced by it before their logarithm is taken."""


def replace_random_numbers(graph_def: Any) -> None:
    """Replaces the operations in a graph and its functions by calls of new functions, in place."""
    made: dict[str, Any] = {}
    library = graph_def.library.function
    for function in library:
        _rename_results(function)
    for body in bodies(graph_def):
        for node in nodes_of(body):
            if REPLACED.fullmatch(node.op):
                traced = _trace(node)
                types = (t.dtype.name for t in (*traced.inputs, *traced.outputs))
                name = "_".join((node.op, *types))
                made.setdefault(name, traced)
                arguments, results = (
                    [t.dtype.as_datatype_enum for t in tensors]
                    for tensors in (traced.inputs, traced.outputs)
                )
                call_function(node, name, arguments, results)
    for name, traced in made.items():
        definition = library.add()
        definition.CopyFrom(traced.function_def)
        definition.signature.name = name


def _rename_results(function: Any) -> None:
    """The results of a key have names in functions, those of a call have numbers."""
    names = [node.name for node in function.node_def if node.op == _KEY_COUNTER]
    for name in names:
        rename_tensor(function, f"{name}:key:0", f"{name}:output:0")
        rename_tensor(function, f"{name}:counter:0", f"{name}:output:1")


def _trace(node: Any) -> Any:
    """A function of the inputs of a node."""

    def type_of(attribute: str) -> Any:
        return tf.dtypes.as_dtype(node.attr[attribute].type)

    if node.op == _KEY_COUNTER:
        return _make(_key_counter, [tf.TensorSpec([2], type_of("Tseed"), "seed")])
    dtype, version_2 = type_of("dtype"), node.op.endswith("V2")
    source = [tf.TensorSpec([2], type_of("Tseed") if not version_2 else tf.int32, "seed")]
    if version_2:
        source = [tf.TensorSpec([1], tf.uint64, "key"), tf.TensorSpec([2], tf.uint64, "counter")]
        source.append(tf.TensorSpec([], tf.int32, "algorithm"))
    specs = [tf.TensorSpec([None], type_of("Tshape" if version_2 else "T"), "shape"), *source]
    if node.op == "StatelessRandomUniformInt":
        specs += [tf.TensorSpec([], dtype, name) for name in ("least", "most")]

    def call(shape: Any, *given: Any) -> Any:
        key = given[:3] if version_2 else (*_key_counter(given[0]), _PHILOX)
        if node.op == "StatelessRandomUniformInt":
            return _draw_between(shape, key, given[1:])
        if node.op == "StatelessRandomUniformFullInt":
            return _draw(shape, key, dtype)
        if node.op.startswith("StatelessRandomUniform"):
            return _uniform(_draw(shape, key, _bits(dtype)), dtype)
        # TensorFlow makes two numbers of two, also where the last one is not wanted.
        count = tf.reduce_prod(shape)
        pairs = _draw(tf.stack([(count + 1) // 2, 2]), key, _bits(dtype))
        return tf.reshape(tf.reshape(_normal(pairs, dtype), [-1])[:count], shape)

    return _make(call, specs)


def _make(call: Any, specs: list[Any]) -> Any:
    return tf.function(call, input_signature=specs, autograph=False).get_concrete_function()


def _key_counter(seed: Any) -> tuple[Any, Any]:
    counter = tf.bitcast(tf.cast(seed, tf.int64), tf.uint64)
    mixed = _draw([2], (tf.constant([_SCRAMBLER], tf.uint64), counter, _PHILOX), tf.uint64)
    return mixed[:1], tf.stack([tf.constant(0, tf.uint64), mixed[1]])


def _draw(shape: Any, key: Iterable[Any], dtype: Any) -> Any:
    key, counter, algorithm = key
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=key, counter=counter, alg=algorithm, dtype=dtype
    )


def _draw_between(shape: Any, key: Iterable[Any], bounds: Iterable[Any]) -> Any:
    key, counter, algorithm = key
    least, most = bounds
    return tf.raw_ops.StatelessRandomUniformIntV2(
        shape=shape, key=key, counter=counter, alg=algorithm, minval=least, maxval=most
    )


def _bits(dtype: Any) -> Any:
    return tf.uint64 if dtype == tf.float64 else tf.uint32


def _uniform(bits: Any, dtype: Any) -> Any:
    """Numbers in [0, 1): the lowest bits become those of the fraction of a number in [1, 2)."""
    if dtype == tf.float64:  # the first word holds the upper ones
        bits = tf.bitwise.left_shift(bits, tf.constant(32, bits.dtype)) + _shifted(bits, 32)
    fraction = {tf.float16: 10, tf.bfloat16: 7, tf.float32: 23, tf.float64: 52}[dtype]
    one = {tf.float16: 15, tf.bfloat16: 127, tf.float32: 127, tf.float64: 1023}[dtype] << fraction
    kept = tf.bitwise.bitwise_and(bits, tf.constant((1 << fraction) - 1, bits.dtype))
    number = tf.bitwise.bitwise_or(kept, tf.constant(one, bits.dtype))
    if dtype.size == 2:
        number = tf.cast(number, tf.uint16)
    return tf.bitcast(number, dtype) - tf.constant(1, dtype)


def _shifted(bits: Any, count: int) -> Any:
    return tf.bitwise.right_shift(bits, tf.constant(count, bits.dtype))


def _normal(pairs: Any, dtype: Any) -> Any:
    """Two of each pair, by the formula of Box and Muller; 16-bit floats are rounded at the end."""
    exact = tf.float64 if dtype == tf.float64 else tf.float32
    uniform = _uniform(pairs, exact)
    radius = tf.sqrt(-2 * tf.math.log(tf.maximum(uniform[:, 0], tf.constant(_LEAST, exact))))
    # The factor is a double in TensorFlow's kernel for floats too.
    angle = tf.cast(2 * math.pi * tf.cast(uniform[:, 1], tf.float64), exact)
    both = tf.stack([tf.sin(angle) * radius, tf.cos(angle) * radius], axis=1)
    return tf.cast(both, dtype)
