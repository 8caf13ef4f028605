"""Kernels that multiply features by factors: only those whose factors are in memory as the runtime's kernel reads them."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.memory import moved_readers, reading_from
from modelwheel.compiler.passes.epilogues import Emitted, Steps
from modelwheel.compiler.passes.recognise.scalings import decode_scalings, scaling_of
from tests.support.modules import Emission
from tests.support.thunks import dense

IMAGES = """
f {
  x = f32[3,20,20,24] parameter(0)
  factors = f32[3,24] parameter(1)
  same = f32[3,24] bitcast(factors)
  repeated = f32[3,20,20,24] broadcast(same), dimensions={0,3}
  ROOT scaled = f32[3,20,20,24] multiply(x, repeated)
}

ENTRY main {
  x = f32[3,20,20,24] parameter(0)
  factors = f32[3,24] parameter(1)
  ROOT f = f32[3,20,20,24] fusion(x, factors), kind=kLoop, calls=f
}
"""
FIRST = (
    ("x = f32[3,20,20,24] parameter(0)", "x = f32[3,20,20,24] parameter(1)"),
    ("factors = f32[3,24] parameter(1)", "factors = f32[3,24] parameter(0)"),
    ("multiply(x, repeated)", "multiply(repeated, x)"),
    ("fusion(x, factors)", "fusion(factors, x)"),
)
"""Factors are the first operand."""


def _scaling(*changes: tuple[str, str]) -> p.Scaling | None:
    return scaling_of(*Emission(IMAGES, *changes, at={"f": "x"}).kernel())


@pytest.mark.parametrize("changes", [(), FIRST])
def test_each_image_has_its_factors(changes: tuple[tuple[str, str], ...]) -> None:
    """multiply by a broadcast of [batch, features] => scaling"""
    emission = Emission(IMAGES, *changes, at={"f": "x"})
    instruction, kernel = emission.kernel()
    found = scaling_of(instruction, kernel)
    assert found is not None
    assert (found.batch, found.rows, found.features) == (3, 400, 24)
    assert (found.input, found.factors) == (emission.place("x"), emission.place("factors"))
    assert found.output == found.input
    assert found.operations == kernel.operations


def test_all_images_may_have_the_same() -> None:
    """multiply by a broadcast of [features] => scaling of one image"""
    found = _scaling(("f32[3,24]", "f32[24]"), ("dimensions={0,3}", "dimensions={3}"))
    assert found is not None
    assert (found.batch, found.rows, found.features) == (1, 1200, 24)


@pytest.mark.parametrize(
    "changes",
    [
        [("multiply(", "add(")],
        [("f32[3,24]", "f32[20,24]"), ("dimensions={0,3}", "dimensions={1,3}")],
        [("f32[3,24]", "f32[3]"), ("dimensions={0,3}", "dimensions={0}")],
        [("20,20,24]", "8,8,24]")],  # few elements
        [("20,20,24]", "100,100,4]"), ("f32[3,24]", "f32[3,4]")],  # few features
        [("f32[3,20,20,24]", "f32[3,20,20,24]{0,1,2,3}")],
        [("x = f32[3,20,20,24]", "x = f32[3,20,20,24]{0,1,2,3}")],
        [("f32", "f64")],
    ],
)
def test_anything_else_stays_a_kernel(changes: list[tuple[str, str]]) -> None:
    assert _scaling(*changes) is None


def test_what_is_left_of_a_sequence_is_decoded() -> None:
    emission = Emission(IMAGES, at={"f": "x"})
    _, kernel = emission.kernel()
    copy = p.Copy(operations=0, source=kernel.arguments[0], destination=kernel.arguments[1])
    kernel = kernel.model_copy(update={"origin": "excite"})
    emitted = [Emitted(copy, "x"), Emitted(kernel, "f"), Emitted(kernel, "?")]
    steps = Steps(emission.hlo, emitted, None)
    decode_scalings(steps)
    assert [one.thunk.kind for one in steps.all] == ["copy", "scaling", "kernel"]
    assert [one.thunk.origin for one in steps.all] == ["", "excite", "excite"]


def test_operands_move_unless_the_result_is_written_over_them() -> None:
    scaling = _scaling()
    assert scaling is not None
    elsewhere = dense((3, 24), 5).slice
    moved = reading_from(scaling, scaling.factors, elsewhere)
    assert isinstance(moved, p.Scaling)
    assert (moved.input, moved.factors) == (scaling.input, elsewhere)
    assert reading_from(scaling, scaling.input, dense((3, 20, 20, 24), 5).slice) is None


def test_a_value_with_a_place_of_its_own_is_updated_there() -> None:
    scaling = _scaling()
    assert scaling is not None
    old, new = scaling.input, dense((3, 20, 20, 24), 5).slice
    other = dense((3, 20, 20, 24), 6).slice
    reader = p.Copy(operations=0, source=old, destination=other)
    writer = p.Copy(operations=0, source=other, destination=old)
    thunks: list[p.Thunk] = [reader, scaling, reader, writer, reader]
    assert moved_readers(thunks, -1, old, new) is None
    readers = moved_readers(thunks, -1, old, new, updates=True)
    assert readers is not None
    assert list(readers) == [0, 1, 2]
    moved = readers[1]
    assert isinstance(moved, p.Scaling)
    assert (moved.input, moved.output, moved.factors) == (new, new, scaling.factors)
    # Factors in the memory of the value are not its own.
    within = old.model_copy(update={"size": scaling.factors.size})
    mixed = scaling.model_copy(update={"factors": within})
    assert moved_readers([mixed], -1, old, new, updates=True) is None
