"""The domain ai.onnx.ml: scalers, encoders and linear models, as far as they are numeric."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .....stablehlo.writer import Value
from .....stablehlo.writer import contractions as p
from .....stablehlo.writer import gathering as i
from .....stablehlo.writer import pointwise as e
from .....stablehlo.writer import reducing as r
from .....stablehlo.writer import reshaping as s
from .....stablehlo.writer.mlir_types import FLOAT32, INT64, Array, is_float
from ..onnx_node import CLASSICAL, Node, Result, operator

_TREES = ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")


@operator(*_TREES, domain=CLASSICAL)
def trees(node: Node) -> Result:
    """Refused."""
    raise node.refuse(
        "is a forest of decision trees, which modelwheel does not compile yet",
        "use a linear model or a network, or a compiler of forests",
    )


@operator("ZipMap", domain=CLASSICAL)
def zip_map(node: Node) -> Result:
    """Refused: a dictionary for each row."""
    raise node.refuse(
        "returns a dictionary for each row, and compiled models return tensors",
        "export the model with options={'zipmap': False}",
    )


@operator("CastMap", "CategoryMapper", "DictVectorizer", domain=CLASSICAL)
def maps(node: Node) -> Result:
    """Refused: dictionaries and strings."""
    raise node.refuse(
        "works on dictionaries or strings, which compiled models do not have",
        "compute it before the model is called, and export what follows",
    )


def _numbers(node: Node, name: str) -> Array | None:
    """A list of numbers of the node, by the name of the attribute."""
    values = node.get(name, None)
    return None if values is None or not len(values) else np.asarray(values)


def _floats(x: Value) -> Value:
    return x if x.dtype == FLOAT32 else e.convert(x, FLOAT32)


def _matrix(x: Value) -> Value:
    """A vector as a matrix of one row."""
    return s.reshape(x, [1, x.size]) if x.rank == 1 else x


# --- features -------------------------------------------------------------------------------------


@operator("Scaler", domain=CLASSICAL)
def scaler(node: Node) -> Result:
    """(x - offset) * scale, for all features or each."""
    x = _floats(node.input(0))
    offset, scale = _numbers(node, "offset"), _numbers(node, "scale")
    if offset is not None:
        x = x - node.builder.constant(offset, FLOAT32)
    return x if scale is None else x * node.builder.constant(scale, FLOAT32)


@operator("Normalizer", domain=CLASSICAL)
def normalizer(node: Node) -> Result:
    """Rows divided by their largest value, or their norm; rows of zeros stay."""
    x, kind = _floats(node.input(0)), node.get("norm", "MAX")
    axis = x.rank - 1
    if kind == "MAX":
        norm = r.reduce(x, [axis], "maximum", keep=True)
    elif kind == "L1":
        norm = r.reduce(e.abs_(x), [axis], "add", keep=True)
    else:
        norm = e.sqrt(r.reduce(x * x, [axis], "add", keep=True))
    return x / e.select(e.equal(norm, 0), 1, norm)


@operator("Binarizer", domain=CLASSICAL)
def binarizer(node: Node) -> Result:
    """1 above a threshold, 0 elsewhere."""
    x = node.input(0)
    return e.convert(x > node.get("threshold", 0.0), x.dtype)


@operator("Imputer", domain=CLASSICAL)
def imputer(node: Node) -> Result:
    """Values in place of one that stands for what is missing, such as NaN."""
    x = node.input(0)
    kind = "floats" if is_float(x.dtype) else "int64s"
    values = _numbers(node, f"imputed_value_{kind}")
    if values is None:
        raise KeyError(f"imputed_value_{kind}")
    missing = node.get(f"replaced_value_{kind[:-1]}", 0)
    is_missing = e.is_nan(x) if missing != missing else e.equal(x, missing)  # noqa: PLR0124 - NaN
    return e.select(is_missing, node.builder.constant(values, x.dtype), x)


@operator("FeatureVectorizer", domain=CLASSICAL)
def feature_vectorizer(node: Node) -> Result:
    """Features of all inputs beside each other."""
    values = [_floats(_matrix(node.input(number))) for number in range(len(node.inputs))]
    sizes = [int(n) for n in node.get("inputdimensions", None) or [v.shape[1] for v in values]]
    fitted = []
    for x, size in zip(values, sizes, strict=True):
        flat = s.reshape(x, [x.shape[0], x.size // x.shape[0]])
        missing = max(size - flat.shape[1], 0)
        fitted.append(s.slice_axis(s.pad(flat, 0, [0, 0], [0, missing]), 1, 0, size))
    return s.concatenate(fitted, 1)


@operator("ArrayFeatureExtractor", domain=CLASSICAL)
def array_feature_extractor(node: Node) -> Result:
    """Elements along the last axis."""
    return i.take(_matrix(node.input(0)), s.flatten(node.input(1)), -1)


@operator("OneHotEncoder", domain=CLASSICAL)
def one_hot_encoder(node: Node) -> Result:
    """1 at the place of each element's category along a new axis, 0 elsewhere."""
    x, categories = node.input(0), _numbers(node, "cats_int64s")
    if categories is None:
        raise node.refuse(
            "encodes strings, which compiled models do not have",
            "encode the categories as integers before the model is called",
        )
    if not node.get("zeros", 1):
        raise node.refuse(
            "fails for categories that it does not know (zeros=0), and compiled models return a result "
            "for each input",
            "export the model with handle_unknown='ignore'",
        )
    wide = s.expand_dims(e.convert(x, INT64), x.rank)
    return e.convert(e.equal(wide, node.builder.constant(categories, INT64)), FLOAT32)


_SUFFIXES = ("int64s", "floats", "tensor", "strings")


def _list(node: Node, kind: str) -> Array:
    """The keys or values of `LabelEncoder`."""
    from onnx import numpy_helper

    for suffix in _SUFFIXES:
        values = node.get(f"{kind}_{suffix}", None)
        if suffix == "tensor" and values is not None:
            array = np.asarray(numpy_helper.to_array(values)).reshape(-1)
        elif values is not None and len(values):
            array = np.asarray(values, np.float32 if suffix == "floats" else None)
        else:
            continue
        if array.dtype.kind not in "OSU":
            return array
    raise node.refuse(
        "reads or returns strings, which compiled models do not have",
        "encode the labels as integers outside the model",
    )


@operator("LabelEncoder", domain=CLASSICAL)
def label_encoder(node: Node) -> Result:
    """Numbers in place of numbers; what no key equals becomes the default."""
    from onnx import numpy_helper

    x, keys, values = node.input(0), _list(node, "keys"), _list(node, "values")
    if "default_tensor" in node.attributes:
        default = np.asarray(numpy_helper.to_array(node.attributes["default_tensor"])).reshape(())
    elif values.dtype.kind == "f":
        default = np.asarray(node.get("default_float", -0.0))
    else:
        default = np.asarray(node.get("default_int64", -1))
    wide = s.expand_dims(x, x.rank)
    known = node.builder.constant(keys, x.dtype)
    same = e.equal(wide, known)
    if is_float(x.dtype) and node.opset >= 4:
        same = e.or_(same, e.and_(e.is_nan(wide), e.is_nan(known)))
    hits = e.convert(same, np.int32)
    # The last of equal keys counts; the table's first row is the default.
    rows = node.builder.constant(np.arange(1, len(keys) + 1), np.int32)
    place = r.reduce(hits * rows, [x.rank], "maximum")
    table = np.concatenate([default.reshape(1).astype(values.dtype), values])
    return i.take(node.builder.constant(table), place, 0)


# --- linear models --------------------------------------------------------------------------------


def _probit(x: Value) -> Value:
    """The inverse of the normal distribution, as ONNX Runtime approximates it."""
    y = 2 * x - 1
    logarithm = e.log((1 - y) * (1 + y))
    half = logarithm * 0.5 + 2 / (math.pi * 0.147)
    inner = half * half - logarithm / 0.147
    return e.sign(y) * e.sqrt(e.sqrt(inner) - half) * math.sqrt(2)


def _softmax_zero(x: Value) -> Value:
    """The softmax of the scores other than 0, which stay 0."""
    powers = e.exp(x - r.reduce(x, [-1], "maximum", keep=True))
    kept = e.select(e.compare("GT", e.abs_(x), 1e-7), powers, x)
    return kept / r.reduce(kept, [-1], "add", keep=True)


_TRANSFORMS: dict[str, Callable[[Value], Value]] = {
    "NONE": lambda x: x,
    "SOFTMAX": lambda x: r.softmax(x, x.rank - 1),
    "LOGISTIC": e.logistic,
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def _linear(node: Node, targets: int) -> Value:
    """Features times coefficients, plus intercepts: [rows, targets]."""
    x = _floats(_matrix(node.input(0)))
    coefficients = np.asarray(node.attributes["coefficients"], np.float32)
    weights = node.builder.constant(coefficients.reshape(targets, -1).T)
    product = p.matmul(x, weights)
    intercepts = _numbers(node, "intercepts")
    return product if intercepts is None else product + node.builder.constant(intercepts, FLOAT32)


@operator("LinearRegressor", domain=CLASSICAL)
def linear_regressor(node: Node) -> Result:
    """A linear function for each target."""
    return _transformed(node, _linear(node, int(node.get("targets", 1))))


def _transformed(node: Node, scores: Value) -> Value:
    """The scores by `post_transform`, which ONNX Runtime leaves out for a single one, but for PROBIT."""
    kind = node.get("post_transform", "NONE")
    return scores if scores.shape[1] == 1 and kind != "PROBIT" else _TRANSFORMS[kind](scores)


@operator("LinearClassifier", domain=CLASSICAL)
def linear_classifier(node: Node) -> Result:
    """The class of the largest score, and the scores of all classes."""
    labels = _labels(node)
    transform = node.get("post_transform", "NONE")
    intercepts = _numbers(node, "intercepts")
    count = len(labels) if intercepts is None else len(intercepts)
    scores = _linear(node, count)
    if count == 1 and len(labels) == 2:
        return _binary(node, scores, labels, transform)
    _, place = r.arg_reduce(scores, 1, largest=True)
    return [_choose(node, labels, place), _TRANSFORMS[transform](scores)]


def _choose(node: Node, labels: Sequence[int], place: Value) -> Value:
    return i.take(node.builder.constant(list(labels), INT64), place, 0)


def _labels(node: Node) -> list[int]:
    labels = _numbers(node, "classlabels_ints")
    if labels is None:
        raise node.refuse(
            "returns labels that are strings, which compiled models do not have",
            "train it with classes that are numbers, and name them outside the model",
        )
    return [int(label) for label in labels]


def _binary(node: Node, scores: Value, labels: Sequence[int], transform: str) -> list[Value]:
    """Two classes of one score: that of the second class is given; the first has the rest of 1."""
    if transform == "PROBIT":
        raise node.refuse(
            "has one score for two classes and post_transform PROBIT", "use LOGISTIC or NONE"
        )
    chosen = _choose(node, labels, e.convert(s.flatten(scores) > 0, np.int32))
    second = e.logistic(scores) if transform == "LOGISTIC" else scores
    return [chosen, s.concatenate([1 - second, second], 1)]


# --- support vectors ------------------------------------------------------------------------------


def _kernel(node: Node, x: Value, vectors: Value) -> Value:
    """The kernel of each row and each support vector, [rows, vectors]."""
    kind = node.get("kernel_type", "LINEAR")
    gamma, shift, degree = (*(node.get("kernel_params", None) or ()), 0.0, 0.0, 0.0)[:3]
    if kind == "RBF":
        difference = s.expand_dims(x, 1) - s.expand_dims(vectors, 0)
        return e.exp(r.reduce(difference * difference, [2], "add") * -gamma)
    product = p.matmul(x, s.transpose(vectors, [1, 0]))
    if kind == "POLY":
        return e.power(product * gamma + shift, degree)
    return e.tanh(product * gamma + shift) if kind == "SIGMOID" else product


@operator("SVMRegressor", domain=CLASSICAL)
def svm_regressor(node: Node) -> Result:
    """A sum of kernels of support vectors, or a linear function."""
    x = _floats(_matrix(node.input(0)))
    count = int(node.get("n_supports", 0))
    rho = float(node.attributes["rho"][0])
    coefficients = np.asarray(node.attributes["coefficients"], np.float32)
    if count:
        vectors = np.asarray(node.attributes["support_vectors"], np.float32).reshape(count, -1)
        x = _kernel(node, x, node.builder.constant(vectors))
    result = p.matmul(x, node.builder.constant(coefficients.reshape(-1, 1))) + rho
    if node.get("one_class", 0):
        result = e.select(result > 0, _one(node, 1.0), _one(node, -1.0))
    return _transformed(node, result)


def _one(node: Node, value: float) -> Value:
    return node.builder.constant(value, FLOAT32)


@operator("SVMClassifier", domain=CLASSICAL)
def svm_classifier(node: Node) -> Result:
    """Refused: its probabilities are fitted by an iteration."""
    raise node.refuse(
        "is a classifier by support vectors, which modelwheel does not compile",
        "use a linear model or a network",
    )
