"""Kernels that multiply features by factors: only those whose factors are in memory as the runtime's kernel reads them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.hlo import HloModule
from modelwheel.compiler.ir.memory import moved_readers, reading_from
from modelwheel.compiler.passes.epilogues import Emitted, Steps
from modelwheel.compiler.passes.recognise.scalings import decode_scalings, scaling_of
from tests.support.thunks import dense

IMAGES = (3, 20, 20, 24)


def _shape(*dimensions: int, element_type: int = 11, swapped: bool = False) -> SimpleNamespace:
    order = tuple(reversed(range(len(dimensions))))
    layout = SimpleNamespace(minor_to_major=order[::-1] if swapped else order)
    return SimpleNamespace(element_type=element_type, dimensions=dimensions, layout=layout)


def _instruction(number: int, opcode: str, shape: Any, **fields: Any) -> SimpleNamespace:
    rest = {"operand_ids": [], "called_computation_ids": [], "parameter_number": 0, **fields}
    return SimpleNamespace(id=number, name=str(number), opcode=opcode, shape=shape, **rest)


def _scaling(
    images: tuple[int, ...] = IMAGES,
    factors: tuple[int, ...] = (3, 24),
    axes: tuple[int, ...] = (0, 3),
    opcode: str = "multiply",
    *,
    first: bool = False,
    shape: Mapping[str, Any] | None = None,
    values_swapped: bool = False,
) -> tuple[HloModule, Any, p.Kernel]:
    """A fusion that multiplies its first operand by its second one, or the other way round."""
    place = _shape(*images, **(shape or {}))
    source = 1 if first else 0
    fused = [
        _instruction(
            0,
            "parameter",
            _shape(*images, swapped=True) if values_swapped else place,
            parameter_number=source,
        ),
        _instruction(1, "parameter", _shape(*factors), parameter_number=1 - source),
        _instruction(2, "bitcast", _shape(*factors), operand_ids=[1]),
        _instruction(3, "broadcast", place, operand_ids=[2], dimensions=axes),
        _instruction(4, opcode, place, operand_ids=[3, 0] if first else [0, 3]),
    ]
    fusion = _instruction(7, "fusion", place, operand_ids=[5, 6], called_computation_ids=[0])
    entry = [_instruction(5, "parameter", place), _instruction(6, "parameter", place), fusion]
    computations = [
        SimpleNamespace(id=number, instructions=instructions, root_id=instructions[-1].id)
        for number, instructions in enumerate((fused, entry))
    ]
    hlo = HloModule(SimpleNamespace(computations=computations, entry_computation_id=1))
    operands = [dense(images, 0).slice, dense(factors, 1).slice]
    kernel = p.Kernel(
        operations=7,
        symbol="multiply",
        workgroups=(1, 1, 1),
        arguments=tuple(operands[::-1] if first else operands),
        results=(dense(images, 0).slice,),
        origin="excite",
    )
    return hlo, fusion, kernel


@pytest.mark.parametrize("first", [False, True])
def test_each_image_has_its_factors(first: bool) -> None:
    found = scaling_of(*_scaling(first=first))
    assert found is not None
    assert (found.batch, found.rows, found.features) == (3, 400, 24)
    assert (found.input, found.factors) == (dense(IMAGES, 0).slice, dense((3, 24), 1).slice)
    assert found.output == found.input
    assert found.operations == 7


def test_all_images_may_have_the_same() -> None:
    found = scaling_of(*_scaling(factors=(24,), axes=(3,)))
    assert found is not None
    assert (found.batch, found.rows, found.features) == (1, 1200, 24)


@pytest.mark.parametrize(
    "changes",
    [
        {"opcode": "add"},
        {"factors": (20, 24), "axes": (1, 3)},
        {"factors": (3,), "axes": (0,)},
        {"images": (3, 8, 8, 24)},
        {"images": (3, 100, 100, 4), "factors": (3, 4)},
        {"shape": {"swapped": True}},
        {"values_swapped": True},
        {"shape": {"element_type": 12}},
    ],
)
def test_anything_else_stays_a_kernel(changes: dict[str, Any]) -> None:
    assert scaling_of(*_scaling(**changes)) is None


def test_what_is_left_of_a_sequence_is_decoded() -> None:
    hlo, _, kernel = _scaling()
    copy = p.Copy(operations=0, source=kernel.arguments[0], destination=kernel.arguments[1])
    steps = Steps(hlo, [Emitted(copy, "5"), Emitted(kernel, "7"), Emitted(kernel, "?")], None)
    decode_scalings(steps)
    assert [one.thunk.kind for one in steps.all] == ["copy", "scaling", "kernel"]
    assert [one.thunk.origin for one in steps.all] == ["", "excite", "excite"]


def test_operands_move_unless_the_result_is_written_over_them() -> None:
    scaling = scaling_of(*_scaling())
    assert scaling is not None
    elsewhere = dense((3, 24), 5).slice
    moved = reading_from(scaling, scaling.factors, elsewhere)
    assert isinstance(moved, p.Scaling)
    assert (moved.input, moved.factors) == (scaling.input, elsewhere)
    assert reading_from(scaling, scaling.input, dense(IMAGES, 5).slice) is None


def test_a_value_with_a_place_of_its_own_is_updated_there() -> None:
    scaling = scaling_of(*_scaling())
    assert scaling is not None
    old, new = scaling.input, dense(IMAGES, 5).slice
    other = dense(IMAGES, 6).slice
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
