"""Which operations are refused whatever their inputs are, or unless those are known."""

from __future__ import annotations

from typing import Any

from onnx import defs

from . import OPERATORS

UNSUPPORTED = frozenset(
    {
        # Strings, files and images.
        *("ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
        # Random numbers.
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
        # Training.
        *("Adagrad", "Adam", "Gradient", "Momentum"),
        # Classical machine learning: trees, text, dictionaries.
        *("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"),
        *("CategoryMapper", "CastMap", "DictVectorizer", "ZipMap"),
    }
)
DEPENDS_ON_VALUES = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""They return as many elements as the values of their inputs decide; they need known ones."""


def is_known(op: str, domain: str, opset: int) -> bool:
    """Whether there is a way to write an operation, or a sentence why not."""
    domain = "" if domain == "ai.onnx" else domain
    if (domain, op) in OPERATORS or op in UNSUPPORTED:
        return True
    try:
        schema: Any = defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)
