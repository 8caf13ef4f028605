"""Spectra: `DFT`, `STFT`, windows and mel filters."""

from __future__ import annotations

import math

import numpy as np
from onnx import helper

from ....stablehlo.writer import Value
from ....stablehlo.writer import contractions as p
from ....stablehlo.writer import gathering as i
from ....stablehlo.writer import reshaping as s
from ....stablehlo.writer.mlir_types import Array
from .onnx_node import Node, Result, operator


@operator("DFT")
def dft(node: Node) -> Result:
    """The discrete Fourier transform of [..., 1 or 2] along an axis, as products with its matrix."""
    x = node.input(0)
    axis = node.get("axis", 1)
    if node.opset >= 20:
        axis = -2 if node.optional(2) is None else int(node.required(2, "its axis").reshape(()))
    axis %= x.rank
    length = x.shape[axis]
    if node.optional(1) is not None:
        length = int(node.required(1, "its length").reshape(()))
    inverse, onesided = bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    if onesided and inverse:
        return _inverse_onesided(node, x, axis, length)
    x = _fit(x, axis, length)
    count = length // 2 + 1 if onesided else length
    parts = s.split(x, -1, [1] * x.shape[-1])
    return s.concatenate(_transform(parts, axis, _turns(length, count, inverse=inverse)), -1)


def _fit(x: Value, axis: int, length: int) -> Value:
    """Cut, or filled up with zeros."""
    if x.shape[axis] >= length:
        return s.slice_axis(x, axis, 0, length)
    high = [length - x.shape[axis] if a == axis else 0 for a in range(x.rank)]
    return s.pad(x, 0, [0] * x.rank, high)


def _turns(length: int, count: int, *, inverse: bool) -> Array:
    """The matrix of the transform: [length, count]."""
    steps = np.outer(np.arange(length), np.arange(count)) % length
    angles = 2 * np.pi * steps / length
    turns: Array = np.exp(1j * angles if inverse else -1j * angles)
    return turns / length if inverse else turns


def _transform(parts: list[Value], axis: int, matrix: Array) -> list[Value]:
    """Real and imaginary parts of the product along an axis."""
    x = parts[0]
    factors = [x.builder.constant(part, x.dtype) for part in (matrix.real, matrix.imag)]
    products = [
        [s.move_axis(p.dot_general(v, f, ([axis], [0])), v.rank - 1, axis) for f in factors]
        for v in parts
    ]
    real, imaginary = products[0]
    if len(parts) == 2:
        real = real - products[1][1]
        imaginary = imaginary + products[1][0]
    return [real, imaginary]


def _inverse_onesided(node: Node, x: Value, axis: int, length: int) -> Value:
    """The real signal of half a spectrum; the other half is its conjugate."""
    if node.optional(1) is None:
        length = 2 * (x.shape[axis] - 1)
    count = length // 2 + 1
    x = _fit(x, axis, count)
    weights = np.full(count, 2.0)
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    matrix = _turns(length, count, inverse=True).T * weights[:, None]
    parts = s.split(x, -1, [1] * x.shape[-1])
    return _transform(parts, axis, matrix)[0]


@operator("STFT")
def stft(node: Node) -> Result:
    """Spectra of frames of a signal [batch, samples, 1 or 2]."""
    x = node.input(0)
    if x.rank == 2:
        x = s.expand_dims(x, -1)
    step = int(node.required(1, "its step").reshape(()))
    window = node.optional(2)
    length = window.size if window is not None else 0
    if node.optional(3) is not None:
        length = int(node.required(3, "the length of its frames").reshape(()))
    frames = (x.shape[1] - length) // step + 1
    places = np.arange(frames)[:, None] * step + np.arange(length)
    pieces = i.take(x, node.builder.constant(places, np.int64), 1)
    if window is not None:
        pieces = pieces * s.reshape(window, [1, 1, length, 1])
    count = length // 2 + 1 if node.get("onesided", 1) else length
    parts = s.split(pieces, -1, [1] * x.shape[-1])
    return s.concatenate(_transform(parts, 2, _turns(length, count, inverse=False)), -1)


@operator("MelWeightMatrix")
def mel_weight_matrix(node: Node) -> Result:
    """Triangles at equal distances on the mel scale: [bins, mel bins]."""
    bins, length, rate, low, high = (
        node.required(n, "its parameters").reshape(()) for n in range(5)
    )
    count = int(bins)
    spectrogram = int(length) // 2 + 1
    mels = [2595 * math.log10(1 + float(f) / 700) for f in (low, high)]
    points = mels[0] + np.arange(count + 2) * (mels[1] - mels[0]) / (count + 2)
    hertz = 700 * (10 ** (points / 2595) - 1)
    places = ((int(length) + 1) * hertz // int(rate)).astype(int)
    matrix = np.zeros((spectrogram, count), np.float32)
    for n in range(count):
        first, centre, last = places[n : n + 3]
        if centre == first:
            matrix[centre, n] = 1
        else:
            matrix[first : centre + 1, n] = np.arange(centre - first + 1) / (centre - first)
        if last > centre:
            matrix[centre:last, n] = np.arange(last - centre, 0, -1) / (last - centre)
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(node.get("output_datatype", 1)))
    return node.builder.constant(matrix, dtype)
