"""Convolutions that run together in strips: only where nothing else reads what is between them, and nothing is overwritten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from modelwheel.compiler.ir.assignment.assign import assign
from modelwheel.compiler.ir.graph import Graph
from modelwheel.compiler.ir.graph_check import check
from modelwheel.compiler.ir.graph_text import graph_text
from modelwheel.compiler.ir.lift import lift
from modelwheel.compiler.passes.strips import ChainStrips
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice, overlap
from modelwheel.program.program import Program
from modelwheel.program.spatial_axes import spatial_sizes
from modelwheel.program.steps import Step
from modelwheel.program.strip_layers import NOWHERE, products
from modelwheel.program.verify import verify
from modelwheel.program.view import View
from tests.support.programs import FLOAT, conditional, copy, dense, dot, kernel, loop, part

A, X, W, Y = range(4)
IMAGE, INNER = 4096 * 8 * 4, 4096 * 64 * 4
"""Bytes of the images at the ends of a block, and of those in it."""
SIZE = 64 * INNER
ALLOCATIONS = (
    Allocation(index=A, size=SIZE, kind="temporary"),
    Allocation(index=X, size=SIZE, kind="parameter", parameter=0),
    Allocation(index=W, size=SIZE, kind="constant", sha256="ab" * 32),
    Allocation(index=Y, size=SIZE, kind="output"),
)
EXPANDED, FILTERED = part(A, 0, INNER), part(A, INNER, INNER)
HERE, BEHIND = part(A, 2 * INNER, IMAGE), part(A, 2 * INNER + IMAGE, IMAGE)
"""Where XLA may have the input and the result of a block."""
CHANNELS_LAST = ops.Axes(batch=0, feature=3, spatial=(1, 2))


def _weights(*shape: int, number: int = 0) -> View:
    return dense(shape, W, number * INNER)


def _at(place: Slice, *shape: int) -> View:
    return View.dense(place.model_copy(update={"size": 4 * math.prod(shape)}), FLOAT, shape)


def _window(size: int, pad: int = 0, dilation: int = 1, end: int | None = None) -> ops.Window:
    return ops.Window(
        size=size, stride=1, pad_low=pad, pad_high=pad if end is None else end,
        kernel_dilation=dilation, base_dilation=1, reversed=False,
    )  # fmt: skip


def _expand(source: Slice, columns: int = 64, **operands: Any) -> Step:
    rows, out = _at(source, 4096, 8), _at(EXPANDED, 4096, columns)
    return dot(rows, _weights(8, columns), out, operations=3, **operands)


def _filter(
    *windows: ops.Window,
    images: Sequence[int] = (1, 64, 64, 64),
    groups: int = 64,
    **operands: View,
) -> Step:
    """A convolution of what a block has expanded: depthwise, unless there is one group."""
    windows = windows or (_window(3, 1), _window(3, 1))
    features = images[-1]
    taps = _weights(*(w.size for w in windows), features // groups, features, number=1)
    out = _at(FILTERED, *images)
    epilogue = ops.Epilogue() if operands else None
    return Step(
        op=ops.Convolution(
            input_axes=CHANNELS_LAST,
            kernel_axes=ops.Axes(batch=2, feature=3, spatial=(0, 1)),
            output_axes=CHANNELS_LAST,
            windows=windows,
            feature_groups=groups,
            epilogue=epilogue,
        ),
        inputs={"input": _at(EXPANDED, *images), "kernel": taps, **operands},
        outputs={"out": out, **({"accumulator": out} if operands else {})},
        operations=5,
        origin="depthwise",
    )


def _project(target: Slice, columns: int = 8, features: int = 64, **operands: Any) -> Step:
    rows, out = _at(FILTERED, 4096, features), _at(target, 4096, columns)
    product = dot(rows, _weights(features, columns, number=2), out, operations=7, **operands)
    return product.model_copy(update={"origin": "project"})


def _block(source: Slice, target: Slice, **addend: Any) -> list[Step]:
    """A block of MobileNetV2."""
    return [_expand(source), _filter(), _project(target, **addend)]


def _chained(steps: Sequence[Step], *results: Slice) -> Graph:
    graph = lift(steps, ALLOCATIONS, results or (part(Y, 0, IMAGE),))
    ChainStrips().run(graph)
    check(graph)
    return graph


def _assigned(graph: Graph, *results: Slice) -> tuple[Step, ...]:
    """The steps that a graph becomes, which are those of a program."""
    steps, allocations = assign(graph)
    whole = [View.of_bytes(one) for one in results or (part(Y, 0, IMAGE),)]
    verify(
        Program(
            triple="", cpu="", allocations=allocations, parameters=(), results=tuple(whole),
            steps=steps,
        )
    )  # fmt: skip
    return steps


def _lengths(steps: Sequence[Step], *results: Slice) -> list[int]:
    """How many products each step is, after all of them have memory."""
    after = _assigned(_chained(steps, *results), *results)
    return [len(products(step)) or 1 for step in after]


X_IMAGE, Y_IMAGE = part(X, 0, IMAGE), part(Y, 0, IMAGE)


def test_a_block_is_one_node_and_its_products_are_convolutions() -> None:
    steps = _block(X_IMAGE, Y_IMAGE)
    graph = _chained(steps)
    *_, line, end = graph_text(graph).splitlines()
    left, attributes = line.split(" {", 1)
    weights = "%1 f32[1,1,8,64], %1+1048576 f32[3,3,1,64], %1+2097152 f32[1,1,64,8]"
    assert left == f"%2 f32[1,64,64,8] = strips %0 f32[1,64,64,8], {weights}"
    assert attributes.endswith("shapes=[[1,64,64,64],[1,64,64,64]]}  # depthwise;project")
    assert end == "return %2"
    (node,) = graph.body.nodes
    assert node.operations == sum(step.operations for step in steps)
    (strips,) = _assigned(graph)
    expand, depthwise, project = products(strips)
    assert depthwise.op == steps[1].op
    assert depthwise.inputs["kernel"] == steps[1].inputs["kernel"]
    inner = expand.outputs["out"]
    assert inner == depthwise.inputs["input"]
    assert inner.slice == Slice(allocation=NOWHERE, offset=0, size=INNER)
    assert isinstance(expand.op, ops.Convolution)
    assert (expand.op.kernel_axes.batch, expand.op.kernel_axes.feature) == (2, 3)
    assert spatial_sizes(expand.op.kernel_axes, expand.inputs["kernel"].shape) == (1, 1)
    assert project.outputs["out"] == dense((1, 64, 64, 8), Y)


def test_a_matrix_by_columns_stays_one() -> None:
    steps = _block(X_IMAGE, Y_IMAGE)
    first = steps[0]
    op = first.op.model_copy(update={"rhs_contracting": (1,)})
    steps[0] = first.model_copy(
        update={"op": op, "inputs": {**first.inputs, "rhs": _weights(64, 8)}}
    )
    (strips,) = _assigned(_chained(steps))
    expand, *_ = products(strips)
    assert isinstance(expand.op, ops.Convolution)
    assert (expand.inputs["kernel"].shape, expand.op.kernel_axes.batch) == ((1, 1, 64, 8), 3)


def test_epilogues_stay_with_their_convolutions() -> None:
    shift, sums = _weights(64, number=4), _at(part(A, 4 * INNER), 4096, 64)
    first = _expand(
        X_IMAGE, epilogue=ops.Epilogue(activation="tanh"), shift=shift, accumulator=sums
    )
    (strips,) = _assigned(_chained([first, *_block(X_IMAGE, Y_IMAGE)[1:]]))
    layer, *_ = products(strips)
    assert isinstance(layer.op, ops.Convolution)
    assert layer.op.epilogue == ops.Epilogue(activation="tanh")
    assert strips.inputs["shift0"] == shift
    assert set(strips.outputs) == {"out"}


@pytest.mark.parametrize(
    ("read", "lengths"), [(EXPANDED, [1, 2]), (FILTERED, [2, 1]), (Y_IMAGE, [3])]
)
def test_what_others_read_is_written(read: Slice, lengths: list[int]) -> None:
    again = part(Y, INNER)
    steps = [*_block(X_IMAGE, Y_IMAGE), kernel(read, again)]
    assert _lengths(steps, Y_IMAGE, again) == [*lengths, 1]


def test_a_step_between_separates_them() -> None:
    first, *others = _block(X_IMAGE, Y_IMAGE)
    other = part(Y, INNER)
    assert _lengths([first, copy(part(X), other), *others], Y_IMAGE, other) == [1, 1, 2]


def test_what_is_added_may_be_joined_between_them() -> None:
    residual = _at(part(A, 4 * INNER), 4096, 8)
    half = part(A, 4 * INNER, IMAGE // 2)
    other = part(A, 4 * INNER + IMAGE // 2, IMAGE // 2)
    operands: dict[str, Any] = {"addend": residual, "accumulator": _at(Y_IMAGE, 4096, 8)}
    before = [kernel(part(X), half), kernel(part(X), other)]
    block = _block(X_IMAGE, Y_IMAGE, epilogue=ops.Epilogue(), **operands)
    assert _lengths([*before, *block]) == [1, 1, 3]
    # A piece of it that the first product reads would have another name then.
    half, other = part(A, HERE.offset, IMAGE), part(A, HERE.offset + IMAGE, IMAGE)
    sums: dict[str, Any] = {"addend": _at(half, 4096, 16), "accumulator": _at(Y_IMAGE, 4096, 16)}
    last = _project(part(Y, 0, 2 * IMAGE), 16, epilogue=ops.Epilogue(), **sums)
    steps = [kernel(part(X), half), kernel(part(X), other), _expand(half), _filter(), last]
    assert _lengths(steps, part(Y, 0, 2 * IMAGE)) == [1, 1, 2, 1]


def test_blocks_in_loops_and_branches_are_joined_too() -> None:
    block = _block(X_IMAGE, Y_IMAGE)
    choice = conditional(part(X, SIZE - 4, 4), tuple(block), tuple(block))
    for step, count in ((loop(*block), 1), (choice, 2)):
        (after,) = _assigned(_chained([step]))
        kinds = [[inner.op.kind for inner in region] for region in after.regions if region]
        assert kinds == [["strips"]] * count


# --- where the result is ------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 64 * 8 * 4])
def test_a_result_is_apart_from_what_is_read_until_the_end(offset: int) -> None:
    """XLA has it where the first product had read its input, or in the middle of that."""
    target = part(A, HERE.offset + offset, IMAGE)
    steps = [kernel(X_IMAGE, HERE), *_block(HERE, target), kernel(target, Y_IMAGE)]
    _, strips, _ = _assigned(_chained(steps))
    assert len(products(strips)) == 3
    assert not overlap(strips.inputs["input"].slice, strips.outputs["out"].slice)


def test_what_kernels_put_in_its_place_moves_with_a_result() -> None:
    before = [kernel(X_IMAGE, HERE), *_block(HERE, HERE)]
    assert _lengths([*before, kernel((HERE, X_IMAGE), HERE), kernel(HERE, Y_IMAGE)]) == [1, 3, 1, 1]


def test_the_state_of_a_loop_is_not_written_while_it_is_read() -> None:
    body = _block(HERE, HERE)
    (_, step, _) = _assigned(_chained([kernel(X_IMAGE, HERE), loop(*body), kernel(HERE, Y_IMAGE)]))
    assert [len(products(one)) for one in step.regions[-1]] == [2, 1]
    apart = [*_block(HERE, BEHIND), kernel(BEHIND, HERE)]
    (_, step, _) = _assigned(_chained([kernel(X_IMAGE, HERE), loop(*apart), kernel(HERE, Y_IMAGE)]))
    assert [one.op.kind for one in step.regions[-1]] == ["strips", "kernel"]


def test_one_of_both_leaves_the_memory_that_callers_read() -> None:
    steps = [kernel(X_IMAGE, Y_IMAGE), *_block(Y_IMAGE, Y_IMAGE)]
    _, strips = _assigned(_chained(steps))
    assert len(products(strips)) == 3
    assert strips.outputs["out"].slice == Y_IMAGE
    # What both are in stays there.
    whole = part(Y, 0, 2 * IMAGE)
    again = [*steps, kernel(Y_IMAGE, part(Y, IMAGE, IMAGE))]
    assert _lengths(again, whole) == [1, 3, 1]
    state = [loop(*_block(Y_IMAGE, Y_IMAGE))]
    (_, step) = _assigned(_chained([kernel(X_IMAGE, Y_IMAGE), *state]))
    assert [len(products(one)) for one in step.regions[-1]] == [2, 1]


def test_sums_of_the_last_are_in_the_result_and_apart_from_what_is_added() -> None:
    """A residual is the input of the block too; XLA has the result in its place."""
    sums = _at(BEHIND, 4096, 8)
    operands = {"addend": _at(HERE, 4096, 8), "accumulator": sums, "epilogue": ops.Epilogue()}
    steps = [kernel(X_IMAGE, HERE), *_block(HERE, HERE, **operands), kernel(HERE, Y_IMAGE)]
    _, strips, _ = _assigned(_chained(steps))
    assert len(products(strips)) == 3
    assert strips.outputs["accumulator"] == strips.outputs["out"]
    assert strips.inputs["addend2"] == strips.inputs["input"]


def test_a_residual_ends_a_chain() -> None:
    residual = _at(part(X, INNER), 1, 64, 64, 64)
    first, _, last = _block(X_IMAGE, Y_IMAGE)
    assert _lengths([first, _filter(addend=residual), last]) == [2, 1]


# --- what is worth it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "dilation", "lengths"),
    [(9, 1, [1, 1, 1]), (9, 2, [3]), (4, 1, [3]), (3, 1, [1, 1, 1])],
)
def test_windows_with_transforms_are_computed_by_them(
    size: int, dilation: int, lengths: list[int]
) -> None:
    first, _, last = _block(X_IMAGE, Y_IMAGE)
    pads = {"pad": dilation * (size - 1) // 2, "end": dilation * size // 2}
    whole = _filter(_window(1), _window(size, dilation=dilation, **pads), groups=1)
    assert _lengths([first, whole, last]) == lengths


@pytest.mark.parametrize("dilation", [1, 2])
def test_what_is_faster_in_tiles_stays_apart(dilation: int) -> None:
    """Tiles of windows with gaps are between each other."""
    first, _, last = _block(X_IMAGE, Y_IMAGE)
    window = _window(3, dilation, dilation)
    assert _lengths([first, _filter(window, window, groups=1), last]) == [1, 1, 1]


def test_small_results_and_large_weights_stay_apart() -> None:
    narrow = [
        _expand(X_IMAGE, 56),
        _filter(images=(1, 64, 64, 56), groups=56),
        _project(Y_IMAGE, features=56),
    ]
    assert _lengths(narrow) == [1, 1, 1]
    assert _lengths(_wide(2048), _wide_result(2048)) == [2, 1]


def _wide(columns: int, *images: int) -> list[Step]:
    """A block whose last product has other columns."""
    target = _wide_result(columns)
    return [_expand(X_IMAGE), _filter(images=images or (1, 64, 64, 64)), _project(target, columns)]


def _wide_result(columns: int) -> Slice:
    return part(Y, 0, 4096 * columns * 4)


@pytest.mark.parametrize(("wide", "lengths"), [(128, [3, 1, 1]), (2048, [1, 1, 1, 1, 1])])
def test_long_sequences_are_divided_where_the_least_is_between(
    wide: int, lengths: list[int]
) -> None:
    """And where weights fill the cache. The rest are matrices, which know no rows of images."""
    inner = part(A, 2 * INNER, 32 * INNER)
    images = _at(part(X, 0, INNER), 1, 64, 64, 64)
    first = _filter()
    steps = [first.model_copy(update={"inputs": {**first.inputs, "input": images}})]
    for number in range(2):
        last = part(Y, 0, INNER) if number else part(A, 40 * INNER, INNER)
        rows = part(A, 40 * INNER, INNER) if number else FILTERED
        matrices = _weights(64, wide, number=3), _weights(wide, 64, number=4)
        steps += [
            dot(_at(rows, 4096, 64), matrices[0], _at(inner, 4096, wide)),
            dot(_at(inner, 4096, wide), matrices[1], _at(last, 4096, 64)),
        ]
    assert _lengths(steps, part(Y, 0, INNER)) == lengths


def test_weights_are_not_read_again_for_images_that_are_smaller() -> None:
    assert _lengths(_wide(8, 64, 8, 8, 64)) == [3]
    assert _lengths(_wide(8 * 8 + 1, 64, 8, 8, 64), _wide_result(8 * 8 + 1)) == [2, 1]


def test_other_layouts_and_products_of_few_columns_stay_apart() -> None:
    first, second, last = _block(X_IMAGE, Y_IMAGE)
    transposed = second.inputs["input"].ordered((2, 1, 3, 0))
    second = second.model_copy(update={"inputs": {**second.inputs, "input": transposed}})
    assert _lengths([first, second, last]) == [1, 1, 1]
    assert _lengths(_wide(4), _wide_result(4)) == [2, 1]


def test_matrices_alone_know_no_rows_of_images() -> None:
    rows = _at(EXPANDED, 4096, 64)
    again = dot(rows, _weights(64, 64), _at(part(Y, 0, INNER), 4096, 64))
    assert _lengths([_expand(X_IMAGE), again], part(Y, 0, INNER)) == [1, 1]
