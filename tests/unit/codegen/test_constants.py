"""Constants: each once in the weights, in the layout that the runtime's kernels read best."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from modelwheel.codegen import Constants
from modelwheel.codegen.strides import dot_axes
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation
from modelwheel.program.program import Program
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from modelwheel.program.walk import walk
from tests.support.programs import (
    ROW,
    array,
    conditional,
    dense,
    dot,
    kernel,
    loop,
    matmul_program,
    part,
)


def _content(*constants: bytes) -> bytes:
    return b"".join(content.ljust(-(-len(content) // 64) * 64, b"\0") for content in constants)


def test_equal_constants_are_stored_once_and_unused_ones_not_at_all() -> None:
    constants = Constants()
    for batch in (1, 4):
        constants.add_program(matmul_program(batch), _content(b"....", b"w" * 48))
    assert bytes(constants.blob) == b"w" * 48
    assert constants.offsets == {hashlib.sha256(b"w" * 48).hexdigest(): 0}


def test_different_constants_are_aligned() -> None:
    constants = Constants()
    for letter in (b"w", b"v"):
        constants.add_program(matmul_program(), _content(b"....", letter * 48))
    assert list(constants.offsets.values()) == [0, 64]


def _program(*steps: Step, size: int) -> Program:
    """Allocation 1 is a constant, 0 and 2 are temporary."""
    constant = Allocation(
        index=1, size=size, kind="constant", constant_offset=0, sha256="as it was"
    )
    return matmul_program().model_copy(
        update={"allocations": (constant,), "parameters": (), "results": (), "steps": steps}
    )


def _dot(weights: View, contracting: int = 0, rows: int = 2) -> Step:
    inner = weights.shape[contracting]
    columns = weights.shape[1 - contracting]
    op = ops.Dot(lhs_contracting=(1,), rhs_contracting=(contracting,))
    return Step(
        op=op,
        inputs={"lhs": dense((rows, inner), 0), "rhs": weights},
        outputs={"out": dense((rows, columns), 2)},
    )


def _stored(program: Program, content: bytes) -> tuple[bytes, Program]:
    constants = Constants()
    program = constants.add_program(program, content)
    (used,) = program.allocations
    assert constants.offsets == {used.sha256: 0}
    return bytes(constants.blob), program


@pytest.mark.parametrize("columns", [12, 3], ids=["many columns", "few columns"])
def test_a_matrix_is_stored_once_however_xla_stored_it(columns: int) -> None:
    matrix = np.arange(4 * columns, dtype=np.float32).reshape(4, columns)
    expected = matrix if columns == 12 else matrix.T
    by_rows, by_columns = (array((4, columns), layout, 1) for layout in ((1, 0), (0, 1)))
    transposed = array((columns, 4), (1, 0), 1)
    for product, stored in (
        (_dot(by_rows), matrix),
        (_dot(by_columns), matrix.T),
        (_dot(transposed, contracting=1), matrix.T),
    ):
        content, program = _stored(_program(product, size=matrix.nbytes), stored.tobytes())
        assert content == expected.tobytes()
        (after,) = program.steps
        assert isinstance(after.op, ops.Dot)
        axes = dot_axes(after, after.op)
        assert [axis.stride for axis in axes.rhs[1:]] == ([12, 1] if columns == 12 else [1, 4])


def test_the_matrix_left_of_a_vector_has_the_same_layout() -> None:
    matrix = np.arange(48, dtype=np.float32).reshape(12, 4)
    step = dot(dense((12, 4), 1), dense((4, 1), 0), dense((12, 1), 2))
    content, program = _stored(_program(step, size=matrix.nbytes), matrix.tobytes())
    assert content == matrix.T.tobytes()
    (after,) = program.steps
    assert after.inputs["lhs"].order == (0, 1)


def test_a_filter_has_its_output_features_last() -> None:
    filters = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    stored = array((2, 3, 4, 5), (1, 3, 0, 2), 1)
    image = ops.Axes(batch=0, feature=3, spatial=(1, 2))
    convolution = Step(
        op=ops.Convolution(
            input_axes=image,
            kernel_axes=ops.Axes(batch=2, feature=3, spatial=(0, 1)),
            output_axes=image,
            windows=(ROW, ROW),
            feature_groups=1,
        ),
        inputs={"input": dense((1, 2, 3, 4), 0), "kernel": stored},
        outputs={"out": dense((1, 1, 1, 5), 2)},
    )
    program = _program(convolution, size=filters.nbytes)
    content, program = _stored(program, filters.transpose(2, 0, 3, 1).tobytes())
    assert content == filters.tobytes()
    (after,) = program.steps
    assert after.inputs["kernel"].order == (3, 2, 1, 0)


def test_weights_of_loops_and_branches_have_the_new_layout_too() -> None:
    matrix = np.arange(48, dtype=np.float32).reshape(4, 12)
    product = _dot(array((4, 12), (0, 1), 1))
    either = conditional(part(0, size=4), (loop(product),), (product,))
    content, program = _stored(_program(either, size=matrix.nbytes), matrix.T.tobytes())
    assert content == matrix.tobytes()
    products = [step for step in walk(program.steps) if isinstance(step.op, ops.Dot)]
    assert [step.inputs["rhs"].order for step in products] == [(1, 0), (1, 0)]


@pytest.mark.parametrize("reader", ["a kernel of XLA", "a part", "another product", "a result"])
def test_what_others_read_too_stays_as_it_is(reader: str) -> None:
    weights = array((8, 12), (0, 1), 1)
    content = np.arange(96, dtype=np.float32).tobytes()
    half = array((8, 6), (0, 1), 1)
    others: dict[str, tuple[Step, ...]] = {
        "a kernel of XLA": (kernel(weights.slice),),
        "a part": (_dot(half),),
        "another product": (_dot(weights, contracting=1),),
        "a result": (),
    }
    program = _program(_dot(weights), *others[reader], size=len(content))
    if reader == "a result":
        program = program.model_copy(update={"results": (weights,)})
    stored, after = _stored(program, content)
    assert stored == content
    assert after.steps == program.steps
