"""Text, images, random numbers and training: what wheels do not have is refused by a sentence."""

from __future__ import annotations

from functools import reduce as fold

import numpy as np

from ....stablehlo.writer import Value
from ....stablehlo.writer import pointwise as e
from ....stablehlo.writer import reducing as r
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import FLOAT32
from .onnx_node import Node, Result, operator

_RANDOM = (
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)
_STRINGS = ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit")
_TRAINING = ("Adagrad", "Adam", "Gradient", "Momentum")


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
        "works on strings, which compiled models do not have",
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


@operator("TfIdfVectorizer")
def tf_idf(node: Node) -> Result:
    """How often sequences of integers occur in rows of integers; strings are refused."""
    pool = node.get("pool_int64s", None)
    if pool is None:
        return strings(node)
    x = node.input(0)
    rows = s.reshape(x, [1, x.size]) if x.rank < 2 else x
    starts = [int(n) for n in node.attributes["ngram_counts"]]
    places = [int(n) for n in node.attributes["ngram_indexes"]]
    ends, number = [*starts[1:], len(pool)], 0
    counts: dict[int, Value] = {}
    for length, (start, end) in enumerate(zip(starts, ends, strict=True), 1):
        for first in range(start, end, length):
            gram = [int(n) for n in pool[first : first + length]]
            if length >= node.get("min_gram_length", 1) and length <= node.get(
                "max_gram_length", 1
            ):
                counts[number] = _occurrences(node, rows, gram)
            number += 1
    zero = s.full(node.builder, [rows.shape[0]], 0, FLOAT32)
    columns = [zero] * (max(places) + 1)
    for number, count in counts.items():
        columns[places[number]] = count
    result = s.stack(columns, 1)
    if (mode := node.get("mode", "TF")) != "TF":
        factors = node.get("weights", None) or [1.0] * number
        weights = np.ones(len(columns), np.float32)
        weights[places[:number]] = factors[:number]
        result = e.convert(result > 0, FLOAT32) if mode == "IDF" else result
        result = result * node.builder.constant(weights)
    return s.reshape(result, [result.shape[1]]) if x.rank < 2 else result


def _occurrences(node: Node, rows: Value, gram: list[int]) -> Value:
    """How often a sequence occurs in each row, with up to so many elements between its own."""
    length, width = len(gram), rows.shape[1]
    total = s.full(node.builder, [rows.shape[0]], 0, FLOAT32)
    skips = range(node.get("max_skip_count", 0) + 1) if length > 1 else [0]
    for step in (skip + 1 for skip in skips):
        last = width - (length - 1) * step
        if last < 1:
            continue
        parts = [
            e.equal(s.slice_axis(rows, 1, n * step, n * step + last), value)
            for n, value in enumerate(gram)
        ]
        hits = e.convert(fold(e.and_, parts), FLOAT32)
        total = total + r.reduce(hits, [1], "add")
    return total
