"""Which weights are packed when a model is built, and where their elements are then."""

from __future__ import annotations

import numpy as np
import pytest

from modelwheel.codegen import Constants, Packed, pack_weights
from modelwheel.codegen.calls import CALLS
from modelwheel.codegen.panels import COLUMNS, QUAD, Form, weights_of
from modelwheel.codegen.writer import StepWriter
from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, ArrayShape
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from tests.support.programs import ROW, array, dense, dot, kernel, matmul_program, of_bytes, part

_ROWS, _WIDTH = 64, 48


def _dot(rows: int = 4, width: int = _WIDTH, offset: int = 0) -> Step:
    """Of allocation 0, by the weights in allocation 1."""
    return dot(dense((rows, _ROWS), 0), dense((_ROWS, width), 1, offset), dense((rows, width), 2))


def _by_vector() -> Step:
    """The weights, by columns, times a vector."""
    return dot(array((_WIDTH, _ROWS), (0, 1), 1), dense((_ROWS, 1), 0), dense((_WIDTH, 1), 2))


def _strips() -> Step:
    """That product for single positions of an image, and a convolution of its result."""
    image = ops.Axes(batch=0, feature=2, spatial=(1,))
    layer = ops.Convolution(
        input_axes=image,
        kernel_axes=ops.Axes(batch=1, feature=2, spatial=(0,)),
        output_axes=image,
        windows=(ROW,),
        feature_groups=1,
    )
    depthwise = layer.model_copy(update={"feature_groups": 9})
    return Step(
        op=ops.Strips(layers=(layer, depthwise), shapes=((1, 4, _WIDTH),)),
        inputs={
            "input": dense((1, 4, _ROWS), 0),
            "kernel0": dense((1, _ROWS, _WIDTH), 1),
            "kernel1": dense((1, 1, _WIDTH), 3),
        },
        outputs={"out": dense((1, 4, _WIDTH), 2)},
    )


def _kernel() -> Step:
    """One of XLA's that reads the weights."""
    return kernel(part(1, size=4 * _ROWS * _WIDTH))


def _packed(*programs: tuple[Step, ...], known: bool = True) -> tuple[frozenset[str], bytes]:
    """What is packed of one matrix that all programs read, and the weights then."""
    packed, constants = _constants(*programs, known=known)
    return packed.panels, bytes(constants.blob)


def _constants(
    *programs: tuple[Step, ...],
    known: bool = True,
    width: int = _WIDTH,
    rows: int = _ROWS,
    unit: int = 1,
    halves: bool = True,
) -> tuple[Packed, Constants]:
    weights = dense((rows, width), 1)
    content = (unit * np.arange(rows * width, dtype="<u4")).tobytes()
    shape = ArrayShape(
        element_type=weights.element_type, shape=weights.shape, minor_to_major=(1, 0)
    )
    constant = Allocation(index=1, size=len(content), kind="constant", sha256="w", array=shape)
    constants = Constants()
    constants.add("before", b"other")
    constants.add("w", content, shape if known else None)
    made = [
        matmul_program().model_copy(
            update={"allocations": (constant,), "parameters": (), "results": (), "steps": steps}
        )
        for steps in programs
    ]
    constants.add("after", b"next")
    return pack_weights(made, constants, halves=halves), constants


def test_panels_have_all_rows_of_their_columns() -> None:
    packed, blob = _packed((_dot(),), (_dot(1), _by_vector()), (_strips(),))
    assert packed == {"w"}
    panels = np.frombuffer(blob[64:-4], "<u4").reshape(_WIDTH // COLUMNS, _ROWS, COLUMNS)
    matrix = np.arange(_ROWS * _WIDTH).reshape(_ROWS, _WIDTH)
    for number, panel in enumerate(panels):
        np.testing.assert_array_equal(panel, matrix[:, number * COLUMNS : (number + 1) * COLUMNS])


@pytest.mark.parametrize("width", [249, 252, 1000])
def test_zeros_fill_the_last_panel(width: int) -> None:
    packed, constants = _constants((_dot(width=width),), width=width)
    assert packed == Packed(frozenset({"w"}))
    start, size = constants.offsets["w"], constants.sizes["w"]
    count = -(-width // COLUMNS)
    panels = np.frombuffer(constants.blob[start : start + size], "<u4").reshape(
        count, _ROWS, COLUMNS
    )
    matrix = panels.transpose(1, 0, 2).reshape(_ROWS, -1)
    np.testing.assert_array_equal(matrix[:, :width], np.arange(_ROWS * width).reshape(_ROWS, width))
    assert not matrix[:, width:].any()
    after = constants.offsets["after"]
    assert after % 64 == 0
    assert constants.blob[after:] == b"next"


def _large(rows: int = 4, depth: int = 101, width: int = 700) -> Step:
    return dot(dense((rows, depth), 0), dense((depth, width), 1), dense((rows, width), 2))


def test_bfloat16_weights_are_stored_as_such() -> None:
    """Pairs of rows, the last of which has zeros, as has the last panel; what follows begins at a whole line."""
    packed, constants = _constants((_large(),), (_large(1),), rows=101, width=700, unit=1 << 16)
    assert packed == Packed(frozenset({"w"}), frozenset({"w"}))
    panels = np.frombuffer(constants.content("w"), "<u2").reshape(44, 51, COLUMNS, 2)
    matrix = panels.transpose(1, 3, 0, 2).reshape(102, 704)
    expected = np.arange(101 * 700, dtype="<u2").reshape(101, 700)
    np.testing.assert_array_equal(matrix[:101, :700], expected)
    assert not matrix[101:].any()
    assert not matrix[:, 700:].any()
    assert constants.offsets["after"] % 64 == 0
    assert constants.content("after") == b"next"


def test_a_product_with_bfloat16_weights_has_its_own_kernel() -> None:
    writer = StepWriter(CALLS, "b", panels=frozenset({1}), halved=frozenset({1}))
    (call,) = writer.write([_large()])
    assert "bf16_dot<float>(" in call
    assert "as<const BF16>(a1" in call
    assert writer.headers == {"gemm/bf16_dot.h"}
    assert writer.tables[0].endswith(f", {102 * COLUMNS}}};")


@pytest.mark.parametrize(
    ("steps", "depth", "unit", "halves"),
    [
        ((_large(),), 101, 1, True),
        ((_large(),), 101, 1 << 16, False),
        ((_large(depth=30),), 30, 1 << 16, True),
    ],
    ids=["other numbers", "stored otherwise", "small"],
)
def test_others_keep_four_bytes(
    steps: tuple[Step, ...], depth: int, unit: int, *, halves: bool
) -> None:
    packed, constants = _constants(steps, rows=depth, width=700, unit=unit, halves=halves)
    assert packed == Packed(frozenset({"w"}))
    assert constants.sizes["w"] == 4 * depth * 704


def test_bfloat16_weights_that_a_vector_is_multiplied_by_on_the_right_keep_four_bytes() -> None:
    lhs, vector = array((700, 101), (0, 1), 1), dense((101, 1), 0)
    by_vector = dot(lhs, vector, dense((700, 1), 2))
    packed, _ = _constants((_large(), by_vector), rows=101, width=700, unit=1 << 16)
    assert packed == Packed(frozenset({"w"}))


def _also_added() -> Step:
    """A product whose weights are added to it too."""
    place = dense((4, _WIDTH), 2)
    weights = dense((_ROWS, _WIDTH), 1)
    return dot(
        dense((4, _ROWS), 0),
        weights,
        place,
        epilogue=ops.Epilogue(),
        accumulator=place,
        addend=weights,
    )


@pytest.mark.parametrize(
    "programs",
    [
        ((_dot(), _kernel()),),
        ((_dot(),), (_kernel(),)),
        ((_dot(), _dot(width=_WIDTH - COLUMNS)),),
        ((_also_added(),),),
    ],
    ids=["a kernel reads it", "in another program", "only a part", "it is added too"],
)
def test_what_is_not_only_weights_stays_as_it_is(programs: tuple[tuple[Step, ...], ...]) -> None:
    packed, blob = _packed(*programs)
    assert not packed
    assert blob[64:-4] == np.arange(_ROWS * _WIDTH, dtype="<u4").tobytes()


def test_what_must_keep_its_layout_does() -> None:
    packed, _ = _packed((_dot(),), known=False)
    assert not packed


@pytest.mark.parametrize(
    ("lhs", "rhs", "out"),
    [
        (dense((4, _ROWS)), dense((_ROWS, 40), 1), dense((4, 40), 2)),
        (dense((4, _ROWS)), dense((_ROWS, 32), 1), dense((4, 32), 2)),
        (dense((4, _ROWS)), array((_ROWS, _WIDTH), (0, 1), 1), dense((4, _WIDTH), 2)),
        (dense((4, _ROWS)), dense((_ROWS, _WIDTH), 1), array((4, _WIDTH), (0, 1), 2)),
        (dense((4, 8)), dense((8, _WIDTH), 1), dense((4, _WIDTH), 2)),
    ],
    ids=["mostly zeros", "few columns", "by columns", "results by columns", "small"],
)
def test_other_weights_gain_nothing(lhs: View, rhs: View, out: View) -> None:
    assert weights_of(_dot()) is not None
    assert weights_of(dot(lhs, rhs, out)) is None


def test_the_table_says_where_panels_are() -> None:
    for step, last in (
        (_dot(), "16, 1, 1, 48, 1, 1024}"),
        (_by_vector(), "1, 16, 1, 1, 1, 1, 1, 1, 1024}"),
        (_strips(), "{64, 0, 0}, 16, 1, {1024, 0, 0}, 192, 1, {48, 0, 0}, 1024}"),
    ):
        writer = StepWriter(CALLS, "b", panels=frozenset({1}))
        writer.write([step])
        (table,) = writer.tables
        assert last in table, table
    writer = StepWriter(CALLS, "b")
    writer.write([_dot()])
    assert "1024" not in writer.tables[0]


def _convolution(groups: int = 1, kernel: View | None = None, features: int = 48) -> Step:
    """3 x 3 windows over 16 features, to 48."""
    window = ROW.model_copy(update={"size": 3})
    image = ops.Axes(batch=0, feature=3, spatial=(1, 2))
    return Step(
        op=ops.Convolution(
            input_axes=image,
            kernel_axes=ops.Axes(batch=2, feature=3, spatial=(0, 1)),
            output_axes=image,
            windows=(window, window),
            feature_groups=groups,
        ),
        inputs={
            "input": dense((1, 5, 5, 16 * groups), 0),
            "kernel": kernel or dense((3, 3, 16, features), 1),
        },
        outputs={"out": dense((1, 3, 3, features), 2)},
    )


def test_so_is_the_kernel_of_a_convolution() -> None:
    weights = weights_of(_convolution())
    assert weights is not None
    assert (weights.depth, weights.columns) == (144, 48)
    writer = StepWriter(CALLS, "b", panels=frozenset({1}))
    writer.write([_convolution()])
    assert "16, 1, {768, 256, 0}" in writer.tables[0]
    assert writer.tables[0].endswith(", 2304};")


def test_kernels_of_groups_or_by_other_axes_stay_as_they_are() -> None:
    assert weights_of(_convolution(groups=3)) is None
    assert weights_of(_convolution(features=1000)) is None
    other = array((3, 3, 16, 48), (2, 3, 1, 0), 1)
    assert weights_of(_convolution(kernel=other)) is None


@pytest.mark.parametrize(("rows", "width"), [(1, 2), (6, 20), (64, 48)])
def test_bytes_are_in_groups_of_four_rows_behind_sums(rows: int, width: int) -> None:
    """As `src/kernels/gemm/bytes.h` reads them."""
    matrix = np.random.default_rng(1).integers(-128, 128, (rows, width), np.int8)
    form = Form(rows, rows)
    panels = np.frombuffer(form.pack(matrix.tobytes()), np.int8)
    groups = -(-rows // QUAD)
    panels = panels.reshape(-1, COLUMNS * (4 + QUAD * groups))
    sums = panels[:, : COLUMNS * 4].copy().view("<i4").reshape(-1)
    np.testing.assert_array_equal(sums[:width], -128 * matrix.sum(0, dtype=np.int64))
    assert not sums[width:].any()
    quads = panels[:, COLUMNS * 4 :].reshape(-1, groups, COLUMNS, QUAD)
    found = quads.transpose(1, 3, 0, 2).reshape(groups * QUAD, -1)
    np.testing.assert_array_equal(found[:rows, :width], matrix)
    assert not found[rows:].any()
    assert not found[:, width:].any()


def test_runs_of_bytes_are_filled_by_themselves() -> None:
    matrix = np.arange(1, 61, dtype=np.int8).reshape(6, 10)
    filled = np.zeros((8, 10), np.int8)
    filled[[0, 1, 2, 4, 5, 6]] = matrix
    assert Form(6, 3).pack(matrix.tobytes()) == Form(8, 8).pack(filled.tobytes())


def test_taps_along_the_last_axis_in_use_are_a_run() -> None:
    weights = weights_of(of_bytes(_convolution()))
    assert weights is not None
    assert weights.form == Form(144, 48)
    assert weights.panel == COLUMNS * (4 + 144)


def test_products_of_bytes_have_packed_weights() -> None:
    lhs, rhs, out = (
        View.dense(dense(shape, place).slice, element, shape)
        for place, (shape, element) in enumerate(
            [
                ((4, 6), ElementType.INT8),
                ((6, 20), ElementType.INT8),
                ((4, 20), ElementType.INT32),
            ]
        )
    )
    step = dot(lhs, rhs, out)
    weights = weights_of(step)
    assert weights is not None
    assert weights.form == Form(6, 6)
    assert weights.panel == COLUMNS * (4 + 8)
