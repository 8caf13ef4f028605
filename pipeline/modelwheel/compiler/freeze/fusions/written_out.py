"""Patterns: layers of transformers as libraries and textbooks write them, without a mark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ....model.fusions.patterns import (
    Capture,
    Constant,
    Either,
    Integers,
    Op,
    Parameter,
    Pattern,
    Same,
    add,
    divide,
    multiply,
    negate,
    product,
    reduced,
    scaled,
    square,
    subtract,
)
from ....model.fusions.registry import Argument, Fusion
from . import transformer

_X = Capture("x")
_ONE = Constant(1.0)


# --- GELU -----------------------------------------------------------------------------------------


def _half_of_x_times(factor: Pattern) -> Pattern:
    return product(_X, Constant(0.5), factor)


def _gelu() -> Pattern:
    """By the error function, or its complement."""
    root = math.sqrt(0.5)
    below = Either(
        (scaled(negate(_X), root), negate(scaled(_X, root)), multiply(_X, Constant(-root)))
    )
    erf = add(_ONE, Op(("Erf",), (scaled(_X, root),)))
    return _half_of_x_times(Either((erf, Op(("Erfc",), (below,)))))


def _gelu_tanh() -> Pattern:
    """With the cube of x, or with its square after x is factored out."""
    scale, cubic = math.sqrt(2 / math.pi), Constant(0.044715)
    squared = square(_X)
    cube = Either((Op(("Pow",), (_X, Constant(3.0))), multiply(_X, squared)))
    one_by_one = multiply(multiply(multiply(cubic, _X), _X), _X)
    summand = Either((multiply(cubic, cube), product(cubic, _X, squared), one_by_one))
    factor = add(_ONE, Either((multiply(cubic, squared), product(cubic, _X, _X))))
    inner = Either((scaled(add(_X, summand), scale), product(_X, Constant(scale), factor)))
    return _half_of_x_times(add(_ONE, Op(("Tanh",), (inner,))))


# --- softmax and attention ------------------------------------------------------------------------


def _softmax(x: Pattern, name: str) -> Pattern:
    """The operation, or exponentials divided by their sum; `name` is what other places call `x`."""
    distance = subtract(x, reduced("Max", Same(name), name))
    weights = Op(("Exp",), (distance,), name="weights")
    written = divide(weights, reduced("Sum", Same("weights"), "weights"))
    return Either((Op(("Softmax",), (x,)), written))


def _attention() -> Pattern:
    """Scaled products of queries and keys, with or without a bias, and their softmax times the values."""
    scores = _scores()
    scores += [add(score, Capture("bias")) for score in scores]
    return _attended(scores)


def _masked_attention() -> Pattern:
    """A number takes the place of scores, where a mask says so or where it does not."""
    mask, fill, choice = Capture("mask"), Parameter("fill"), ("Select", "SelectV2")
    scores = Either(tuple(_scores()))
    kept = Op(choice, (mask, scores, fill), means={"hides": False})
    return _attended([kept, Op(choice, (mask, fill, scores), means={"hides": True})])


def _scores() -> list[Op]:
    query, key = Capture("query"), Capture("key")
    # The last two axes of a tensor of three or four axes change places.
    swapped = Either((Integers((0, 1, 3, 2)), Integers((0, 2, 1))))
    turned = Op(("Transpose",), (key, swapped))
    scale, divisor = Parameter("scale"), Parameter("scale", reciprocal=True)

    def dots(query: Pattern) -> list[Op]:
        adjoint = {"adj_x": False, "adj_y": True}
        return [Op(_BATCHES, (query, key), adjoint), Op(_BATCHES, (query, turned), _PLAIN)]

    scaled_query = Either((multiply(query, scale), divide(query, divisor)))
    product_of = Either(tuple(dots(query)))
    return [multiply(product_of, scale), divide(product_of, divisor), *dots(scaled_query)]


def _attended(scores: Sequence[Op]) -> Op:
    weights = [_softmax(replace(score, name="scores"), "scores") for score in scores]
    return Op(_BATCHES, (Either(tuple(weights)), Capture("value")), _PLAIN)


_BATCHES = ("BatchMatMul", "BatchMatMulV2")
_PLAIN = {"adj_x": False, "adj_y": False}


# --- normalisations -------------------------------------------------------------------------------


def _layer_norm() -> Pattern:
    """Distances from the mean, or x and the mean scaled one by one."""
    mean = replace(reduced("Mean", _X, "x"), name="mean")
    again = reduced("Mean", _X, "x")  # the same tensor, or computed once more
    gamma, beta = Capture("gamma"), Capture("beta")
    distance = subtract(_X, mean, name="distance")
    spread = add(
        _variance(again, Either((Same("distance"), subtract(_X, again)))), Parameter("epsilon")
    )
    factor, root = Op(("Rsqrt",), (spread,)), Op(("Sqrt",), (spread,))
    normal = Either(
        (
            product(distance, factor, gamma),
            multiply(divide(distance, root), gamma),
            divide(multiply(distance, gamma), root),
        )
    )
    # As tf.nn.batch_normalization and Keras 3 do it.
    spread = add(_variance(mean, subtract(_X, mean)), Parameter("epsilon"))
    scale = multiply(Op(("Rsqrt",), (spread,)), gamma, name="scale")
    moved = Either(
        (
            subtract(beta, multiply(Same("mean"), Same("scale"))),
            add(multiply(negate(Same("mean")), Same("scale")), beta),
        )
    )
    return Either((add(normal, beta), add(multiply(_X, scale), moved)))


def _variance(mean: Pattern, distance: Pattern) -> Pattern:
    """The mean of squared distances, or that of squares less the squared mean."""
    squares = Either((Op(("SquaredDifference",), (_X, mean)), square(distance)))
    apart = subtract(reduced("Mean", square(_X), "x"), square(mean))
    # Flax: rounding may make it negative.
    limited = Op(("Maximum",), (apart, Constant(0.0)))
    return Either((reduced("Mean", squares, "x"), apart, limited))


def _rms_norm() -> Pattern:
    """x over the root of the mean of its squares."""
    spread = add(reduced("Mean", square(_X), "x"), Parameter("epsilon"))
    root, gamma = Op(("Sqrt",), (spread,)), Capture("gamma")
    factor = Either((Op(("Rsqrt",), (spread,)), divide(_ONE, root)))
    return Either(
        (
            product(_X, factor, gamma),
            multiply(divide(_X, root), gamma),
            divide(multiply(_X, gamma), root),
        )
    )


def _without_shapes(fusion: Fusion) -> tuple[Argument, ...]:
    """Weights may have axes of extent 1 before their own."""
    first, *others = fusion.arguments
    return (first, *(replace(op, shape=None) for op in others))


GELU = Fusion(
    "pattern.gelu",
    transformer.GELU.arguments,
    partial(transformer.GELU.build, approximate=False),
    pattern=_gelu(),
)
GELU_TANH = Fusion(
    "pattern.gelu_tanh",
    transformer.GELU.arguments,
    partial(transformer.GELU.build, approximate=True),
    pattern=_gelu_tanh(),
)
SOFTMAX = replace(transformer.SOFTMAX, name="pattern.softmax", pattern=_softmax(_X, "x"))
ATTENTION = replace(transformer.ATTENTION, name="pattern.attention", pattern=_attention())
LAYER_NORM = replace(
    transformer.LAYER_NORM,
    name="pattern.layer_norm",
    arguments=_without_shapes(transformer.LAYER_NORM),
    pattern=_layer_norm(),
)
MASKED_ATTENTION = replace(
    transformer.MASKED_ATTENTION,
    name="pattern.masked_attention",
    pattern=_masked_attention(),
)
RMS_NORM = replace(
    transformer.RMS_NORM,
    name="pattern.rms_norm",
    arguments=_without_shapes(transformer.RMS_NORM),
    pattern=_rms_norm(),
)
