"""Operations of ONNX that are refused; each other one is tried."""

from __future__ import annotations

UNSUPPORTED = frozenset(
    {
        # Strings, files and images.
        *("ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
        *("TfIdfVectorizer",),
        # Lists of tensors, and values that may be absent.
        *("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceEmpty"),
        *("SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence"),
        *("Optional", "OptionalGetElement", "OptionalHasElement"),
        # Random numbers.
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike"),
        *("RandomUniform", "RandomUniformLike"),
        # Training.
        *("Adagrad", "Adam", "Gradient", "Momentum"),
    }
)
DEPENDS_ON_VALUES = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""They return as many elements as the values of their inputs decide; they need constants."""
