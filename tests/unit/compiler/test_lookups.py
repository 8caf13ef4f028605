"""Kernels that look up rows of a table: only those that copy whole rows, in the order of the indices."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.graph import Graph, Result, Value
from modelwheel.compiler.passes.recognise_kernels import RecogniseKernels
from modelwheel.program.view import View
from tests.support.graphs import lines_after
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


def _graph(text: str, *changes: tuple[str, str], loops: bool = False) -> Graph:
    return Emission(text, *changes).graph(["f"], f="output", loops=loops)


def test_an_embedding_is_a_lookup() -> None:
    """gather of rows of a table, with indices from its end => lookup {wrap}"""
    graph = _graph(EMBEDDING)
    operations = graph.body.nodes[0].operations
    assert lines_after(RecogniseKernels(), graph, rewrites=1) == [
        "%2 u8[6,20] = lookup %0 u8[7,20], %1 s32[6] {wrap=7}",
    ]
    assert graph.body.nodes[0].operations == operations


def test_loops_look_up_too() -> None:
    assert lines_after(RecogniseKernels(), _graph(EMBEDDING, loops=True), rewrites=1) == [
        "%2 = while (undefined) {trip_count=2}",
        "  body(%3):",
        "    %4 u8[6,20] = lookup %0 u8[7,20], %1 s32[6] {wrap=7}",
        "    yield %4",
    ]


def test_operands_in_another_order() -> None:
    graph = _graph(
        EMBEDDING,
        ("indices = s32[2,3] parameter(1)", "indices = s32[2,3] parameter(0)"),
        ("table = f32[7,5] parameter(0)", "table = f32[7,5] parameter(1)"),
        ("fusion(table, indices)", "fusion(indices, table)"),
        ("s32", "s64"),
    )
    assert lines_after(RecogniseKernels(), graph, rewrites=1) == [
        "%2 u8[6,20] = lookup %0 u8[7,20], %1 s64[6] {wrap=7}",
    ]


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
    assert lines_after(RecogniseKernels(), _graph(text), rewrites=1) == [
        "%2 u8[6,20] = lookup %0 u8[7,20], %1 s32[6] {wrap=0}",
    ]


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
    (line,) = lines_after(RecogniseKernels(), _graph(EMBEDDING, *changes), rewrites=0)
    assert " = kernel " in line


def test_more_than_a_lookup_is_left_to_xla() -> None:
    more = ("ROOT result = f32[2,3,5] bitcast(rows)", "ROOT more = f32[6,1,5] negate(rows)")
    assert RecogniseKernels().run(_graph(EMBEDDING, more)) == 0
    graph = _graph(EMBEDDING)
    (kernel,) = graph.body.nodes
    second = Value(120, producer=kernel)
    view = View.of_bytes(kernel.outputs["result0"].view.slice)
    kernel.outputs["result1"] = Result(second, view)
    assert RecogniseKernels().run(graph) == 0


def test_rows_over_the_table_are_left_to_xla() -> None:
    """The look-up of the runtime would read rows that it has overwritten."""
    graph = Emission(EMBEDDING, at={"f": "table"}).graph(["f"], table="temporary")
    assert RecogniseKernels().run(graph) == 0
