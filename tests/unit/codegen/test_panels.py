"""Which weights are packed when a model is built, and where their elements are then."""

from __future__ import annotations

import re

import numpy as np
import pytest

from modelwheel.codegen import Constants, pack_weights
from modelwheel.codegen.panels import COLUMNS, weights_of
from modelwheel.codegen.thunks import ThunkWriter
from modelwheel.packaging.template import template_directory
from modelwheel.program import program as p
from modelwheel.program.arrays import Allocation, Array, ArrayShape, Slice
from tests.support.programs import array, dense, matmul_program

_ROWS, _WIDTH = 64, 48


def _dot(rows: int = 4, width: int = _WIDTH, offset: int = 0) -> p.Dot:
    """Of allocation 0, by the weights in allocation 1."""
    return p.Dot(
        operations=0,
        lhs=dense((rows, _ROWS), 0),
        rhs=dense((_ROWS, width), 1, offset),
        out=dense((rows, width), 2),
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(1,),
        rhs_contracting=(0,),
    )


def _by_vector() -> p.Dot:
    """The weights, by columns, times a vector."""
    return _dot().model_copy(
        update={
            "lhs": array((_WIDTH, _ROWS), (0, 1), 1),
            "rhs": dense((_ROWS, 1), 0),
            "out": dense((_WIDTH, 1), 2),
        }
    )


def _strips() -> p.Strips:
    """The same product for single positions of an image, and a convolution of its result."""
    places = p.Axes(batch=0, feature=2, spatial=(1,))
    window = p.Window(
        size=1, stride=1, pad_low=0, pad_high=0, kernel_dilation=1, base_dilation=1, reversed=False
    )  # fmt: skip
    layer = p.Convolution(
        operations=0,
        input=dense((1, 4, _ROWS), 0),
        kernel=dense((1, _ROWS, _WIDTH), 1),
        output=dense((1, 4, _WIDTH), 2),
        input_axes=places,
        kernel_axes=p.Axes(batch=1, feature=2, spatial=(0,)),
        output_axes=places,
        windows=(window,),
        feature_groups=1,
    )
    depthwise = layer.model_copy(update={"kernel": dense((1, 1, _WIDTH), 3), "feature_groups": 9})
    return p.Strips(operations=0, layers=(layer, depthwise))


def _kernel() -> p.Kernel:
    """One of XLA's that reads the weights."""
    part = Slice(allocation=1, offset=0, size=4 * _ROWS * _WIDTH)
    return p.Kernel(operations=0, symbol="k", workgroups=(1, 1, 1), arguments=(part,), results=())


def _packed(*programs: tuple[p.Thunk, ...], known: bool = True) -> tuple[frozenset[str], bytes]:
    """What is packed of one matrix that all programs read, and the weights then."""
    packed, constants = _constants(*programs, known=known)
    return packed, bytes(constants.blob)


def _constants(
    *programs: tuple[p.Thunk, ...], known: bool = True, width: int = _WIDTH
) -> tuple[frozenset[str], Constants]:
    weights = dense((_ROWS, width), 1)
    content = np.arange(_ROWS * width, dtype="<u4").tobytes()
    shape = ArrayShape(
        element_type=weights.element_type, shape=weights.shape, minor_to_major=(1, 0)
    )
    constant = Allocation(index=1, size=len(content), kind="constant", sha256="w", array=shape)
    constants = Constants()
    constants.add("before", b"other")
    constants.add("w", content, shape if known else None)
    made = [
        matmul_program().model_copy(
            update={"allocations": (constant,), "parameters": (), "results": (), "thunks": thunks}
        )
        for thunks in programs
    ]
    constants.add("after", b"next")
    return pack_weights(made, constants), constants


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
    assert packed == {"w"}
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


@pytest.mark.parametrize(
    "programs",
    [
        ((_dot(), _kernel()),),
        ((_dot(),), (_kernel(),)),
        ((_dot(), _dot(width=_WIDTH - COLUMNS)),),
        (
            (
                _dot().model_copy(
                    update={
                        "epilogue": p.Epilogue(
                            result=dense((4, 48), 2).slice, addend=_dot().rhs.slice
                        )
                    }
                ),
            ),
        ),
    ],
    ids=["a kernel reads it", "in another program", "only a part", "it is added too"],
)
def test_what_is_not_only_weights_stays_as_it_is(programs: tuple[tuple[p.Thunk, ...], ...]) -> None:
    packed, blob = _packed(*programs)
    assert not packed
    assert blob[64:-4] == np.arange(_ROWS * _WIDTH, dtype="<u4").tobytes()


def test_what_must_keep_its_layout_does() -> None:
    packed, _ = _packed((_dot(),), known=False)
    assert not packed


@pytest.mark.parametrize(
    "changes",
    [
        {"rhs": dense((_ROWS, 40), 1), "out": dense((4, 40), 2)},
        {"rhs": dense((_ROWS, 32), 1), "out": dense((4, 32), 2)},
        {"rhs": array((_ROWS, _WIDTH), (0, 1), 1)},
        {"out": array((4, _WIDTH), (0, 1), 2)},
        {"lhs": dense((4, 8), 0), "rhs": dense((8, _WIDTH), 1)},
    ],
    ids=["mostly zeros", "few columns", "by columns", "results by columns", "small"],
)
def test_other_weights_gain_nothing(changes: dict[str, Array]) -> None:
    assert weights_of(_dot()) is not None
    assert weights_of(_dot().model_copy(update=changes)) is None


def test_the_table_says_where_panels_are() -> None:
    for dot, last in (
        (_dot(), "16, 1, 1, 48, 1, 1024}"),
        (_by_vector(), "1, 16, 1, 1, 1, 1, 1, 1, 1024}"),
        (_strips(), "{64, 0, 0}, 16, 1, {1024, 0, 0}, 192, 1, {48, 0, 0}, 1024}"),
    ):
        writer = ThunkWriter("b", panels=frozenset({1}))
        writer.write([dot])
        (table,) = writer.tables
        assert last in table, table
    writer = ThunkWriter("b")
    writer.write([_dot()])
    assert "1024" not in writer.tables[0]


def _convolution(groups: int = 1) -> p.Convolution:
    """3 x 3 windows over 16 features, to 48."""
    window = p.Window(
        size=3, stride=1, pad_low=0, pad_high=0, kernel_dilation=1, base_dilation=1, reversed=False
    )
    return p.Convolution(
        operations=0,
        input=dense((1, 5, 5, 16 * groups), 0),
        kernel=dense((3, 3, 16, 48), 1),
        output=dense((1, 3, 3, 48), 2),
        input_axes=p.Axes(batch=0, feature=3, spatial=(1, 2)),
        kernel_axes=p.Axes(batch=2, feature=3, spatial=(0, 1)),
        output_axes=p.Axes(batch=0, feature=3, spatial=(1, 2)),
        windows=(window, window),
        feature_groups=groups,
    )


def test_so_is_the_kernel_of_a_convolution() -> None:
    weights = weights_of(_convolution())
    assert weights is not None
    assert (weights.depth, weights.columns) == (144, 48)
    writer = ThunkWriter("b", panels=frozenset({1}))
    writer.write([_convolution()])
    assert "16, 1, {768, 256, 0}" in writer.tables[0]
    assert writer.tables[0].endswith(", 2304};")


def test_kernels_of_groups_or_by_other_axes_stay_as_they_are() -> None:
    assert weights_of(_convolution(groups=3)) is None
    parts = {"kernel": dense((3, 3, 16, 1000), 1), "output": dense((1, 3, 3, 1000), 2)}
    assert weights_of(_convolution().model_copy(update=parts)) is None
    other = array((3, 3, 16, 48), (2, 3, 1, 0), 1)
    assert weights_of(_convolution().model_copy(update={"kernel": other})) is None


def test_the_kernels_have_the_same_panels() -> None:
    text = (template_directory() / "model/src/kernels/gemm_shape.h").read_text(encoding="utf-8")
    assert re.findall(r"kPanel = (\d+);", text) == [str(COLUMNS)]
