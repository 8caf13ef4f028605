"""Values that follow from constants: those worth storing are computed while a module is written, not in each call."""

from __future__ import annotations

import numpy as np

from modelwheel.compiler.stablehlo.writer import pointwise
from modelwheel.compiler.stablehlo.writer.builder import Builder
from modelwheel.compiler.stablehlo.writer.reshaping import broadcast_to


def test_a_table_from_two_vectors_is_known() -> None:
    """A filter of sines, as exporters leave it: places in rows and frequencies in columns."""
    builder = Builder()
    places = builder.constant(np.arange(160, dtype=np.float32).reshape(-1, 1) / 160)
    frequencies = builder.constant(np.arange(475, dtype=np.float32) / 475)
    wave = pointwise.sin(places + frequencies)
    assert wave.known is not None
    assert wave.known.shape == (160, 475)
    expected = np.sin((np.arange(160) / 160)[:, None] + np.arange(475) / 475)
    np.testing.assert_allclose(wave.known, expected, atol=1e-6)
    assert builder.operations == 0


def test_what_only_grows_is_not_stored() -> None:
    """A repeated vector takes memory in every wheel, and a larger table more than its arithmetic is worth."""
    builder = Builder()
    column = builder.constant(np.arange(1024, dtype=np.float32).reshape(-1, 1))
    row = builder.constant(np.arange(1024, dtype=np.float32))
    assert (column + row).known is None
    assert broadcast_to(row, (8, 1024)).known is None


def test_copies_of_a_weight_are_one_argument() -> None:
    """PyTorch writes each step of a recurrent layer with a copy of its own: twenty of them took 5 GB in float64."""
    builder = Builder()
    weights = np.arange(2048, dtype=np.float32)
    copies = [builder.constant(weights.copy()) for _ in range(3)]
    other = builder.constant(weights.astype(np.int32))
    assert len({builder.operand(one) for one in copies}) == 1
    assert builder.operand(other) != builder.operand(copies[0])
