"""Tables of weights: how many rows of a comparison read all of them, and which are not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from modelwheel.accuracy import TableRead, Truth, notes_on
from modelwheel.compiler.reference.boundary_inputs import boundary_inputs
from modelwheel.model import random_inputs
from modelwheel.model.coverage import MAX_TABLE_ROWS, table_calls, table_rows
from modelwheel.model.inspection import Mask, SignatureInfo, Table, TensorInfo, ValidValues
from modelwheel.model.random_inputs import random_input
from modelwheel.workers.jobs import ReferenceRequest
from modelwheel.workers.table_reads import draw_input, expected_tables, tables_read


def _signature(rows: int, positions: int, masks: tuple[Mask, ...] = ()) -> SignatureInfo:
    valid = ValidValues(low=0, high=rows, parts=rows, masks=masks, op="GatherV2", layer="words")
    tensor = TensorInfo(name="ids", dtype="int32", shape=(None, positions), valid=valid)
    table = Table(rows=rows, input="ids", op="GatherV2", layer="words")
    return SignatureInfo(key="s", inputs=(tensor,), outputs=(), tables=(table,))


def _read(signature: SignatureInfo, rows: int) -> TableRead:
    (tensor,) = signature.inputs
    assert tensor.valid is not None
    request = ReferenceRequest(
        signature="s",
        batch_sizes=(1,),
        rows=(rows,),
        ranges={"ids": (0, tensor.valid.parts)},
        parts={"ids": tensor.valid.parts},
        masks={"ids": tensor.valid.masks},
        tables=signature.tables,
    )
    (found,) = expected_tables(signature, request)
    return found


@pytest.mark.parametrize("masks", [(), (Mask(value=0),), (Mask(value=0), Mask(value=5))])
@pytest.mark.parametrize(("rows", "positions"), [(9000, 40), (20, 6), (7, 1), (300, 512)])
def test_every_row_of_a_table_is_read(rows: int, positions: int, masks: tuple[Mask, ...]) -> None:
    signature = _signature(rows, positions, masks)
    wanted = table_rows(signature, {"ids": (None, positions)})
    assert _read(signature, max(wanted, 1)).read == rows


def test_a_table_that_is_too_long_is_said_to_be_read_in_part() -> None:
    signature = _signature(5000, 2)
    assert table_rows(signature, {"ids": (None, 2)}) == MAX_TABLE_ROWS
    found = _read(signature, MAX_TABLE_ROWS)
    assert found.read == 2 * MAX_TABLE_ROWS
    (said,) = notes_on(Truth(tables=(found,)))
    assert said == (
        "Part of a table was not compared: 2048 of the 5000 rows of the table of 'words' are compared (41.0%); "
        "raise verify.rows for more, if the model has a batch axis"
    )


def test_more_evaluations_of_one_shape_read_a_table() -> None:
    signature = _signature(50, 6)
    assert table_calls(signature, {"ids": (1, 6)}) == 8
    tensor = signature.inputs[0].model_copy(update={"shape": (1, 6)})
    fixed = signature.model_copy(update={"inputs": (tensor,)})
    request = ReferenceRequest(
        signature="s",
        batch_sizes=(),
        ranges={"ids": (0, 50)},
        parts={"ids": 50},
        tables=fixed.tables,
        more=8,
    )
    (found,) = expected_tables(fixed, request)
    assert found.read == 50
    first = draw_input(tensor, (1, 6), 0, request)
    kinds = boundary_inputs({"ids": first}, ["ids"], request)
    drawn = [kinds[f"more {n}"]["ids"] for n in range(1, 9)]
    assert set(np.concatenate([first, *drawn]).ravel()) == set(range(50))


def test_steps_between_an_input_and_its_index() -> None:
    steps = (("shift", 3.0, 3.0), ("modulo", 8.0, 0.0))
    table = Table(rows=10, input="x", columns=(1, 3), steps=steps, op="Gather", layer="a")
    values = np.array([[100, 0, 1, 100], [100, 5, 6, 100]])
    assert tables_read([table], {"x": values}) == (TableRead(layer="a", rows=10, read=4),)
    lost = table.model_copy(update={"steps": (("lost", 0.0, 0.0),)})
    (found,) = tables_read([lost], {"x": values})
    assert found.read is None
    assert "is not known" in str(found)


def test_parts_come_once_before_any_comes_twice() -> None:
    whole = random_input(3, "x", (7, 10), "int32", (5, 30), parts=25)
    for first in (0, 25):
        assert sorted(whole.ravel()[first : first + 25]) == list(range(5, 30))
    floats = random_input(3, "x", (4, 5), "float32", (-1, 1), parts=20)
    assert sorted(np.floor((floats.ravel() + 1) * 10)) == list(range(20))
    fewer = random_input(3, "x", (3, 10), "int32", (5, 30), parts=25)
    assert np.array_equal(fewer, whole[:3])


def test_masks_have_an_element_in_each_row() -> None:
    plain = random_input(1, "m", (200, 3), "bool", None)
    filled = random_input(1, "m", (200, 3), "bool", None, some=True)
    empty = ~plain.any(axis=1)
    assert empty.any()
    assert np.array_equal(filled[~empty], plain[~empty])
    assert np.array_equal(filled[empty].sum(axis=1), np.ones(empty.sum()))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_come_from_their_whole_type(dtype: str) -> None:
    values = random_input(0, "x", (4000,), dtype, None)
    limits = np.iinfo(dtype)
    assert values.dtype == dtype
    span = float(limits.max) - float(limits.min)
    assert float(values.max()) > limits.max - 0.01 * span
    assert float(values.min()) < limits.min + 0.01 * span
    if limits.bits > 16:  # small ones too: products of large ones all overflow
        assert np.mean(np.abs(values.astype(np.float64)) < 1000) > 0.05
    assert np.array_equal(random_input(0, "x", (40,), dtype, None), values[:40])


def test_the_wheel_has_the_same_recipe() -> None:
    root = Path(__file__).parents[3]
    copy = root / "wheel_template/package/python/__module__/_random_inputs.py"
    assert copy.read_bytes() == Path(random_inputs.__file__).read_bytes()
