"""Poolings of rows that are looked up: only those that alone read them."""

from __future__ import annotations

import pytest

from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.ir.lift import lift
from modelwheel.compiler.passes.embedding_bags import FuseEmbeddingBags
from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from tests.support.graphs import lines_after
from tests.support.programs import branches, copy, kernel, loop, part, pooling

A, TABLE, INDICES, Y = range(4)
ALLOCATIONS = (
    Allocation(index=A, size=4096, kind="temporary"),
    Allocation(index=TABLE, size=800, kind="constant", sha256="ab" * 32),
    Allocation(index=INDICES, size=64, kind="parameter", parameter=0),
    Allocation(index=Y, size=64, kind="output"),
)
ROWS = part(A, 0, 96)
"""2 * 3 rows of 4 floats."""
OUT = part(Y, 0, 32)
WORDS = part(INDICES, 0, 24)
BAG = (
    "%2 f32[2,1,1,4] = embedding_bag %0 u8[50,16], %1 s32[6] {lookup={wrap=50}, pooling={reducer=sum, initial=0.0, "
    "window=[3,1], stride=[1,1], pad_low=[0,0], factor=0.25}, in_size=[3,1]}"
)


def _lookup(indices: Slice = WORDS) -> Step:
    """Rows of the table."""
    return Step(
        op=ops.Lookup(wrap=50),
        inputs={
            "table": View.dense(part(TABLE, 0, 800), ElementType.UINT8, (50, 16)),
            "indices": View.dense(indices, ElementType.INT32, (6,)),
        },
        outputs={"output": View.dense(ROWS, ElementType.UINT8, (6, 16))},
        operations=2,
    )


def _mean(source: Slice = ROWS, target: Slice = OUT, **changes: object) -> Step:
    """The mean of the words of each sentence."""
    fields = {"batch": 2, "in_size": (3, 1), "out_size": (1, 1), "window": (3, 1)}
    fields |= {"reducer": "sum", "initial": 0.0, "factor": 0.25}
    return pooling(source, target, **(fields | changes))


def _of_columns() -> Step:
    """A pooling of the first half of each row."""
    step = _mean(features=2)
    view = step.inputs["input"].model_copy(update={"slice": ROWS, "strides": (12, 4, 4, 1)})
    return step.model_copy(update={"inputs": {"input": view}})


def _graph(*steps: Step, results: tuple[Slice, ...] = (OUT,)) -> Graph:
    return lift(steps, ALLOCATIONS, results)


def test_a_mean_of_words_reads_them_in_the_table() -> None:
    """lookup, pooling => embedding_bag"""
    graph = _graph(_lookup(), _mean())
    assert lines_after(FuseEmbeddingBags(), graph, rewrites=1) == [BAG]
    assert graph.body.nodes[0].operations == 3


def test_other_steps_may_be_between() -> None:
    other = kernel(part(INDICES), part(A, 1024), symbol="f")
    graph = _graph(_lookup(), other, _mean(), results=(OUT, part(A, 1024)))
    lines = lines_after(FuseEmbeddingBags(), graph, rewrites=1)
    assert [line.split(" = ")[1].split()[0] for line in lines] == ["kernel", "embedding_bag"]


def test_loops_and_branches_have_bags_too() -> None:
    graph = _graph(
        loop(_lookup(), _mean(target=part(A, 1024, 32)), copy(part(A, 1024, 32), OUT)),
        branches(
            (_lookup(), _mean(target=part(Y, 32, 32))), (kernel(part(INDICES), part(A, 2048)),)
        ),
        results=(part(Y), part(A, 2048)),
    )
    lines = lines_after(FuseEmbeddingBags(), graph, rewrites=2)
    assert not any("lookup %" in line or " pooling %" in line for line in lines)


@pytest.mark.parametrize(
    "steps",
    [
        (_lookup(), _mean(), copy(part(A, 0, 32), part(Y, 32, 32))),  # another reader
        (_lookup(), _mean(padding=0.0, reducer="maximum", initial=None)),
        (_lookup(), _mean(batch=1, features=8)),  # other rows
        (_lookup(), _mean(batch=1)),  # only some rows
        (_lookup(), _of_columns()),
        (_lookup(), loop(_mean())),  # each iteration pools the same rows
    ],
)
def test_other_poolings_read_memory(steps: tuple[Step, ...]) -> None:
    lines = lines_after(FuseEmbeddingBags(), _graph(*steps, results=(part(Y),)), rewrites=0)
    assert any(" = lookup " in line for line in lines)


def test_rows_that_callers_read_are_in_memory() -> None:
    graph = _graph(_lookup(), _mean(), results=(OUT, ROWS))
    assert len(lines_after(FuseEmbeddingBags(), graph, rewrites=0)) == 2


def test_indices_that_are_overwritten_before_the_pooling() -> None:
    """The bag would look up with other indices."""
    indices = part(A, 1024, 24)
    graph = _graph(
        kernel(part(INDICES), indices, symbol="f"),
        _lookup(indices),
        kernel(indices, indices, symbol="in_place"),
        _mean(),
        results=(OUT, indices),
    )
    assert len(lines_after(FuseEmbeddingBags(), graph, rewrites=0)) == 4


def test_the_state_of_a_loop_that_changes_before_the_pooling() -> None:
    """The next indices have to be where these are."""
    indices = part(A, 1024, 24)
    body = (_lookup(indices), kernel(part(INDICES), indices, symbol="next"), _mean())
    graph = _graph(kernel(part(INDICES), indices, symbol="f"), loop(*body), results=(OUT, indices))
    lines = lines_after(FuseEmbeddingBags(), graph, rewrites=0)
    assert any(" = lookup " in line for line in lines)
