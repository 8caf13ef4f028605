"""Weights in fewer bytes: what is stored, and what must stay as it is."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from modelwheel.codegen import Constants, Storage, StoredWeights, store
from modelwheel.codegen.storage import SMALLEST, StoredConstant
from modelwheel.dtypes import ElementType
from modelwheel.program.arrays import ArrayShape


def _constants(*arrays: Any, layout: tuple[int, ...] = (1, 0)) -> Constants:
    constants = Constants()
    for values in arrays:
        array = ArrayShape(
            element_type=ElementType[values.dtype.name.upper()],
            shape=values.shape,
            minor_to_major=layout,
        )
        content = values.transpose(layout[::-1]).tobytes()
        constants.add(hashlib.sha256(content).hexdigest(), content, array)
    return constants


def _expand(stored: StoredWeights, one: StoredConstant) -> Any:
    """As `src/expand.cpp` does."""
    kind: dict[Storage, Any] = {"float16": np.float16, "int8": np.int8, "float32": np.uint8}
    content = bytes(stored.content)
    values = np.frombuffer(content, kind[one.kind], one.count, one.place)
    if one.kind != "int8":
        return values
    scales = np.frombuffer(content, np.float32, one.channels, one.scales)
    return values * scales[np.arange(one.count) // one.inner % one.channels]


def _weights(seed: int = 1) -> Any:
    """Columns of very different sizes, as output channels have."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(96, 40)) * np.geomspace(1e-3, 10, 40)).astype(np.float32)


def test_float32_is_as_it_was() -> None:
    constants = _constants(_weights())
    stored = store(constants, "float32")
    assert (stored.content, stored.constants) == (constants.blob, [])
    assert stored.expanded_bytes == 0


def test_float16_is_half_the_size_and_rounded_to_nearest() -> None:
    weights = _weights()
    stored = store(_constants(weights), "float16")
    (one,) = stored.constants
    assert (one.kind, len(stored.content)) == ("float16", weights.nbytes // 2)
    assert stored.expanded_bytes == weights.nbytes
    assert np.array_equal(_expand(stored, one), weights.astype(np.float16).ravel())


@pytest.mark.parametrize("layout", [(1, 0), (0, 1)])
def test_int8_has_a_scale_for_each_channel_whatever_the_layout(layout: tuple[int, ...]) -> None:
    weights = _weights()
    stored = store(_constants(weights, layout=layout), "int8")
    (one,) = stored.constants
    assert one.channels == 40
    assert len(stored.content) == weights.size + 4 * 40
    shape = [weights.shape[axis] for axis in reversed(layout)]
    expanded = _expand(stored, one).reshape(shape).transpose(layout[::-1])
    limit = np.abs(weights).max(axis=0) / 127 / 2
    assert (np.abs(expanded - weights) <= limit * 1.001).all()


def test_few_elements_share_one_scale() -> None:
    weights = np.random.default_rng(2).normal(size=(8, 512)).astype(np.float32)
    (one,) = store(_constants(weights), "int8").constants
    assert (one.channels, one.inner) == (8, 512)
    (one,) = store(_constants(weights.reshape(1, -1)), "int8").constants
    assert (one.channels, one.inner) == (1, 4096)


@pytest.mark.parametrize("storage", ["float16", "int8"])
def test_what_is_small_or_no_float32_or_not_finite_stays(storage: Storage) -> None:
    small = np.ones((2, SMALLEST // 8 - 1), np.float32)
    indices = np.arange(4000, dtype=np.int32).reshape(2, -1)
    endless = _weights()
    endless[3, 3] = -np.inf
    constants = _constants(small, indices, endless, _weights())
    again = constants.add(hashlib.sha256(_weights().tobytes()).hexdigest(), _weights().tobytes())
    stored = store(constants, storage)
    assert [one.kind for one in stored.constants] == ["float32"] * 4
    # The last one is also the first value of a state, which is read from where it is stored.
    assert stored.content[stored.places[again] :][: _weights().nbytes] == _weights().tobytes()
    large = store(_constants(_weights() * 1e5), storage).constants[0]
    assert large.kind == ("float32" if storage == "float16" else "int8")
