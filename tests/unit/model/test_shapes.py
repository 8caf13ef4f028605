"""Shapes of inputs at a batch size, with what a spec fixes."""

from __future__ import annotations

import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.inspection import SignatureInfo, TensorInfo
from modelwheel.model.shapes import (
    batch_axes,
    batched_inputs,
    compiled_shape,
    find_shape_problem,
    show,
    static_shapes,
)
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
    batch = TensorInfo(name="x", dtype="float32", shape=(None, 4))
    signature = SignatureInfo(key="f", inputs=(scalar, batch), outputs=())
    assert compiled_shape(signature, scalar, {}) == ()
    assert find_shape_problem(signature, scalar, {}) is None
    assert find_shape_problem(signature, scalar, {"s": [1]}) is not None
    assert compiled_shape(signature, batch, {"x": [2, 4]}) == (2, 4)
    assert show((None, None, 3)) == "[batch, ?, 3]"


# --- the batch on any axis ------------------------------------------------------------------------


def _signature(**shapes: str) -> SignatureInfo:
    """Inputs with shapes such as `10 N 4`: names are those of free extents, `?` is free without one."""
    inputs = []
    for name, text in shapes.items():
        words = text.split()
        shape = tuple(int(word) if word.isdecimal() else None for word in words)
        symbols = tuple("" if word.isdecimal() or word == "?" else word for word in words)
        inputs.append(TensorInfo(name=name, dtype="float32", shape=shape, symbols=symbols))
    return SignatureInfo(key="f", inputs=tuple(inputs), outputs=())


@pytest.mark.parametrize(
    ("shapes", "given", "axes"),
    [
        ({"x": "? 4"}, {}, {"x": 0}),
        ({"x": "length 4"}, {}, {"x": 0}),  # as ever: the only free axis, whatever its name
        ({"x": "10 N 4", "h": "1 N 8", "w": "3"}, {}, {"x": 1, "h": 1}),
        ({"x": "10 batch_size 4"}, {}, {"x": 1}),
        ({"x": "s0 4", "h": "1 s0 8"}, {}, {"x": 0, "h": 1}),
        ({"x": "10 ? 4"}, {"x": [10, None, 4]}, {"x": 1}),
        ({"x": "T N 4", "h": "1 N 8"}, {"x": [10, None, 4]}, {"x": 1, "h": 1}),
        ({"x": "3 4 ?"}, {"x": [3, 4, None]}, {"x": 2}),
    ],
)
def test_the_batch_axis(
    shapes: dict[str, str], given: dict[str, list[int | None]], axes: dict[str, int]
) -> None:
    assert batch_axes(_signature(**shapes), given) == axes


@pytest.mark.parametrize(
    ("shapes", "given", "said"),
    [
        ({"x": "10 ? 4"}, {}, r"'x' has the free axis 1 in \[10, \?, 4\]"),
        ({"x": "1 length"}, {}, "the free axis 1"),  # a sequence, most likely
        ({"x": "T N 4"}, {}, "the free axis 1"),
        ({"x": "T 4", "h": "1 N 8"}, {}, "'h' has the free axis 1"),
        (
            {"x": "T 4", "h": "1 N 8"},
            {"h": [1, None, 8]},
            "the free axis 0 of input 'x' is 'T' .* batch of another input is 'N'",
        ),
        ({"x": "? ? 4"}, {"x": [None, None, 4]}, "one axis may be free"),
        ({"x": "10 1 4"}, {"x": [10, None, 4]}, r"given the shape \[10, batch, 4\], but"),
    ],
)
def test_what_is_not_clear_is_refused(
    shapes: dict[str, str], given: dict[str, list[int | None]], said: str
) -> None:
    with pytest.raises(UnsupportedModelError, match=said):
        batch_axes(_signature(**shapes), given)
