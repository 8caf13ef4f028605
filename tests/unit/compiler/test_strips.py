"""Convolutions that run together in strips: only where nothing else reads what is between them, and nothing is overwritten."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.hlo import HloModule
from modelwheel.compiler.ir.memory import Memory
from modelwheel.compiler.ir.thunk_walk import slices, written
from modelwheel.compiler.passes.epilogues import Emitted
from modelwheel.compiler.passes.strips import join_strips
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation
from tests.support.thunks import dense

SIZE, NARROW, WIDE = 64, 8, 64
X, W1, A, W2, B, W3, Y, OTHER, SHIFT = range(9)
IMAGE = ops.Axes(batch=0, feature=3, spatial=(1, 2))
CHAIN = ("expand", "depthwise", "project")


def _dot(source: int, weights: int, out: int, features: int, columns: int) -> p.Dot:
    return p.Dot(
        operations=1,
        lhs=dense((SIZE * SIZE, features), source),
        rhs=dense((features, columns), weights),
        out=dense((SIZE * SIZE, columns), out),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(1,),
        rhs_contracting=(0,),
    )


def _depthwise(stride: int = 1, pad: int = 1) -> p.Convolution:
    window = ops.Window(
        size=3, stride=stride, pad_low=pad, pad_high=1, kernel_dilation=1, base_dilation=1, reversed=False
    )  # fmt: skip
    return p.Convolution(
        operations=1,
        input=dense((1, SIZE, SIZE, WIDE), A),
        kernel=dense((3, 3, 1, WIDE), W2),
        output=dense((1, SIZE // stride, SIZE // stride, WIDE), B),
        input_axes=IMAGE,
        kernel_axes=ops.Axes(batch=2, feature=3, spatial=(0, 1)),
        output_axes=IMAGE,
        windows=(window, window),
        feature_groups=WIDE,
    )


def _thunks() -> dict[str, p.Thunk]:
    """A block of MobileNetV2."""
    return {
        "expand": _dot(X, W1, A, NARROW, WIDE),
        "depthwise": _depthwise(),
        "project": _dot(B, W3, Y, WIDE, NARROW),
    }


def _join(
    thunks: dict[str, Any], also_read: str | None = None, memory: Memory | None = None
) -> tuple[p.Thunk, ...]:
    """The thunks after strips were made; each reads the one before it in the module, and a last one `also_read`."""
    instructions = [SimpleNamespace(id=0, name="x", opcode="parameter", operand_ids=[])]
    for name in thunks:
        number = len(instructions)
        instructions.append(
            SimpleNamespace(id=number, name=name, opcode="any", operand_ids=[number - 1])
        )
    read = [one.id for one in instructions if one.name in (also_read, instructions[-1].name)]
    root = SimpleNamespace(id=len(instructions), name="root", opcode="tuple", operand_ids=read)
    computation = SimpleNamespace(id=0, instructions=[*instructions, root], root_id=root.id)
    module = SimpleNamespace(computations=[computation], entry_computation_id=0)
    emitted = [Emitted(thunk, name) for name, thunk in thunks.items()]
    return join_strips(HloModule(module), emitted, memory)


def _changed(name: str, **changes: Any) -> dict[str, p.Thunk]:
    thunks = _thunks()
    return {**thunks, name: thunks[name].model_copy(update=changes)}


def _lengths(thunks: tuple[p.Thunk, ...]) -> list[int]:
    """How many convolutions each thunk is."""
    return [len(one.layers) if isinstance(one, p.Strips) else 1 for one in thunks]


def test_a_block_is_one_thunk_and_its_products_are_convolutions() -> None:
    (strips,) = _join(_thunks())
    assert isinstance(strips, p.Strips)
    assert strips.operations == 3
    expand, depthwise, project = strips.layers
    assert depthwise == _depthwise()
    assert expand.input == dense((1, SIZE, SIZE, NARROW), X)
    assert expand.kernel == dense((1, 1, NARROW, WIDE), W1)
    assert (expand.kernel_axes.batch, expand.kernel_axes.feature) == (2, 3)
    assert project.output == dense((1, SIZE, SIZE, NARROW), Y)
    used = {part.allocation for part in slices(strips)}
    assert used == {X, W1, W2, W3, Y}  # neither A nor B
    assert {part.allocation for part in written(strips)} == {Y}


def test_a_matrix_by_columns_stays_one() -> None:
    thunks = _thunks()
    changed = {"rhs": dense((WIDE, NARROW), W1), "rhs_contracting": (1,)}
    thunks["expand"] = thunks["expand"].model_copy(update=changed)
    (strips,) = _join(thunks)
    assert isinstance(strips, p.Strips)
    expand = strips.layers[0]
    assert (expand.kernel.shape, expand.kernel_axes.batch) == ((1, 1, WIDE, NARROW), 3)


def test_epilogues_stay_with_their_convolutions() -> None:
    epilogue = p.Epilogue(result=dense((1, SIZE, SIZE, WIDE), A).slice, shift=dense((WIDE,), SHIFT).slice)  # fmt: skip
    (strips,) = _join(_changed("expand", epilogue=epilogue))
    assert isinstance(strips, p.Strips)
    assert strips.layers[0].epilogue == epilogue
    assert SHIFT in {part.allocation for part in slices(strips)}


@pytest.mark.parametrize(
    ("read", "lengths"), [("expand", [1, 2]), ("depthwise", [2, 1]), ("project", [3])]
)
def test_what_others_read_is_written(read: str, lengths: list[int]) -> None:
    assert _lengths(_join(_thunks(), also_read=read)) == lengths


def test_a_step_between_separates_them() -> None:
    other = dense((4,), OTHER).slice
    copy = p.Copy(operations=0, source=other, destination=other)
    thunks = _thunks()
    separated = {"expand": thunks["expand"], "copy": copy, **thunks}
    assert _lengths(_join(separated)) == [1, 1, 2]


def test_the_result_may_replace_the_input_row_by_row() -> None:
    place = dense((SIZE * SIZE, NARROW), X)
    assert _lengths(_join(_changed("project", out=place))) == [3]
    # Row y of the result would be where a later row is read from, or in the middle of the rows.
    shifted = dense((SIZE * SIZE, NARROW), X, offset=SIZE * NARROW * 4)
    assert _lengths(_join(_changed("project", out=shifted))) == [2, 1]
    late = {**_changed("project", out=place), "depthwise": _depthwise(pad=3)}
    assert _lengths(_join(late)) == [2, 1]


def test_a_result_that_would_replace_the_input_too_early_gets_memory_of_its_own() -> None:
    shifted = dense((SIZE * SIZE, NARROW), X, offset=SIZE * NARROW * 4)
    copy = p.Copy(operations=0, source=shifted.slice, destination=dense((4,), OTHER).slice)
    thunks = {**_changed("project", out=shifted), "copy": copy}
    size = 2 * shifted.slice.size
    temporary = Memory([Allocation(index=X, size=size, kind="temporary")])
    strips, reader = _join(thunks, memory=temporary)
    assert isinstance(strips, p.Strips)
    assert isinstance(reader, p.Copy)
    (result,) = written(strips)
    assert temporary.is_own(result)
    assert reader.source == result
    # What callers read in the end stays where it is, and so does what is read in parts.
    kept = Memory([Allocation(index=X, size=size, kind="temporary")], [shifted.slice])
    assert _lengths(_join(thunks, memory=kept)) == [2, 1, 1]
    part = shifted.slice.model_copy(update={"size": 64})
    in_parts = {**thunks, "copy": copy.model_copy(update={"source": part})}
    assert _lengths(_join(in_parts, memory=temporary)) == [2, 1, 1]


def test_a_line_is_replaced_place_by_place() -> None:
    """The kernels see images of one row as rows of one place."""
    shape = (1, 1, SIZE * SIZE, WIDE)
    place = dense((SIZE * SIZE, NARROW), X)
    image = _depthwise()

    def line(pad: int) -> dict[str, p.Thunk]:
        along = image.windows[0].model_copy(update={"pad_low": pad})
        across = along.model_copy(update={"size": 1, "pad_low": 0, "pad_high": 0})
        layer = image.model_copy(
            update={
                "input": dense(shape, A),
                "kernel": dense((1, 3, 1, WIDE), W2),
                "output": dense(shape, B),
                "windows": (across, along),
            }
        )
        return {**_changed("project", out=place), "depthwise": layer}

    assert _lengths(_join(line(1))) == [3]
    assert _lengths(_join(line(3))) == [2, 1]


@pytest.mark.parametrize(
    ("size", "dilation", "lengths"),
    [(9, 1, [1, 1, 1]), (9, 2, [3]), (4, 1, [3]), (3, 1, [1, 1, 1])],
)
def test_windows_with_transforms_are_computed_by_them(
    size: int, dilation: int, lengths: list[int]
) -> None:
    image = _depthwise()
    pads = {"pad_low": dilation * (size - 1) // 2, "pad_high": dilation * size // 2}
    along = image.windows[0].model_copy(update={"size": size, "kernel_dilation": dilation, **pads})
    across = image.windows[0].model_copy(update={"size": 1, "pad_low": 0, "pad_high": 0})
    layer = image.model_copy(
        update={
            "kernel": dense((1, size, WIDE, WIDE), W2),
            "windows": (across, along),
            "feature_groups": 1,
        }
    )
    assert _lengths(_join({**_thunks(), "depthwise": layer})) == lengths


def test_an_addend_may_be_replaced_and_other_operands_may_not() -> None:
    result = dense((SIZE * SIZE, NARROW), OTHER).slice
    residual = p.Epilogue(result=result, addend=result)
    assert _lengths(_join(_changed("project", epilogue=residual))) == [3]
    part = result.model_copy(update={"offset": 64})
    moved = p.Epilogue(result=result, addend=part)
    assert _lengths(_join(_changed("project", epilogue=moved))) == [2, 1]
    weights = p.Epilogue(result=dense((SIZE * SIZE, NARROW), W1).slice, high=6.0)
    assert _lengths(_join(_changed("project", epilogue=weights))) == [2, 1]


def test_a_residual_ends_a_chain() -> None:
    between = dense((1, SIZE, SIZE, WIDE), B).slice
    addend = dense((1, SIZE, SIZE, WIDE), OTHER).slice
    epilogue = p.Epilogue(result=between, addend=addend)
    assert _lengths(_join(_changed("depthwise", epilogue=epilogue))) == [2, 1]


def test_small_results_and_large_weights_stay_apart() -> None:
    features = 56
    narrow = _thunks()
    narrow["expand"] = _dot(X, W1, A, NARROW, features)
    narrow["depthwise"] = _depthwise().model_copy(
        update={
            "input": dense((1, SIZE, SIZE, features), A),
            "kernel": dense((3, 3, 1, features), W2),
            "output": dense((1, SIZE, SIZE, features), B),
        }
    )
    narrow["project"] = _dot(B, W3, Y, features, NARROW)
    assert _lengths(_join(narrow)) == [1, 1, 1]
    large = {**_thunks(), "project": _dot(B, W3, Y, WIDE, 2048)}
    assert _lengths(_join(large)) == [2, 1]


def test_weights_are_not_read_again_for_images_that_are_smaller() -> None:
    images, size = 64, 8
    assert images * size * size == SIZE * SIZE
    shapes = {
        "input": dense((images, size, size, WIDE), A),
        "output": dense((images, size, size, WIDE), B),
    }
    thunks = _changed("depthwise", **shapes)
    assert _lengths(_join(thunks)) == [3]
    columns = size * size + 1
    more = {**thunks, "project": _dot(B, W3, Y, WIDE, columns)}
    assert _lengths(_join(more)) == [2, 1]


def test_other_layouts_and_products_of_few_columns_stay_apart() -> None:
    transposed = dense((1, SIZE, SIZE, WIDE), A).model_copy(update={"minor_to_major": (2, 1, 3, 0)})
    assert _lengths(_join(_changed("depthwise", input=transposed))) == [1, 1, 1]
    few = {**_thunks(), "project": _dot(B, W3, Y, WIDE, 4)}
    assert _lengths(_join(few)) == [2, 1]


@pytest.mark.parametrize(("dilation", "lengths"), [(1, [1, 1, 1]), (2, [3])])
def test_what_is_faster_in_tiles_stays_apart(dilation: int, lengths: list[int]) -> None:
    side = ops.Window(
        size=3, stride=1, pad_low=dilation, pad_high=dilation,
        kernel_dilation=dilation, base_dilation=1, reversed=False,
    )  # fmt: skip
    kernel = dense((3, 3, WIDE, WIDE), W2)
    changes = {"windows": (side, side), "feature_groups": 1, "kernel": kernel}
    assert _lengths(_join(_changed("depthwise", **changes))) == lengths


def test_matrices_alone_know_no_rows_of_images() -> None:
    thunks = {"one": _dot(X, W1, A, NARROW, WIDE), "other": _dot(A, W2, B, WIDE, WIDE)}
    assert _lengths(_join(thunks)) == [1, 1]
