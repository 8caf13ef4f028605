"""Operations whose result is random, a string, or as long as the inputs decide.

The last kind is computed where its inputs are known. The others are refused.
"""

from __future__ import annotations

import numpy as np

from .node import Node, Result, operator

_RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
_STRINGS = ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer")
_TRAINING = ("Adagrad", "Adam", "Gradient", "Momentum")
_LENGTH = (
    "make its input a constant (source.constants fixes an input), or end the model before it"
)


@operator(*_RANDOM)
def random(node: Node) -> Result:
    """Refused: a wheel's results are proven, and these differ each time."""
    raise node.refuse(
        "draws random numbers, so that its results cannot be proven",
        "export the model for inference, or make what it draws an input",
    )


@operator(*_STRINGS)
def strings(node: Node) -> Result:
    """Refused: compiled models have no strings."""
    raise node.refuse(
        "works on strings or tokens, which compiled models do not have",
        "compute it before the model is called, and export what follows",
    )


@operator("ImageDecoder")
def image(node: Node) -> Result:
    """Refused: a file has no fixed shape."""
    raise node.refuse(
        "decodes an image file", "decode it before the model is called, and export what follows"
    )


@operator(*_TRAINING, domain="ai.onnx.preview.training")
def training(node: Node) -> Result:
    """Refused: wheels do not train."""
    raise node.refuse("trains a model", "export the model for inference")


@operator("NonZero")
def non_zero(node: Node) -> Result:
    """The positions of elements that are not zero, [rank, count]."""
    x = node.known(0)
    if x is None:
        node.input(0)
        raise node.refuse("returns as many positions as the inputs decide", _LENGTH)
    found = np.array(np.nonzero(np.atleast_1d(x)))
    return node.builder.constant(found if x.ndim else found[:0], np.int64)


@operator("Compress")
def compress(node: Node) -> Result:
    """The slices whose flag is true."""
    from ...stablehlo import indexing as i
    from ...stablehlo import shapes as s

    x, flags = node.input(0), node.known(1)
    if flags is None:
        node.input(1)
        raise node.refuse("returns as many slices as the inputs decide", _LENGTH)
    axis = node.get("axis", None)
    if axis is None:
        x, axis = s.flatten(x), 0
    places = np.flatnonzero(flags.reshape(-1)[: x.shape[axis]])
    return i.take(x, node.builder.constant(places, np.int64), axis)


@operator("Unique")
def unique(node: Node) -> Result:
    """The values that differ, where each comes first, which of them each element is, and their counts."""
    x = node.known(0)
    if x is None:
        node.input(0)
        raise node.refuse("returns as many values as the inputs decide", _LENGTH)
    axis = node.get("axis", None)
    wide = x.astype(np.float32) if x.dtype.kind == "V" else x
    _, first, inverse, counts = np.unique(
        wide, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not node.get("sorted", 1):
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    values = x.reshape(-1)[first] if axis is None else np.take(x, first, axis)
    indices = [node.builder.constant(a, np.int64) for a in (first, inverse, counts)]
    return [node.builder.constant(values), *indices]


@operator("NonMaxSuppression")
def non_max_suppression(node: Node) -> Result:
    """Refused: it returns as many boxes as it finds."""
    raise node.refuse(
        "returns as many boxes as the inputs decide",
        "end the model before it, at the boxes and scores, and choose boxes by the caller",
    )
