"""Real inputs, made by code: an image with shapes and edges, a wave like a voice, texts as token numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tests.corpus.table import Making, Sample

Array: TypeAlias = NDArray[Any]

_SAMPLES_PER_SECOND = 16_000


def make_samples(samples: Mapping[str, Sample]) -> dict[str, Array]:
    """An array for each input."""
    rng = np.random.default_rng(0)
    return {
        name: (_MAKERS[one.make](rng, one.shape, one.limit) * one.scale).astype(one.dtype)
        for name, one in samples.items()
    }


def _image(rng: np.random.Generator, shape: tuple[int, ...], _: int) -> Array:
    """Bright rectangles on a gradient with a little noise, from 0 to 1; the two longest axes are rows and columns."""
    rows, columns = sorted(np.argsort(shape)[-2:])
    y = np.linspace(0, 1, shape[rows])[:, None]
    x = np.linspace(0, 1, shape[columns])[None, :]
    plane = 0.3 * y + 0.3 * x
    for _number in range(6):
        top, left = rng.uniform(0, 0.8, 2)
        plane = plane + 0.2 * ((y > top) & (y < top + 0.2) & (x > left) & (x < left + 0.2))
    index: list[Any] = [None] * len(shape)
    index[rows] = index[columns] = slice(None)
    values = np.broadcast_to(plane[tuple(index)], shape)
    return np.asarray(np.clip(values + rng.normal(0, 0.02, shape), 0, 1))


def _wave(rng: np.random.Generator, shape: tuple[int, ...], _: int) -> Array:
    """Harmonics of a voice whose pitch glides, louder and softer, with noise; time is the longest axis."""
    axis = int(np.argmax(shape))
    t = np.arange(shape[axis]) / _SAMPLES_PER_SECOND
    phase = 2 * np.pi * np.cumsum(140 + 30 * np.sin(2 * np.pi * 3 * t)) / _SAMPLES_PER_SECOND
    voice = sum(np.sin(n * phase) / n for n in range(1, 9)) * (
        0.5 + 0.5 * np.sin(2 * np.pi * 4 * t)
    )
    index: list[Any] = [None] * len(shape)
    index[axis] = slice(None)
    values = 0.1 * np.broadcast_to(np.asarray(voice)[tuple(index)], shape)
    return np.asarray(values + rng.normal(0, 0.002, shape))


def _spectrum(rng: np.random.Generator, shape: tuple[int, ...], _: int) -> Array:
    """Logarithms of powers: a line for each harmonic, falling with the frequency, which is the last axis."""
    bins = np.arange(shape[-1])
    lines = 4 * np.cos(2 * np.pi * bins / 7) - 4 * bins / shape[-1] - 4
    return np.asarray(np.broadcast_to(lines, shape) + rng.normal(0, 1, shape))


def _tokens(rng: np.random.Generator, shape: tuple[int, ...], limit: int) -> Array:
    """Token numbers, frequent ones small, as in text."""
    drawn = np.minimum(rng.zipf(1.3, shape), limit - 1)
    return np.asarray(drawn)


def _one_hot(rng: np.random.Generator, shape: tuple[int, ...], _: int) -> Array:
    """A letter at each position; the last axis is the alphabet."""
    return np.asarray(np.eye(shape[-1])[rng.integers(0, shape[-1], shape[:-1])])


_MAKERS: Mapping[Making, Callable[[np.random.Generator, tuple[int, ...], int], Array]] = {
    "image": _image,
    "wave": _wave,
    "spectrum": _spectrum,
    "tokens": _tokens,
    "ones": lambda _rng, shape, _: np.ones(shape),
    "one-hot": _one_hot,
    "row": lambda rng, shape, _: np.asarray(rng.normal(0, 1, shape)),
}
