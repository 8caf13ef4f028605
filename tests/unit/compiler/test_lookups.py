"""Kernels that look up rows of a table: only those that copy whole rows, in the order of the indices."""

from __future__ import annotations

import pytest

from modelwheel.compiler.passes.recognise.lookups import lookup
from modelwheel.dtypes import ElementType
from tests.support.modules import Emission

EMBEDDING = """
f {
  table = f32[7,5] parameter(0)
  indices = s32[2,3] parameter(1)
  limit = s32[] constant(0)
  limits = s32[2,3] broadcast(limit), dimensions={}
  negative = pred[2,3] compare(indices, limits), direction=LT
  wrap = s32[] constant(7)
  wraps = s32[2,3] broadcast(wrap), dimensions={}
  wrapped = s32[2,3] add(indices, wraps)
  chosen = s32[2,3] select(negative, wrapped, indices)
  flat = s32[6,1]{0,1} bitcast(chosen)
  ordered = s32[6,1] copy(flat)
  rows = f32[6,1,5] gather(table, ordered), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}
  ROOT result = f32[2,3,5] bitcast(rows)
}

ENTRY main {
  table = f32[7,5] parameter(0)
  indices = s32[2,3] parameter(1)
  ROOT f = f32[2,3,5] fusion(table, indices), kind=kLoop, calls=f
}
"""
"""What TensorFlow makes of an embedding."""


def test_an_embedding_is_a_lookup() -> None:
    """gather of rows of a table, with indices from its end => lookup {wrap}"""
    emission = Emission(EMBEDDING)
    instruction, kernel = emission.kernel()
    found = lookup(instruction, kernel)
    assert found is not None
    assert (found.count, found.rows, found.row_bytes, found.wrap) == (6, 7, 20, 7)
    assert (found.index_type, found.operations) == (ElementType.INT32, kernel.operations)
    places = [emission.place(name) for name in ("table", "indices", "f")]
    assert [found.table, found.indices, found.output] == places


def test_operands_in_another_order() -> None:
    emission = Emission(
        EMBEDDING,
        ("indices = s32[2,3] parameter(1)", "indices = s32[2,3] parameter(0)"),
        ("table = f32[7,5] parameter(0)", "table = f32[7,5] parameter(1)"),
        ("fusion(table, indices)", "fusion(indices, table)"),
        ("s32", "s64"),
    )
    found = lookup(*emission.kernel())
    assert found is not None
    assert (found.table, found.indices) == (emission.place("table"), emission.place("indices"))
    assert found.index_type == ElementType.INT64


def test_indices_without_a_rule_for_negative_ones() -> None:
    text = """
        f {
          table = f32[7,5] parameter(0)
          indices = s32[6] parameter(1)
          ROOT rows = f32[6,5] gather(table, indices), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,5}
        }

        ENTRY main {
          table = f32[7,5] parameter(0)
          indices = s32[6] parameter(1)
          ROOT f = f32[6,5] fusion(table, indices), kind=kLoop, calls=f
        }
    """
    found = lookup(*Emission(text).kernel())
    assert found is not None
    assert (found.count, found.wrap) == (6, 0)


@pytest.mark.parametrize(
    "changes",
    [
        [("direction=LT", "direction=LE")],
        [("constant(0)", "constant(1)")],
        [("constant(7)", "constant(-7)")],
        [("s32", "u32")],
        [("s32[2,3]", "s32[2,3]{0,1}")],
        [("f32[7,5]", "f32[7,5]{0,1}")],
        [("5]", "3]"), ("{1,5}", "{1,3}")],  # short rows
        [("slice_sizes={1,5}", "slice_sizes={1,4}")],
        [("slice_sizes={1,5}", "slice_sizes={2,5}")],
        [("start_index_map={0}", "start_index_map={1}")],
        [("collapsed_slice_dims={}", "collapsed_slice_dims={1}")],
        [("offset_dims={1,2}", "offset_dims={0,1}")],
        [("index_vector_dim=1", "index_vector_dim=0")],
        [("start_index_map={0}", "start_index_map={0}, operand_batching_dims={0}")],
        [("start_index_map={0}", "start_index_map={0}, start_indices_batching_dims={0}")],
    ],
    ids=str,
)
def test_other_gathers_are_left_to_xla(changes: list[tuple[str, str]]) -> None:
    assert lookup(*Emission(EMBEDDING, *changes).kernel()) is None


def test_more_than_a_lookup_is_left_to_xla() -> None:
    more = ("ROOT result = f32[2,3,5] bitcast(rows)", "ROOT more = f32[6,1,5] negate(rows)")
    assert lookup(*Emission(EMBEDDING, more).kernel()) is None
    instruction, kernel = Emission(EMBEDDING).kernel()
    two = kernel.model_copy(update={"results": kernel.results * 2})
    assert lookup(instruction, two) is None
