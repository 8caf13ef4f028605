"""Operations of the domain com.microsoft, for `tests.models.onnx_operations`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from tests.models.onnx_cases import Case, case, ints
from tests.support.onnx_models import Array, random

MICROSOFT = "com.microsoft"

_ms = partial(case, domain=MICROSOFT)


def _bytes(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(0, 255, shape, np.uint8)


def _signed(*shape: int, seed: int = 1) -> Array:
    return np.random.default_rng(seed).integers(-127, 127, shape).astype(np.int8)


def _scale(*shape: int, seed: int = 1) -> Array:
    return (np.random.default_rng(seed).random(shape) / 64).astype(np.float32)


def fusions() -> Iterator[Case]:
    """Activations, products and normalisations."""
    x, bias = random(2, 3, 8), random(8, seed=2)
    yield _ms("Gelu", x)
    yield _ms("BiasGelu", x, w=(bias,))
    yield _ms("FastGelu", x, w=(bias,))
    yield _ms("QuickGelu", x, alpha=1.2)
    yield _ms("FusedMatMul", random(2, 4, 3), w=(random(2, 5, 4),), transA=1, transB=1, alpha=0.5)
    yield _ms(
        "FusedMatMul", random(3, 2, 4), w=(random(4, 2, 5),), to="b", transBatchA=1, transBatchB=1
    )
    gemm: tuple[tuple[str, dict[str, Any]], ...] = (
        ("Relu", {}),
        ("LeakyRelu", {"activation_alpha": 0.2}),
    )
    for activation, settings in gemm:
        yield _ms(
            "FusedGemm",
            random(3, 4),
            w=(random(5, 4, seed=2), random(5, seed=3)),
            to=activation,
            transB=1,
            activation=activation,
            **settings,
        )
    conv: tuple[tuple[str, dict[str, Any]], ...] = (
        ("Tanh", {}),
        ("HardSigmoid", {"activation_params": [0.3, 0.4]}),
        ("Clip", {"activation_params": [-0.3, 0.4]}),
    )
    for activation, settings in conv:
        yield _ms(
            "FusedConv",
            random(1, 3, 6, 5),
            w=(random(4, 3, 3, 2, seed=2), random(4, seed=3)),
            to=activation,
            pads=[1, 0, 1, 1],
            activation=activation,
            **settings,
        )
    skip, weights = random(2, 3, 8, seed=3), (random(8, seed=4), random(8, seed=5), bias)
    yield _ms("SkipLayerNormalization", x, skip, w=weights, epsilon=1e-5)
    yield _ms("SkipSimplifiedLayerNormalization", x, skip, w=weights[1:])
    yield case("SimplifiedLayerNormalization", x, w=weights[:1], n=2)
    tokens, segments = (
        np.array([[1, 2, 3], [0, 4, 2]], np.int32),
        np.array([[0, 0, 1]] * 2, np.int32),
    )
    tables = (random(6, 8), random(5, 8, seed=2), random(2, 8, seed=3))
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    yield _ms(
        "EmbedLayerNormalization",
        tokens,
        segments,
        w=(*tables, *weights[:2], mask),
        n=2,
        types=(np.float32, np.int32),
    )
    yield _ms("CDist", random(4, 3), random(5, 3, seed=2), metric="euclidean")
    yield _ms("GatherND", random(2, 3, 4), w=(np.array([[0, 1], [1, 2]], np.int64),))
    yield _ms("Pad", random(2, 3), w=(ints(0, 1, 2, 0), np.array([1.5], np.float32)))
    yield _ms(
        "ConvTransposeWithDynamicPads", random(1, 3, 4, 4), w=(random(3, 2, 3, 3), ints(1, 1, 0, 1))
    )


def attention() -> Iterator[Case]:
    """Attention with every kind of mask, packed and with a past."""
    batch, length, width, heads = 2, 5, 8, 2
    x, weights = random(batch, length, width), (random(width, 3 * width, seed=2), random(3 * width))
    masks = {
        "lengths": np.array([3, 5], np.int32),
        "ends and starts": np.array([4, 5, 1, 0], np.int32),
        "rows": np.array([[1, 1, 0, 1, 1], [1, 1, 1, 0, 0]], np.int32),
    }
    for name, mask in masks.items():
        for only_earlier in (0, 1):
            yield _ms(
                "Attention",
                x,
                w=(*weights, mask),
                to=f"{name} {only_earlier}",
                num_heads=heads,
                unidirectional=only_earlier,
            )
    past = random(2, batch, heads, 3, 4, seed=6)
    yield _ms("Attention", x, w=(*weights, None, past), to="past", n=2, num_heads=heads)
    keys, values = random(batch, 6, width, seed=2), random(batch, 6, 12, seed=3)
    more = (random(2 * width + 12), np.array([4, 6], np.int32), random(1, heads, length, 6))
    yield _ms("MultiHeadAttention", x, keys, values, w=more, num_heads=heads)
    yield _ms(
        "QAttention",
        _bytes(batch, length, width),
        w=(
            _signed(width, 3 * width),
            weights[1],
            np.float32(0.01),
            _scale(3 * width),
            None,
            np.uint8(120),
            np.zeros(3 * width, np.int8),
        ),
        num_heads=heads,
    )
    angles = np.arange(10)[:, None] * np.linspace(0.1, 1, 8)
    tables = (np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))
    for interleaved in (0, 1):
        yield _ms(
            "RotaryEmbedding",
            random(batch, length, 32),
            w=(np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]], np.int64), *tables),
            to=str(interleaved),
            interleaved=interleaved,
        )
    yield _ms(
        "GroupQueryAttention",
        random(batch, length, (4 + 2 * 2) * 16),
        w=(None, None, None, None, np.array([2, 4], np.int32), np.array(length, np.int32), *tables),
        n=3,
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
        local_window_size=3,
    )


def quantized_fusions() -> Iterator[Case]:
    """Operations on quantised tensors."""
    f, u, types = np.float32, np.uint8, (np.uint8,)
    a, b = _bytes(3, 8), _bytes(3, 8, seed=3)
    one, two, out = (f(0.02), u(113)), (f(0.03), u(100)), (f(0.051), u(128))
    yield _ms("QLinearAdd", a, w=(*one, b, *two, *out), types=types)
    yield _ms("QLinearMul", a, w=(*one, b, *two, *out), types=types)
    yield _ms("QLinearSigmoid", a, w=(*one, f(1 / 256), u(0)), types=types)
    yield _ms("QLinearLeakyRelu", a, w=(*one, *out), types=types, alpha=0.1)
    yield _ms("QLinearSoftmax", a, w=(*one, f(1 / 256), u(0)), types=types, opset=13)
    image = _bytes(1, 2, 5, 6, seed=4)
    yield _ms("QLinearGlobalAveragePool", image, w=(*one, *two), types=types)
    yield _ms("QLinearAveragePool", image, w=(*one, *two), types=types, kernel_shape=[2, 3])
    matrix = _signed(8, 5)
    yield _ms(
        "QGemm",
        a,
        w=(*one, matrix, f(0.01), np.int8(2), np.arange(5, dtype=np.int32), *two),
        types=types,
    )
    yield _ms("DynamicQuantizeMatMul", random(2, 3, 8), w=(matrix, _scale(5), _signed(5) // 9))
    yield _ms("MatMulIntegerToFloat", a, w=(matrix, f(0.02), _scale(5), u(3), _signed(5) // 9))
    columns, rows, block = 5, 70, 32
    for bits in (4, 8):
        yield _ms(
            "MatMulNBits",
            random(2, 3, rows),
            w=(
                _bytes(columns, 3, block * bits // 8),
                _scale(columns, 3),
                _bytes(columns, -(-3 * bits // 8), seed=3),
            ),
            to=str(bits),
            K=rows,
            N=columns,
            bits=bits,
            block_size=block,
        )
    size = 5
    yield _ms(
        "DynamicQuantizeLSTM",
        random(20, 1, 3),
        w=(
            *(_signed(2, 3, 4 * size), _signed(2, size, 4 * size, seed=2), random(2, 8 * size)),
            *(None, None, None, None, _scale(2), np.zeros(2, np.int8)),
            *(_scale(2, seed=2), np.zeros(2, np.int8)),
        ),
        n=3,
        hidden_size=size,
        direction="bidirectional",
    )
