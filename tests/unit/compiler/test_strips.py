"""Convolutions that run together in strips: only where nothing else reads what is between them, and nothing is overwritten."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from modelwheel.compiler.ir.emitted import thunks as p
from modelwheel.compiler.ir.emitted.memory import Memory
from modelwheel.compiler.ir.emitted.thunk_walk import slices, written
from modelwheel.compiler.passes.recognise.convolutions import convolution_kernel
from modelwheel.compiler.passes.strips import join_strips
from modelwheel.program.arrays import Slice
from tests.support.modules import Emission
from tests.support.thunks import dense

BLOCK = """
ENTRY main {
  x = f32[4096,8] parameter(0)
  w1 = f32[8,64] parameter(1)
  w2 = f32[3,3,1,64] parameter(2)
  w3 = f32[64,8] parameter(3)
  addend = f32[4096,8] parameter(4)
  residual = f32[4096,64] parameter(5)
  shift = f32[64] parameter(6)
  expand = f32[4096,64] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  image = f32[1,64,64,64] bitcast(expand)
  depthwise = f32[1,64,64,64] convolution(image, w2), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=64
  rows = f32[4096,64] bitcast(depthwise)
  project = f32[4096,8] dot(rows, w3), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT results = (f32[4096,8]) tuple(project)
}
"""
"""A block of MobileNetV2."""
X = Emission(BLOCK).place("x")
SHIFTED = X.model_copy(update={"offset": 64 * 8 * 4})
"""In the middle of the rows of the input."""


def _columns(number: int) -> list[tuple[str, str]]:
    """The last product has other columns."""
    return [("w3 = f32[64,8]", f"w3 = f32[64,{number}]"), *_last(f"f32[4096,{number}]")]


def _last(shape: str) -> list[tuple[str, str]]:
    return [("project = f32[4096,8]", f"project = {shape}")]


def _full(window: str, kernel: str) -> list[tuple[str, str]]:
    """The convolution is not depthwise."""
    return [
        ("size=3x3 pad=1_1x1_1", window),
        ("f32[3,3,1,64]", kernel),
        (", feature_group_count=64", ""),
    ]


def _block(
    *changes: tuple[str, str],
    at: Mapping[str, str | Slice] | None = None,
    **epilogues: p.Epilogue,
) -> Emission:
    emission = Emission(BLOCK, *changes, at=at)
    found = convolution_kernel(*emission.kernel("depthwise"))
    assert found is not None
    emission.step("depthwise").thunk = found
    for name, epilogue in epilogues.items():
        step = emission.step(name)
        step.thunk = step.thunk.model_copy(update={"epilogue": epilogue})
    return emission


def _joined(emission: Emission, memory: Memory | None = None) -> tuple[p.Thunk, ...]:
    return join_strips(emission.hlo, emission.emitted, memory)


def _lengths(emission: Emission, memory: Memory | None = None) -> list[int]:
    """How many convolutions each thunk is."""
    thunks = _joined(emission, memory)
    return [len(one.layers) if isinstance(one, p.Strips) else 1 for one in thunks]


def test_a_block_is_one_thunk_and_its_products_are_convolutions() -> None:
    """dot, convolution, dot => strips of convolutions"""
    emission = _block()
    steps = [one.thunk for one in emission.emitted]
    (strips,) = _joined(emission)
    assert isinstance(strips, p.Strips)
    assert strips.operations == sum(step.operations for step in steps)
    expand, depthwise, project = strips.layers
    allocation = emission.allocation
    assert depthwise == steps[1]
    assert expand.input == dense((1, 64, 64, 8), allocation("x"))
    assert expand.kernel == dense((1, 1, 8, 64), allocation("w1"))
    assert (expand.kernel_axes.batch, expand.kernel_axes.feature) == (2, 3)
    assert project.output == dense((1, 64, 64, 8), allocation("project"))
    # Neither of the results in between.
    used = {part.allocation for part in slices(strips)}
    assert used == set(map(allocation, ("x", "w1", "w2", "w3", "project")))
    assert {part.allocation for part in written(strips)} == {allocation("project")}


def test_a_matrix_by_columns_stays_one() -> None:
    axes = "lhs_contracting_dims={1}, rhs_contracting_dims="
    (strips,) = _joined(
        _block(("w1 = f32[8,64]", "w1 = f32[64,8]"), (f"w1), {axes}{{0}}", f"w1), {axes}{{1}}"))
    )
    assert isinstance(strips, p.Strips)
    expand = strips.layers[0]
    assert (expand.kernel.shape, expand.kernel_axes.batch) == ((1, 1, 64, 8), 3)


def test_epilogues_stay_with_their_convolutions() -> None:
    place = Emission(BLOCK).place
    epilogue = p.Epilogue(result=place("expand"), shift=place("shift"))
    (strips,) = _joined(_block(expand=epilogue))
    assert isinstance(strips, p.Strips)
    assert strips.layers[0].epilogue == epilogue
    assert place("shift") in slices(strips)


@pytest.mark.parametrize(
    ("read", "lengths"), [("expand", [1, 2]), ("depthwise", [2, 1]), ("project", [3])]
)
def test_what_others_read_is_written(read: str, lengths: list[int]) -> None:
    assert _lengths(_block(("tuple(project)", f"tuple(project, {read})"))) == lengths


def test_a_step_between_separates_them() -> None:
    emission = _block()
    place = emission.place("addend")
    emission.insert("depthwise", p.Copy(operations=0, source=place, destination=place))
    assert _lengths(emission) == [1, 1, 2]


def test_the_result_may_replace_the_input_row_by_row() -> None:
    assert _lengths(_block(at={"project": "x"})) == [3]
    # Row y of the result would be where a later row is read from, or in the middle of the rows.
    assert _lengths(_block(at={"project": SHIFTED})) == [2, 1]
    assert _lengths(_block(("pad=1_1x1_1", "pad=3_1x3_1"), at={"project": "x"})) == [2, 1]


def test_a_result_that_would_replace_the_input_too_early_gets_memory_of_its_own() -> None:
    def read(size: int = SHIFTED.size) -> Emission:
        copied = [
            ("  ROOT", "  out = f32[4096,8] copy(project)\n  ROOT"),
            ("tuple(project", "tuple(out"),
        ]
        emission = _block(*copied, at={"project": SHIFTED})
        _, kernel = emission.kernel("out")
        part = SHIFTED.model_copy(update={"size": size})
        emission.step("out").thunk = kernel.model_copy(update={"arguments": (part,)})
        return emission

    emission = read()
    memory = emission.memory(x="temporary")
    strips, reader = _joined(emission, memory)
    assert isinstance(strips, p.Strips)
    assert isinstance(reader, p.Kernel)
    (result,) = written(strips)
    assert memory.is_own(result)
    assert reader.arguments == (result,)
    # What callers read in the end stays where it is, and so does what is read in parts.
    kept = read().memory(["project"], x="temporary")
    assert _lengths(read(), kept) == [2, 1, 1]
    assert _lengths(read(64), read(64).memory(x="temporary")) == [2, 1, 1]


@pytest.mark.parametrize(("pad", "lengths"), [(1, [3]), (3, [2, 1])])
def test_a_line_is_replaced_place_by_place(pad: int, lengths: list[int]) -> None:
    """The kernels see images of one row as rows of one place."""
    line = [
        ("f32[1,64,64,64]", "f32[1,1,4096,64]"),
        ("f32[3,3,1,64]", "f32[1,3,1,64]"),
        ("size=3x3 pad=1_1x1_1", f"size=1x3 pad=0_0x{pad}_1"),
    ]
    assert _lengths(_block(*line, at={"project": "x"})) == lengths


@pytest.mark.parametrize(
    ("size", "dilation", "lengths"),
    [(9, 1, [1, 1, 1]), (9, 2, [3]), (4, 1, [3]), (3, 1, [1, 1, 1])],
)
def test_windows_with_transforms_are_computed_by_them(
    size: int, dilation: int, lengths: list[int]
) -> None:
    pad = f"0_0x{dilation * (size - 1) // 2}_{dilation * size // 2}"
    window = f"size=1x{size} pad={pad} rhs_dilate=1x{dilation}"
    assert _lengths(_block(*_full(window, f"f32[1,{size},64,64]"))) == lengths


@pytest.mark.parametrize(("dilation", "lengths"), [(1, [1, 1, 1]), (2, [3])])
def test_what_is_faster_in_tiles_stays_apart(dilation: int, lengths: list[int]) -> None:
    pad = f"{dilation}_{dilation}"
    window = f"size=3x3 pad={pad}x{pad} rhs_dilate={dilation}x{dilation}"
    assert _lengths(_block(*_full(window, "f32[3,3,64,64]"))) == lengths


def test_an_addend_may_be_replaced_and_other_operands_may_not() -> None:
    place = Emission(BLOCK).place
    result = place("addend")
    assert _lengths(_block(project=p.Epilogue(result=result, addend=result))) == [3]
    part = result.model_copy(update={"offset": 64})
    assert _lengths(_block(project=p.Epilogue(result=result, addend=part))) == [2, 1]
    weights = result.model_copy(update={"allocation": place("w1").allocation})
    assert _lengths(_block(project=p.Epilogue(result=weights, high=6.0))) == [2, 1]


def test_a_residual_ends_a_chain() -> None:
    place = Emission(BLOCK).place
    epilogue = p.Epilogue(result=place("depthwise"), addend=place("residual"))
    assert _lengths(_block(depthwise=epilogue)) == [2, 1]


def test_small_results_and_large_weights_stay_apart() -> None:
    narrow = [
        ("[4096,64]", "[4096,56]"),
        ("[1,64,64,64]", "[1,64,64,56]"),
        ("[8,64]", "[8,56]"),
        ("[3,3,1,64]", "[3,3,1,56]"),
        ("[64,8]", "[56,8]"),
        ("feature_group_count=64", "feature_group_count=56"),
    ]
    assert _lengths(_block(*narrow)) == [1, 1, 1]
    assert _lengths(_block(*_columns(2048))) == [2, 1]


def test_weights_are_not_read_again_for_images_that_are_smaller() -> None:
    images = ("f32[1,64,64,64]", "f32[64,8,8,64]")
    assert _lengths(_block(images)) == [3]
    assert _lengths(_block(images, *_columns(8 * 8 + 1))) == [2, 1]


def test_other_layouts_and_products_of_few_columns_stay_apart() -> None:
    transposed = ("image = f32[1,64,64,64]", "image = f32[1,64,64,64]{2,1,3,0}")
    assert _lengths(_block(transposed)) == [1, 1, 1]
    assert _lengths(_block(*_columns(4))) == [2, 1]


def test_matrices_alone_know_no_rows_of_images() -> None:
    text = """
        ENTRY main {
          x = f32[4096,8] parameter(0)
          w1 = f32[8,64] parameter(1)
          w2 = f32[64,64] parameter(2)
          one = f32[4096,64] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          other = f32[4096,64] dot(one, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          ROOT results = (f32[4096,64]) tuple(other)
        }
    """
    assert _lengths(Emission(text)) == [1, 1]
