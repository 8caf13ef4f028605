"""Compares integer arithmetic of compiled graphs with TensorFlow's kernels: `integer_chains.py TYPE CHAINS SEED`.

Each operation alone, those that XLA is known to misread, and random chains of two to five operations, on values at
the ends of the type and around powers of two. Prints a JSON list of the expressions that differ. Needs TensorFlow.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from modelwheel.compiler.freeze.frozen import freeze_graph
from modelwheel.compiler.loaded.base import Fetch, SignatureGraph
from modelwheel.compiler.reference.truth.evaluate import run_compiled

Array = np.ndarray[Any, Any]
raw: Any = tf.raw_ops

UNARY = {
    "abs": tf.abs,
    "neg": tf.negative,
    "sign": tf.sign,
    "square": tf.square,
    "invert": tf.bitwise.invert,
    "relu": tf.nn.relu,
}
SIGNED_ONLY = frozenset({"abs", "neg", "sign", "pow"})
ARITHMETIC = {
    "add": tf.add,
    "sub": tf.subtract,
    "mul": tf.multiply,
    "max": tf.maximum,
    "min": tf.minimum,
    "and": tf.bitwise.bitwise_and,
    "or": tf.bitwise.bitwise_or,
    "xor": tf.bitwise.bitwise_xor,
}
SHIFTS = {"shl": tf.bitwise.left_shift, "shr": tf.bitwise.right_shift}
DIVISIONS = {
    "floordiv": tf.math.floordiv,
    "floormod": tf.math.floormod,
    "truncdiv": tf.truncatediv,
}
COMPARISONS = {
    "lt": tf.less,
    "le": tf.less_equal,
    "gt": tf.greater,
    "ge": tf.greater_equal,
    "eq": tf.equal,
    "ne": tf.not_equal,
}
TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class Expression(NamedTuple):
    """What is computed from x and y."""

    text: str
    of: Callable[[Mapping[str, Any]], Any]


class Maker:
    """Makes expressions of one type; all divisors are other than 0, and exponents not negative, which TensorFlow refuses."""

    def __init__(self, dtype: str, seed: int) -> None:
        self.dtype = tf.dtypes.as_dtype(dtype)
        self.limits = np.iinfo(dtype)
        self.signed = self.limits.min < 0
        self._random = random.Random(seed)
        self.x = Expression("x", lambda values: values["x"])
        self.y = Expression("y", lambda values: values["y"])

    def values(self) -> list[int]:
        """Values at the ends of the type, around zero and around powers of two."""
        least, most, bits = int(self.limits.min), int(self.limits.max), self.limits.bits
        powers = [1 << n for n in (0, 1, 2, 3, bits // 2 - 1, bits // 2, bits - 2, bits - 1)]
        root = int(most**0.5)
        some = [0, 5, 7, 12, 100, most, most // 3, root, root + 1, least, *powers]
        near = {value + step for value in some for step in (-1, 0, 1)}
        return sorted(v for v in near | {-v for v in near} if least <= v <= most)

    def pairs(self, count: int) -> dict[str, Array]:
        """Pairs of these for x and y, of which y is not 0."""
        pairs = [(x, y) for x in self.values() for y in self.values() if y]
        chosen = self._random.sample(pairs, min(count, len(pairs)))
        x, y = np.array(chosen, self.dtype.as_numpy_dtype).T
        return {"x": x.copy(), "y": y.copy()}

    def constant(self, value: int) -> Expression:
        """A constant."""
        return Expression(str(value), lambda _: tf.constant(value, self.dtype))

    def apply(self, name: str, function: Any, *given: Expression) -> Expression:
        """An operation; comparisons become numbers."""

        def of(values: Mapping[str, Any]) -> Any:
            return tf.cast(function(*(one.of(values) for one in given)), self.dtype)

        return Expression(f"{name}({', '.join(one.text for one in given)})", of)

    def alone(self) -> Iterator[Expression]:
        """Each operation of x and y."""
        x, y = self.x, self.y
        for name, unary in UNARY.items():
            if self.signed or name not in SIGNED_ONLY:
                yield self.apply(name, unary, x)
        for name, binary in {**ARITHMETIC, **SHIFTS, **DIVISIONS, **COMPARISONS}.items():
            yield self.apply(name, binary, x, y)
        if self.signed:
            exponent = self.apply("max", tf.maximum, y, self.constant(0))
            yield self.apply("pow", tf.pow, x, exponent)
            for number in range(6):
                yield self.apply("pow", tf.pow, x, self.constant(number))

    def misread(self) -> Iterator[Expression]:
        """What XLA takes for not negative, behind which it drops an `abs`, a comparison, or half of a division."""
        x, zero, most = self.x, self.constant(0), self.constant(int(self.limits.max))
        products = [
            ("square", tf.square),
            ("abs", tf.abs),
            ("x*(x+0)", lambda x: x * (x + tf.zeros_like(x))),
            ("x*-(-x)", lambda x: x * tf.negative(-x)),
            ("prod", lambda x: tf.reduce_prod(tf.stack([x, x]), 0)),
        ]
        if self.dtype in (tf.int32, tf.int64):
            products += [
                ("sqdiff", lambda x: tf.math.squared_difference(x, most.of({}))),
                ("einsum", lambda x: tf.einsum("i,i->i", x, x)),
                ("matmul", lambda x: tf.reshape(x[:, None, None] @ x[:, None, None], [-1])),
            ]
        for name, function in products:
            product = self.apply(name, function, x)
            yield self.apply("abs", tf.abs, product)
            yield self.apply("lt", tf.less, product, zero)
            yield self.apply("max", lambda p, z: tf.where(p < z, z - p, p), product, zero)
            yield self.apply("truncdiv", tf.truncatediv, product, self.constant(64))
            yield self.apply("floordiv", tf.math.floordiv, product, self.constant(10))
        power = self.apply("pow", tf.pow, x, self.constant(4))
        odd = self.apply("or", tf.bitwise.bitwise_or, power, self.constant(1))
        yield self.apply("truncdiv", tf.truncatediv, x, odd)
        yield self.apply("abs", tf.abs, power)

    def special(self) -> Iterator[Expression]:
        """Operations whose arithmetic is another one in XLA."""
        x, dtype = self.x, self.dtype
        if self.limits.bits == 32:
            yield self.apply("mean", tf.reduce_mean, x)
        if self.dtype not in (tf.uint32, tf.uint64):
            wrong = (self.constant(33), self.constant(3))
            yield self.apply("clip", _clip, x, *wrong)
        if self.limits.bits == 8:
            yield self.apply("one_hot", lambda x: tf.one_hot(x, 300, dtype=dtype), x)
        if self.limits.bits >= 32:
            floats = [0.0, -0.5, 1.9, -1.9, -300.0, 2.0**31, -3e9, 2.0**63, 1e30, -1e30, np.nan]
            # Of negative numbers beyond 32 bits, TensorFlow makes a uint32 as it happens.
            given = floats[:6] if dtype == tf.uint32 else [np.inf, -np.inf, 3e9, *floats]
            for source in (tf.float32, tf.float64):
                yield self.apply(f"cast {source.name}", _cast(given, source, dtype), x)

    def chain(self) -> Expression:
        """A random one; later operations mostly read the one before."""
        found = [self.x, self.y]
        for _ in range(self._random.randint(2, 5)):
            found.append(self._node(found))
        return found[-1]

    def _node(self, found: Sequence[Expression]) -> Expression:
        choose = self._random.choice

        def old() -> Expression:
            return choose((*found[-1:], *found[-1:], *found))

        def operand() -> Expression:
            value = choose(
                (0, 1, 2, 3, 8, 64, 100, -1, -2, int(self.limits.max), int(self.limits.min))
            )
            inside = self.limits.min <= value <= self.limits.max
            return self.constant(value) if inside and self._random.random() < 0.4 else old()

        kind = self._random.randrange(7)
        if kind == 0:
            allowed = [n for n in UNARY if self.signed or n not in SIGNED_ONLY]
            name = choose(allowed)
            return self.apply(name, UNARY[name], old())
        if kind in (1, 2):
            name, both = choose(list(ARITHMETIC)), [old(), operand()]
            self._random.shuffle(both)
            return self.apply(name, ARITHMETIC[name], *both)
        if kind == 3:
            name, divisor = choose(list(DIVISIONS)), self.constant(choose((1, 2, 3, 8, 10, 64)))
            odd = self.apply("or", tf.bitwise.bitwise_or, old(), self.constant(1))
            return self.apply(name, DIVISIONS[name], operand(), choose((divisor, odd, self.y)))
        if kind == 4:
            name = choose(list(SHIFTS))
            return self.apply(name, SHIFTS[name], old(), choose((self.constant(1), self.y)))
        if kind == 5:
            other = tf.dtypes.as_dtype(choose(TYPES))
            return self.apply(other.name, lambda x: tf.cast(x, other), old())
        name = choose(list(COMPARISONS))
        condition = COMPARISONS[name]
        if self._random.random() < 0.4:
            return self.apply(name, condition, old(), operand())
        return self.apply(
            f"where {name}",
            lambda a, b, c, d: tf.where(condition(a, b), c, d),
            *(old(), operand(), old(), operand()),
        )


def _clip(x: Any, low: Any, high: Any) -> Any:
    return raw.ClipByValue(t=x, clip_value_min=low, clip_value_max=high)


def _cast(given: list[float], source: Any, dtype: Any) -> Callable[[Any], Any]:
    """Converts floats that depend on an input, as XLA would convert constants while it compiles."""
    return lambda x: tf.cast(tf.constant(given, source) + 0 * tf.cast(x[0], source), dtype)


def differences(expressions: Sequence[Expression], given: Mapping[str, Array]) -> list[str]:
    """The expressions whose compiled values are not those of TensorFlow's kernels."""
    tensors = {name: tf.constant(array) for name, array in given.items()}
    expected = [one.of(tensors).numpy() for one in expressions]
    with tf.Graph().as_default() as graph:
        feeds = {
            name: tf.compat.v1.placeholder(array.dtype, array.shape, f"arg_{name}")
            for name, array in given.items()
        }
        results = [tf.identity(one.of(feeds)) for one in expressions]
    fetches = {f"{n:05}": Fetch(result.name, result.dtype) for n, result in enumerate(results)}
    nodes = {name: tensor.op.name for name, tensor in feeds.items()}
    frozen = freeze_graph(
        SignatureGraph(graph.as_graph_def(), nodes, fetches),
        {name: array.shape for name, array in given.items()},
    )
    (found,) = run_compiled(frozen, [given])
    return [
        f"{one.text}: {_shown(values, found[name])}"
        for one, name, values in zip(expressions, fetches, expected, strict=True)
        if not np.array_equal(values, found[name])
    ]


def _shown(expected: Array, found: Array) -> str:
    place = np.argwhere(np.atleast_1d(expected != found))[0]
    values = (np.atleast_1d(array)[tuple(place)] for array in (expected, found))
    return "{} of TensorFlow is {}".format(*values)


def main(dtype: str, chains: int, seed: int) -> None:
    """Prints what differs."""
    maker = Maker(dtype, seed)
    known = [*maker.alone(), *maker.special(), *(maker.misread() if maker.signed else ())]
    found = differences(known, maker.pairs(400))
    while chains > 0:
        some = [maker.chain() for _ in range(min(chains, 50))]
        found += differences(some, maker.pairs(400))
        chains -= len(some)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
