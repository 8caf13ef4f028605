"""Fusions of the domain com.microsoft, which optimised files contain: activations, products, normalisations.

They are what https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .....stablehlo.writer import Value
from .....stablehlo.writer import contractions as p
from .....stablehlo.writer import gathering as i
from .....stablehlo.writer import pointwise as e
from .....stablehlo.writer import reducing as r
from .....stablehlo.writer import reshaping as s
from .....stablehlo.writer.mlir_types import FLOAT32, INT32
from ..images.sliding import kernel_window
from ..matmul import scaled
from ..neural import elu, gelu, hard_sigmoid, softplus
from ..onnx_node import MICROSOFT, OPERATORS, Item, Node, Result, operator


def as_standard(node: Node, op: str, inputs: Sequence[Item] | None = None) -> list[Item]:
    """The results of an operation of ONNX for a node of another domain.

    Args:
        node: With the attributes.
        op: The operation.
        inputs: By default those of the node.
    """
    operands = node.inputs if inputs is None else tuple(inputs)
    results = OPERATORS["", op](replace(node, op=op, domain="", opset=13, inputs=operands))
    return list(results) if isinstance(results, Sequence) else [results]


def value(items: Sequence[Item]) -> Value:
    """The first of some items, which is a tensor."""
    first = items[0]
    assert isinstance(first, Value)
    return first


# --- activations ----------------------------------------------------------------------------------


@operator("Gelu", "BiasGelu", domain=MICROSOFT)
def exact_gelu(node: Node) -> Result:
    """Gelu of the input, or of its sum with a bias."""
    x = node.input(0)
    return gelu(x + node.input(1) if node.op == "BiasGelu" else x, approximate=False)


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(node: Node) -> Result:
    """Gelu by tanh."""
    bias = node.optional(1)
    return gelu(node.input(0) if bias is None else node.input(0) + bias, approximate=True)


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node) -> Result:
    """x * sigmoid(alpha * x)."""
    x = node.input(0)
    return x * e.logistic(x * node.get("alpha", 1.702))


@operator("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(node: Node) -> Result:
    """The first half of the sum with a bias, times Gelu of the second."""
    x = node.input(0) + node.input(1)
    left, right = s.split(x, -1, [x.shape[-1] // 2] * 2)
    return left * gelu(right, approximate=False)


@operator("BiasAdd", "BiasDropout", domain=MICROSOFT)
def bias_add(node: Node) -> Result:
    """The sum of an input, a bias and perhaps another input. Compiled models do not train."""
    if node.op == "BiasDropout" and node.optional(4) is not None and _true(node, 4):
        raise node.refuse("draws random numbers", "export the model for inference")
    total, other = node.input(0) + node.input(1), node.optional(2)
    total = total if other is None else total + other
    return [total, s.full(node.builder, total.shape, True, np.bool_)]  # noqa: FBT003


def _true(node: Node, number: int) -> bool:
    return bool(node.required(number, "its mode").reshape(()))


_FUSED: dict[str, Callable[[Value, float, float], Value]] = {
    "Relu": lambda x, _a, _b: e.maximum(x, 0),
    "Tanh": lambda x, _a, _b: e.tanh(x),
    "Sigmoid": lambda x, _a, _b: e.logistic(x),
    "LeakyRelu": lambda x, a, _b: e.select(x < 0, x * a, x),
    "HardSigmoid": hard_sigmoid,
    "Clip": lambda x, a, b: e.clamp(a, x, b),
    "Elu": lambda x, a, _b: elu(x, a),
    "Softplus": lambda x, _a, _b: softplus(x),
    "Softsign": lambda x, _a, _b: x / (e.abs_(x) + 1),
    "HardSwish": lambda x, a, b: x * hard_sigmoid(x, a, b),
}
_SETTINGS = {"LeakyRelu": (0.01, 0.0), "HardSigmoid": (0.2, 0.5), "HardSwish": (1 / 6, 0.5)}


def activated(node: Node, x: Value) -> Value:
    """The activation that a fused node ends with, its settings in `activation_params` or by name."""
    name = node.get("activation", "")
    if not name:
        return x
    if name not in _FUSED:
        raise node.refuse(f"has the activation {name}", "export the model without this fusion")
    first, second = _SETTINGS.get(name, (1.0, 0.0))
    parameters = list(node.get("activation_params", None) or ())
    first = parameters[0] if parameters else node.get("activation_alpha", first)
    second = parameters[1] if len(parameters) > 1 else node.get("activation_beta", second)
    return _FUSED[name](x, first, second)


# --- products -------------------------------------------------------------------------------------


@operator("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain=MICROSOFT)
def fused_mat_mul(node: Node) -> Result:
    """alpha * A * B of transposed operands."""
    a, b = node.input(0), node.input(1)
    if a.rank > 2 and node.get("transBatchA", 0):
        a = s.move_axis(a, 0, a.rank - 2)
    if b.rank > 2 and node.get("transBatchB", 0):
        b = s.move_axis(b, 0, b.rank - 2)
    a = _swapped(a) if node.get("transA", 0) and a.rank > 1 else a
    b = _swapped(b) if node.get("transB", 0) and b.rank > 1 else b
    return activated(node, scaled(p.matmul(a, b), node.get("alpha", 1.0)))


def _swapped(x: Value) -> Value:
    return s.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: Node) -> Result:
    """`Gemm` and an activation."""
    return activated(node, value(as_standard(node, "Gemm")))


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(node: Node) -> Result:
    """`Conv`, perhaps another addend, and an activation."""
    result, other = value(as_standard(node, "Conv", node.inputs[:3])), node.optional(3)
    return activated(node, result if other is None else result + other)


@operator("NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def nhwc_conv(node: Node) -> Result:
    """A convolution with channels as the last axis of the input and the result."""
    x, kernel, bias, other = node.input(0), node.input(1), node.optional(2), node.optional(3)
    x = s.move_axis(x, -1, 1)
    window = kernel_window(node, x, kernel.shape[2:])
    result = s.move_axis(p.convolution(x, kernel, window, node.get("group", 1)), 1, -1)
    result = result if bias is None else result + bias
    return activated(node, result if other is None else result + other)


@operator("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(node: Node) -> Result:
    """`MaxPool` with channels last."""
    return s.move_axis(
        value(as_standard(node, "MaxPool", [s.move_axis(node.input(0), -1, 1)])), 1, -1
    )


@operator("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def conv_transpose(node: Node) -> Result:
    """`ConvTranspose` whose padding is an input."""
    pads = node.integers(2, "pads", "its padding")
    padded = node if pads is None else replace(node, attributes={**node.attributes, "pads": pads})
    bias = node.inputs[3:4] or [None]
    return as_standard(padded, "ConvTranspose", [*node.inputs[:2], *bias])


@operator("CDist", domain=MICROSOFT)
def distances(node: Node) -> Result:
    """The distance of each row of one matrix from each row of another."""
    difference = s.expand_dims(node.input(0), 1) - s.expand_dims(node.input(1), 0)
    squares = r.reduce(difference * difference, [2], "add")
    return e.sqrt(squares) if node.get("metric", "sqeuclidean") == "euclidean" else squares


# --- normalisations -------------------------------------------------------------------------------


def normalized(
    node: Node, x: Value, scale: Value, shift: Value | None, *, centred: bool = True
) -> tuple[Value, Value, Value]:
    """A normalisation over the last axis, and the mean and inverse deviation that it uses."""
    epsilon = node.get("epsilon", 1e-12)
    wide = e.convert(x, FLOAT32) if x.dtype.itemsize < 4 else x
    mean = r.mean(wide, [-1], keep=True)
    middle = wide - mean if centred else wide
    inverse = e.rsqrt(r.mean(middle * middle, [-1], keep=True) + epsilon)
    result = e.convert(middle * inverse, x.dtype) * scale
    return result if shift is None else result + shift, mean, inverse


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: Node) -> Result:
    """A normalisation of the sum of two inputs and perhaps a bias, and that sum."""
    plain = node.op == "SkipLayerNormalization"
    shift, bias = (node.optional(3), node.optional(4)) if plain else (None, node.optional(3))
    total = node.input(0) + node.input(1)
    total = total if bias is None else total + bias
    return [*normalized(node, total, node.input(2), shift, centred=plain), total]


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(node: Node) -> Result:
    """Divided by the root of the mean square over the last axes, and scaled."""
    x = node.input(0)
    axes = list(range(node.get("axis", -1) % x.rank, x.rank))
    wide = e.convert(x, FLOAT32) if x.dtype.itemsize < 4 else x
    inverse = e.rsqrt(r.mean(wide * wide, axes, keep=True) + node.get("epsilon", 1e-5))
    scale = node.input(1)
    return [e.convert(e.convert(wide * inverse, x.dtype) * scale, scale.dtype), inverse]


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(node: Node) -> Result:
    """The normalised sum of the embeddings of tokens, positions and segments."""
    tokens, segments, table = node.input(0), node.optional(1), node.optional(4)
    batch, length = tokens.shape
    places, numbers = node.input(3), node.optional(8)
    if numbers is None:
        positions = s.slice_axis(places, 0, 0, length)
    else:
        positions = i.take(places, s.broadcast_to(numbers, tokens.shape), 0)
    total = i.take(node.input(2), tokens, 0) + positions
    if segments is not None and table is not None:
        total = total + i.take(table, segments, 0)
    result, _, _ = normalized(node, total, node.input(5), node.input(6))
    mask = node.optional(7)
    counts = (
        s.full(node.builder, [batch], 0, INT32)
        if mask is None
        else r.reduce(e.convert(e.equal(mask, 1), INT32), [1], "add")
    )
    return [result, counts, total]


# --- what ONNX has too ----------------------------------------------------------------------------


@operator("GatherND", "Trilu", domain=MICROSOFT)
def same(node: Node) -> Result:
    """The operation of ONNX with the same name."""
    return as_standard(node, node.op)


@operator("Pad", domain=MICROSOFT)
def pad(node: Node) -> Result:
    """`Pad`, whose widths may be a matrix of one row."""
    widths = node.builder.constant(node.required(1, "its padding").reshape(-1), np.int64)
    return as_standard(node, "Pad", [node.inputs[0], widths, *node.inputs[2:]])


@operator("ExpandDims", domain=MICROSOFT)
def expand_dims(node: Node) -> Result:
    """The input with an axis of extent 1."""
    return s.expand_dims(node.input(0), int(node.required(1, "its axis").reshape(())))
