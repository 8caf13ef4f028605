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
