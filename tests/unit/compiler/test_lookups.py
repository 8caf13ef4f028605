"""Kernels that look up rows of a table: only those that copy whole rows, in the order of the indices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.hlo import HloModule
from modelwheel.compiler.passes.recognise.lookups import lookup
from modelwheel.dtypes import ElementType
from tests.support.thunks import dense

FLOAT, INT = ElementType.FLOAT32, ElementType.INT32


def _shape(
    *dimensions: int, kind: ElementType = INT, order: tuple[int, ...] | None = None
) -> SimpleNamespace:
    layout = SimpleNamespace(minor_to_major=order or tuple(reversed(range(len(dimensions)))))
    return SimpleNamespace(element_type=kind, dimensions=dimensions, layout=layout)


class _Fusion:
    """A fused computation, which is written instruction by instruction."""

    def __init__(self) -> None:
        self.instructions: list[Any] = []

    def add(self, opcode: str, shape: Any, *operands: Any, **fields: Any) -> Any:
        rest = {"parameter_number": 0, "called_computation_ids": [], **fields}
        ids = [operand.id for operand in operands]
        number = len(self.instructions)
        made = SimpleNamespace(
            id=number, name=str(number), opcode=opcode, shape=shape, operand_ids=ids, **rest
        )
        self.instructions.append(made)
        return made

    def number(self, value: int, shape: Any) -> Any:
        literal = SimpleNamespace(s32s=[value], s64s=[])
        constant = self.add("constant", _shape(), literal=literal)
        return self.add("broadcast", shape, constant)

    def lookup(self, width: int = 5, results: int = 1) -> p.Lookup | None:
        """What a kernel computes that consists of this; its result has 6 rows of a table of 7."""
        result = dense((6, width), 2)
        fusion = self.add("fusion", None, called_computation_ids=[0])
        fused = SimpleNamespace(
            id=0, instructions=self.instructions[:-1], root_id=self.instructions[-2].id
        )
        entry = SimpleNamespace(id=1, instructions=[fusion], root_id=fusion.id)
        kernel = p.Kernel(
            operations=3,
            symbol="gather",
            workgroups=(1, 1, 1),
            arguments=(dense((7, width), 0).slice, dense((2, 3), 1).slice),
            results=(result.slice,) * results,
        )
        hlo = HloModule(SimpleNamespace(computations=[fused, entry], entry_computation_id=1))
        return lookup(hlo, fusion, kernel)


def _embedding(
    *,
    direction: str = "LT",
    limit: int = 0,
    wrap: int = 7,
    kind: ElementType = INT,
    indices_order: tuple[int, ...] = (1, 0),
    table_order: tuple[int, ...] = (1, 0),
    table_first: bool = True,
    width: int = 5,
    **changes: Any,
) -> _Fusion:
    """What TensorFlow makes of an embedding of 2 x 3 indices; `changes` are those of the gather."""
    fusion = _Fusion()
    table = fusion.add(
        "parameter",
        _shape(7, width, kind=FLOAT, order=table_order),
        parameter_number=0 if table_first else 1,
    )
    shape = _shape(2, 3, kind=kind, order=indices_order)
    indices = fusion.add("parameter", shape, parameter_number=1 if table_first else 0)
    zero = fusion.number(limit, shape)
    negative = fusion.add("compare", shape, indices, zero, comparison_direction=direction)
    wrapped = fusion.add("add", shape, indices, fusion.number(wrap, shape))
    chosen = fusion.add("select", shape, negative, wrapped, indices)
    flat = fusion.add("bitcast", _shape(6, 1, kind=kind, order=(0, 1)), chosen)
    ordered = fusion.add("copy", _shape(6, 1, kind=kind), flat)
    numbers = {
        "start_index_map": [0],
        "collapsed_slice_dims": [],
        "operand_batching_dims": [],
        "start_indices_batching_dims": [],
        "offset_dims": [1, 2],
        "index_vector_dim": 1,
        "slice_sizes": [1, width],
        **changes,
    }
    gather = fusion.add(
        "gather",
        _shape(6, 1, width, kind=FLOAT),
        table,
        ordered,
        gather_slice_sizes=numbers.pop("slice_sizes"),
        gather_dimension_numbers=SimpleNamespace(**numbers),
    )
    fusion.add("bitcast", _shape(2, 3, width, kind=FLOAT), gather)
    return fusion


def test_an_embedding_is_a_lookup() -> None:
    found = _embedding().lookup()
    assert found is not None
    assert (found.count, found.rows, found.row_bytes, found.wrap) == (6, 7, 20, 7)
    assert (found.index_type, found.operations) == (INT, 3)
    assert [part.allocation for part in (found.table, found.indices, found.output)] == [0, 1, 2]


def test_operands_in_another_order() -> None:
    found = _embedding(table_first=False, kind=ElementType.INT64).lookup()
    assert found is not None
    assert (found.table.allocation, found.indices.allocation) == (1, 0)
    assert found.index_type == ElementType.INT64


def test_indices_without_a_rule_for_negative_ones() -> None:
    fusion = _Fusion()
    table = fusion.add("parameter", _shape(7, 5, kind=FLOAT))
    indices = fusion.add("parameter", _shape(6), parameter_number=1)
    numbers = SimpleNamespace(
        start_index_map=[0],
        collapsed_slice_dims=[0],
        operand_batching_dims=[],
        start_indices_batching_dims=[],
        offset_dims=[1],
        index_vector_dim=1,
    )
    fusion.add(
        "gather",
        _shape(6, 5, kind=FLOAT),
        table,
        indices,
        gather_slice_sizes=[1, 5],
        gather_dimension_numbers=numbers,
    )
    found = fusion.lookup()
    assert found is not None
    assert (found.count, found.wrap) == (6, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"direction": "LE"},
        {"limit": 1},
        {"wrap": -7},
        {"kind": ElementType.UINT32},
        {"indices_order": (0, 1)},
        {"table_order": (0, 1)},
        {"width": 3},
        {"slice_sizes": [1, 4]},
        {"slice_sizes": [2, 5]},
        {"start_index_map": [1]},
        {"collapsed_slice_dims": [1]},
        {"offset_dims": [0, 1]},
        {"index_vector_dim": 0},
        {"operand_batching_dims": [0]},
    ],
    ids=str,
)
def test_other_gathers_are_left_to_xla(changes: dict[str, Any]) -> None:
    assert _embedding(**changes).lookup(changes.get("width", 5)) is None


def test_more_than_a_lookup_is_left_to_xla() -> None:
    fusion = _embedding()
    fusion.add("negate", _shape(2, 3, 5, kind=FLOAT), fusion.instructions[-1])
    assert fusion.lookup() is None
    assert _embedding().lookup(results=2) is None
