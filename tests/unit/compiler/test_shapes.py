"""Shapes of inputs at a batch size, with what a spec fixes."""

from __future__ import annotations

import pytest

from modelwheel.compiler.inspection import TensorInfo
from modelwheel.compiler.shapes import (
    batched_inputs,
    compiled_shape,
    find_shape_problem,
    show,
    static_shapes,
)
from modelwheel.errors import UnsupportedModelError
from tests.support.inspections import FREE, inspect_model, tensor


def test_every_input_gets_its_shape_at_a_batch_size() -> None:
    """CMS defects 3 and 4: only axis 0 is the batch, and inputs without one stay as they are."""
    signature = inspect_model(
        inputs=[FREE, tensor(name="steps", shape=[None, None, 3]), tensor(name="t", shape=[7])]
    ).signatures[0]
    shapes = {"steps": [None, 5, 3]}
    assert batched_inputs(signature, shapes) == ("x", "steps")
    assert static_shapes(signature, shapes, 2) == {"x": (2, 4), "steps": (2, 5, 3), "t": (7,)}
    with pytest.raises(UnsupportedModelError, match=r"free axis 1 .*inputs\.steps\.shape"):
        static_shapes(signature, {}, 2)
    with pytest.raises(UnsupportedModelError, match="pass a batch size"):
        static_shapes(signature, shapes, None)


def test_no_batch_size_without_a_batch_axis() -> None:
    signature = inspect_model(inputs=[tensor(shape=[2, 4])]).signatures[0]
    assert static_shapes(signature, {}, None) == {"x": (2, 4)}
    with pytest.raises(UnsupportedModelError, match="omit the batch size"):
        static_shapes(signature, {}, 4)


def test_shapes_of_scalars_and_the_spec() -> None:
    scalar = TensorInfo(name="s", dtype="int32", shape=())
    assert compiled_shape(scalar, {}) == ()
    assert find_shape_problem(scalar, None) is None
    assert find_shape_problem(scalar, [1]) is not None
    batch = TensorInfo(name="x", dtype="float32", shape=(None, 4))
    assert compiled_shape(batch, {"x": [2, 4]}) == (2, 4)
    assert show((None, None, 3)) == "[batch, ?, 3]"
