"""Integers of compiled models have the arithmetic of the framework, at the ends of their types too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.model.readings import StableHloReading
from tests.support.laboratory import Laboratory, run_script

pytestmark = pytest.mark.slow

QUICK = ("int8", "int32")
TYPES = (*QUICK, "int16", "int64", "uint8", "uint16", "uint32", "uint64")

SQUARES = """\
func.func @main(%x: tensor<4x256xi8>, %n: tensor<4xi32>) -> (tensor<4x256xi8>, tensor<4x256xi1>, tensor<4xi32>) {
  %zero = stablehlo.constant dense<0> : tensor<4x256xi8>
  %ten = stablehlo.constant dense<10> : tensor<4xi32>
  %square = stablehlo.multiply %x, %x : tensor<4x256xi8>
  %y = stablehlo.abs %square : tensor<4x256xi8>
  %least = stablehlo.abs %x : tensor<4x256xi8>
  %negative = stablehlo.compare LT, %least, %zero, SIGNED : (tensor<4x256xi8>, tensor<4x256xi8>) -> tensor<4x256xi1>
  %large = stablehlo.dot_general %n, %n, batching_dims = [0] x [0], contracting_dims = [] x [] : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %z = stablehlo.divide %large, %ten : tensor<4xi32>
  return %y, %negative, %z : tensor<4x256xi8>, tensor<4x256xi1>, tensor<4xi32>
}
"""


def _differences(dtype: str, chains: int, seed: int) -> Any:
    return json.loads(run_script("integer_chains", dtype, str(chains), str(seed)))


@pytest.mark.parametrize("dtype", QUICK)
def test_compiled_integers_are_those_of_tensorflow(dtype: str) -> None:
    assert _differences(dtype, 50, 1) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("dtype", TYPES)
def test_chains_of_operations(dtype: str, seed: int) -> None:
    assert _differences(dtype, 1000, seed) == []


def test_squares_of_a_stablehlo_module_wrap(laboratory: Laboratory) -> None:
    """They are not negative for XLA's simplifier."""
    model = laboratory.new_directory()
    (model / "model.mlir").write_text(SQUARES, encoding="utf-8")
    reading = StableHloReading(file="model.mlir")
    own = Laboratory(model.parent, laboratory.new_directory(), laboratory.pool)
    ranges = {"arg0": (-128, 128), "arg1": (46341, 65536)}
    directory, _ = own.refer(model.name, reading=reading, batch_sizes=(), ranges=ranges)
    arrays = _arrays(directory)
    x, n = arrays["in/arg0"], arrays["in/arg1"]
    square = (x.astype(np.int64) ** 2).astype(np.int8)
    assert (square < 0).any()
    assert (x == -128).any()
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(arrays["out/1/result0"], np.abs(square))
    np.testing.assert_array_equal(arrays["out/1/result1"], x == -128)
    large = (n.astype(np.int64) ** 2).astype(np.int32)
    np.testing.assert_array_equal(arrays["out/1/result2"], np.trunc(large / 10).astype(np.int32))


def _arrays(directory: Path) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(directory / "reference.npz") as arrays:
        return dict(arrays)
