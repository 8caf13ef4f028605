"""Products of matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ....stablehlo.writer import Value
from ....stablehlo.writer import contractions as p
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import reducing as r
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.integer_products import dequantized_product
from .onnx_node import Node, Result, operator

_DETERMINANT = 32


@operator("MatMul")
def mat_mul(node: Node) -> Result:
    """The matrix product as NumPy's `matmul` defines it."""
    x, y = node.input(0), node.input(1)
    product = dequantized_product(x, y)
    return p.matmul(x, y) if product is None else product


@operator("Gemm")
def gemm(node: Node) -> Result:
    """alpha * A * B + beta * C."""
    a, b, c = node.input(0), node.input(1), node.optional(2)
    a = s.transpose(a, [1, 0]) if node.get("transA", 0) else a
    transposed = bool(node.get("transB", 0))
    product = dequantized_product(a, b, transposed=transposed)
    if product is None:
        product = p.matmul(a, s.transpose(b, [1, 0]) if transposed else b)
    product = scaled(product, node.get("alpha", 1.0))
    return product if c is None else product + scaled(c, node.get("beta", 1.0))


def scaled(x: Value, factor: float) -> Value:
    """The value times a number; itself for 1."""
    return x if factor == 1 else x * factor


@operator("Einsum")
def einsum(node: Node) -> Result:
    """Sums of products by Einstein's convention."""
    equation = re.sub(r"\s", "", node.get("equation", ""))
    left, arrow, right = equation.partition("->")
    values = [node.input(number) for number in range(len(node.inputs))]
    terms = [_expand_ellipsis(t, v.rank) for t, v in zip(left.split(","), values, strict=True)]
    if arrow:
        dots = max((_dots(term) for term in terms), key=len, default=[])
        result = _letters(right, dots)
    else:
        every = [label for term in terms for label in term]
        dots = max((_dots(term) for term in terms), key=len, default=[])
        once = {label for label in every if every.count(label) == 1}
        result = [*dots, *sorted(label for label in once if label.isalpha())]
    return contract(values, terms, result)


def _letters(term: str, dots: Sequence[str]) -> list[str]:
    before, mark, behind = term.partition("...")
    return [*before, *(dots if mark else ()), *behind]


def _expand_ellipsis(term: str, rank: int) -> list[str]:
    """The labels of all axes; those of an ellipsis are counted from its end."""
    count = rank - len(term.replace("...", ""))
    return _letters(term, [f".{number}" for number in range(count, 0, -1)])


def _dots(term: Sequence[str]) -> list[str]:
    return [label for label in term if label.startswith(".")]


def contract(values: Sequence[Value], terms: Sequence[list[str]], result: list[str]) -> Value:
    """The sum of products; labels of an ellipsis broadcast.

    Args:
        values: Operands of one type.
        terms: A label for each axis of each operand.
        result: The labels of the result.
    """
    extents: dict[str, int] = {}
    for value, term in zip(values, terms, strict=True):
        for label, extent in zip(term, value.shape, strict=True):
            extents[label] = max(extents.get(label, 1), extent)
    parts = [_prepare(v, t, extents) for v, t in zip(values, terms, strict=True)]
    total, labels = parts[0]
    for number, (value, term) in enumerate(parts[1:], 1):
        later = {label for _, rest in parts[number + 1 :] for label in rest} | set(result)
        total, labels = _pair((total, labels), (value, term), later)
    gone = [axis for axis, label in enumerate(labels) if label not in result]
    total = r.reduce(total, gone, "add") if gone else total
    labels = [label for label in labels if label in result]
    missing = [label for label in result if label not in labels]
    total = s.reshape(total, [*total.shape, *[1] * len(missing)])
    labels = [*labels, *missing]
    return s.transpose(total, [labels.index(label) for label in result])


def _prepare(value: Value, term: list[str], extents: dict[str, int]) -> tuple[Value, list[str]]:
    """An operand without repeated labels (the diagonal) and broadcast axes of extent 1."""
    labels = list(term)
    for label in dict.fromkeys(term):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            value = _diagonal(value, first, second)
            labels.pop(second)
    broadcast = [a for a, n in enumerate(value.shape) if n == 1 and extents[labels[a]] != 1]
    value = s.squeeze(value, broadcast) if broadcast else value
    return value, [label for axis, label in enumerate(labels) if axis not in broadcast]


def _diagonal(value: Value, first: int, second: int) -> Value:
    """The elements for which two axes have one position; the second axis is removed."""
    extent = value.shape[first]
    shape = [extent if axis in (first, second) else 1 for axis in range(value.rank)]
    mask = value.builder.constant(np.eye(extent, dtype=bool).reshape(shape))
    return r.reduce(e.select(mask, value, 0), [second], "add")


def _pair(
    left_part: tuple[Value, list[str]], right_part: tuple[Value, list[str]], later: set[str]
) -> tuple[Value, list[str]]:
    """The product of two operands, summed over the labels that nothing reads later."""
    (x, left), (y, right) = left_part, right_part
    x, left = _sum_alone(x, left, {*right, *later})
    y, right = _sum_alone(y, right, {*left, *later})
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in later]
    summed = [label for label in shared if label not in later]
    product = p.dot_general(
        x,
        y,
        ([left.index(a) for a in summed], [right.index(a) for a in summed]),
        ([left.index(a) for a in batch], [right.index(a) for a in batch]),
    )
    free = [a for a in left if a not in shared], [a for a in right if a not in shared]
    return product, [*batch, *free[0], *free[1]]


def _sum_alone(value: Value, labels: list[str], read: set[str]) -> tuple[Value, list[str]]:
    """Without the axes that neither the other operand nor anything later has."""
    gone = [axis for axis, label in enumerate(labels) if label not in read]
    kept = [label for label in labels if label in read]
    return (r.reduce(value, gone, "add") if gone else value), kept


@operator("Det")
def det(node: Node) -> Result:
    """The determinant of square matrices, by elimination with the largest pivot of each column."""
    x = node.input(0)
    count = x.shape[-1]
    if count > _DETERMINANT:
        raise node.refuse(
            f"has matrices of {count} x {count}, above {_DETERMINANT} x {_DETERMINANT}",
            "compute the determinant outside of the model",
        )
    result = s.full(node.builder, x.shape[:-2], 1, x.dtype)
    for step in range(count):
        column = s.index_axis(x, -1, 0)
        _, place = r.arg_reduce(e.abs_(column), -1, largest=True)
        hot = r.one_hot(place, count - step)
        pivot = r.reduce(e.select(hot, column, 0), [-1], "add")
        row = r.reduce(e.select(s.expand_dims(hot, -1), x, 0), [-2], "add")
        # The first row takes the place of the pivot's.
        moved = e.select(s.expand_dims(hot, -1), s.slice_axis(x, -2, 0, 1), x)
        sign = e.select(e.equal(place, 0), node.builder.constant(1, x.dtype), -1)
        result = result * pivot * sign
        if step + 1 < count:
            rest = s.slice_axis(moved, -2, 1, count - step)
            safe = e.select(e.equal(pivot, 0), 1, pivot)
            factor = s.slice_axis(rest, -1, 0, 1) / s.reshape(safe, [*pivot.shape, 1, 1])
            x = s.slice_axis(rest - factor * s.expand_dims(row, -2), -1, 1, count - step)
    return result
