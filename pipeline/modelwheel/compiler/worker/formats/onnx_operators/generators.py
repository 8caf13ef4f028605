"""Operations that wheels do not have, each refused by a sentence."""

from __future__ import annotations

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
