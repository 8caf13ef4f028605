"""Steps of a program in C++: tables and calls of the kernels."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from modelwheel.codegen.calls import CALLS
from modelwheel.codegen.memory import RANDOM_STATE_BYTES, ScratchPlace
from modelwheel.codegen.rows.demand import FirstRows
from modelwheel.codegen.writer import StepWriter
from modelwheel.dtypes import ElementType
from modelwheel.errors import UnsupportedProgramError
from modelwheel.program import ops
from modelwheel.program.steps import Step
from modelwheel.program.view import View
from tests.support.programs import (
    array,
    copy,
    dense,
    dot,
    matmul_program,
    part,
    pointwise,
    pooling,
)


def _writer() -> StepWriter:
    return StepWriter(CALLS, prefix="b")


def test_every_operation_has_a_call_that_takes_it() -> None:
    union, *_ = get_args(ops.AnyOp)
    assert set(CALLS) == set(get_args(union)) == set(ops.Op.__subclasses__())
    assert len({op.model_fields["kind"].default for op in CALLS}) == len(CALLS)
    for op, call in CALLS.items():
        assert [*get_type_hints(call.write).values()][2] == op


# --- products -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allocation", "call", "copies"),
    [
        (
            3,
            "dot<float>(b_dot_0, as<const float>(a0), as<const float>(a1), as<float>(a2), arena + 0",
            0,
        ),
        # The result is where lhs was, which is the smaller one: a copy of it is read.
        (
            0,
            "dot<float>(b_dot_0, as<const float>(copy), as<const float>(a1), as<float>(a2), ",
            1,
        ),
    ],
)
def test_what_follows_a_product_is_data_of_its_call(
    allocation: int, call: str, copies: int
) -> None:
    product = dot(
        dense((2, 4), 0),
        dense((4, 8), 1),
        dense((2, 8), allocation),
        epilogue=ops.Epilogue(high=6.0, activation="gelu_tanh"),
        accumulator=dense((2, 8), 2),
        shift=dense((8,), 4),
    )
    writer = _writer()
    text = "\n".join(writer.write([product]))
    assert call in text
    assert text.count("memcpy") == copies
    shift = f"as<float>(a{allocation}), false, nullptr, nullptr, as<const float>(a4), nullptr"
    assert f"{shift}, false, true, 0.0F, 6.0F, Activation::kGeluTanh}};" in text
    assert writer.scratch.ends == [f"0 + {'64 + ' * copies}dot_scratch<float>(b_dot_0)"]


def test_what_replaces_its_addend_has_sums_elsewhere_only_if_the_kernel_stores_some() -> None:
    place = dense((2, 8), 2)
    product = dot(
        dense((2, 4), 0),
        dense((4, 8), 1),
        place,
        epilogue=ops.Epilogue(),
        accumulator=place,
        addend=place,
    )
    writer = _writer()
    text = "\n".join(writer.write([product]))
    assert "char *const kept = arena + 0;" in text
    assert "char *const sums = dot_sums<float>(b_dot_0) != 0 ? kept : a2;" in text
    assert "as<float>(sums), kept + dot_sums<float>(b_dot_0), &epilogue);" in text
    assert "epilogue = {as<const float>(sums), as<float>(a2), false," in text
    needed = "dot_sums<float>(b_dot_0) + dot_scratch<float>(b_dot_0)"
    assert writer.scratch.ends == [f"0 + {needed}"]


def test_a_product_without_an_epilogue_has_its_sums_in_the_result() -> None:
    (line,) = _writer().write(matmul_program().steps)
    operands = "as<const float>(a0), as<const float>(a1), as<float>(a2), arena + 0"
    assert line == f"  dot<float>(b_dot_0, {operands});"


def test_scratch_memory_is_in_a_gap_that_is_large_enough() -> None:
    writer = _writer()
    writer.scratch.place = ScratchPlace(512, range(4096, 12288))
    (line,) = writer.write(matmul_program().steps)
    needed = "8192, dot_scratch<float>(b_dot_0)"
    assert line.endswith(f"gap_or({needed}, arena + 4096, arena + 512));")
    assert writer.scratch.ends == [f"512 + beyond({needed})"]


def test_a_result_may_be_columns_of_wider_rows() -> None:
    (product,) = matmul_program().steps
    out = View(slice=part(2, 8, 40), element_type=ElementType.FLOAT32, shape=(2, 3), strides=(7, 1))
    writer = _writer()
    writer.write([product.model_copy(update={"outputs": {"out": out}})])
    (table,) = writer.tables
    assert table.endswith(" 7, 1};")


def test_a_mixed_product_without_a_kernel_is_refused_by_name() -> None:
    lhs = array((2, 4), (1, 0), element_type=ElementType.INT32)
    product = dot(lhs, dense((4, 3), 1), dense((2, 3), 2))
    with pytest.raises(UnsupportedProgramError, match="int32_t by float"):
        _writer().write([product])


def _strips(operations: int = 2) -> Step:
    """Two layers; the first has an epilogue."""
    first, second = (pointwise(0, 1, 2).op for _ in range(2))
    assert isinstance(first, ops.Convolution)
    assert isinstance(second, ops.Convolution)
    bounded = first.model_copy(update={"epilogue": ops.Epilogue(low=0.0)})
    weights = {"kernel0": dense((1, 8, 8), 1), "kernel1": dense((1, 8, 8), 3)}
    return Step(
        op=ops.Strips(layers=(bounded, second), shapes=((2, 5, 8),)),
        inputs={"input": dense((2, 5, 8), 0), **weights},
        outputs={"out": dense((2, 5, 8), 4)},
        operations=operations,
    )


def test_strips_compute_the_first_images() -> None:
    step = _strips()
    program = matmul_program(2).model_copy(
        update={"steps": (step,), "results": (step.outputs["out"],), "parameters": ()}
    )
    writer = StepWriter(CALLS, prefix="b", batch=2, first=FirstRows(program, 2, [True]))
    assert "strips(b_convolution_0, 1 * rows, layers," in "\n".join(writer.write([step]))


def test_strips_are_tables_and_a_call_without_the_memory_between() -> None:
    writer = _writer()
    text = "\n".join(writer.write([_strips()]))
    assert "epilogue0 = {as<const float>(nullptr), as<float>(nullptr), false, nullptr," in text
    layers = "{{as<const float>(a1), &epilogue0}, {as<const float>(a3), nullptr}}"
    assert f"const StripLayer<float> layers[] = {layers};" in text
    assert (
        "strips(b_convolution_0, 2, layers, as<const float>(a0), as<float>(a4), arena + 0);" in text
    )
    assert writer.tables[0].startswith("constexpr Convolution b_convolution_0[] = {{2, 1, 8, 8, 1,")
    assert writer.scratch.ends == ["0 + strips_scratch<float>(b_convolution_0)"]
    assert writer.headers == {"convolution/strips.h", "convolution/convolution.h"}
    assert writer.uses == {
        "float": [
            "common_uses()",
            "line_uses<float>(b_convolution_0[0])",
            "common_uses()",
            "line_uses<float>(b_convolution_0[1])",
        ]
    }
    text = "\n".join(writer.write([_strips(1_000_000)]))
    assert "strips_in_parts({threads, 2}, b_convolution_1, 2, layers, as<const float>(a0)," in text
    assert writer.scratch.parts == ["strips_scratch<float>(b_convolution_1)"]
    assert "convolution/strip_parts.h" in writer.headers


def test_threads_may_share_a_large_step() -> None:
    (small,) = matmul_program().steps
    writer = _writer()
    large = [small.model_copy(update={"operations": n}) for n in (300_000, 750_000)]
    first, second = writer.write(large)
    assert first.startswith("  dot_in_parts<float>({threads, 2}, b_dot_0, as<const float>(a0),")
    assert second.endswith(" arena + 0);")
    assert writer.scratch.parts == [
        "dot_part_scratch<float>(b_dot_0, 2)",
        "dot_part_scratch<float>(b_dot_1, 5)",
    ]
    assert writer.headers == {"gemm/dot.h", "gemm/parts.h"}
    assert writer.uses == {
        "float": [
            "dot_part_uses<float>(b_dot_0, 2, false)",
            "dot_part_uses<float>(b_dot_1, 5, false)",
        ]
    }
    lhs, rhs, out = (
        array(view.shape, (1, 0), number, element_type=ElementType.FLOAT16)
        for number, view in enumerate(small.views)
    )
    (call,) = writer.write([dot(lhs, rhs, out, operations=300_000)])
    assert call.startswith("  dot<F16>(")


# --- reductions, copies and gathers -------------------------------------------------------------------


def test_a_pooling_is_a_table_and_a_call() -> None:
    pool = pooling(
        dense((2, 5, 6, 8), 0).slice,
        dense((2, 2, 3, 8), 1).slice,
        batch=2,
        features=8,
        in_size=(5, 6),
        out_size=(2, 3),
        window=(3, 2),
        stride=(2, 2),
        pad_low=(0, 1),
    )
    writer = _writer()
    (call,) = writer.write([pool])
    assert call == "  pooling<float>(b_pooling_0, as<const float>(a0), as<float>(a1));"
    (table,) = writer.tables
    assert table.startswith("constexpr Pooling b_pooling_0 = {Reducer::kMaximum, -__builtin_inf(),")
    assert table.endswith(" 2, 8, {5, 6}, {3, 2}, {2, 3}, {2, 2}, {0, 1}, 8, 1.0, 1.0};")
    writer.write([pool.model_copy(update={"op": pool.op.model_copy(update={"padding": 0.0})})])
    assert writer.tables[-1].endswith(" {0, 1}, 8, 1.0, 1.0, true, 0.0};")


def test_volumes_have_a_table_of_their_own() -> None:
    plane = ops.Pooling(
        reducer="maximum", initial=None, window=(3, 2), stride=(2, 2), pad_low=(0, 1)
    )
    op = ops.VolumePooling(plane=plane, window=2, stride=3, pad_low=1)
    views = dense((2, 4, 5, 6, 8), 0), dense((2, 2, 2, 3, 8), 1)
    step = Step(op=op, inputs={"input": views[0]}, outputs={"output": views[1]})
    writer = _writer()
    (call,) = writer.write([step])
    assert call == "  volume_pooling<float>(b_volumepooling_0, as<const float>(a0), as<float>(a1));"
    (table,) = writer.tables
    assert table.startswith(
        "constexpr VolumePooling b_volumepooling_0 = {2, 4, 2, 2, 3, 1, {Reducer::kMaximum,"
    )
    assert table.endswith(" 2, 8, {5, 6}, {3, 2}, {2, 3}, {2, 2}, {0, 1}, 8, 1.0, 1.0}};")
    assert writer.headers == {"pooling/volume.h"}


def test_pixels_of_a_pooling_may_be_part_of_larger_ones() -> None:
    pool = pooling(part(0, size=240), part(1))
    wide = pool.inputs["input"].model_copy(update={"strides": (48, 24, 12, 1)})
    writer = _writer()
    writer.write([pool.model_copy(update={"inputs": {"input": wide}})])
    assert writer.tables[0].endswith(", 12, 1.0, 1.0};")


def test_a_reduction_of_rows_is_a_table_and_a_call() -> None:
    reduction = Step(
        op=ops.RowReduction(reducer="sum", initial=0.0, window=32, pad_low=14),
        inputs={"input": dense((3, 100), 0)},
        outputs={"output": dense((3, 4), 1)},
    )
    writer = _writer()
    (call,) = writer.write([reduction])
    assert call == "  row_reduction<float>(b_rowreduction_0, as<const float>(a0), as<float>(a1));"
    values = "{Reducer::kSum, 0.0, 3, 100, 4, 32, 14}"
    assert writer.tables == [f"constexpr RowReduction b_rowreduction_0 = {values};"]
    assert writer.headers == {"pooling/row_reduction.h"}


@pytest.mark.parametrize("has_bias", [False, True])
def test_a_softmax_of_rows_is_a_table_and_a_call(has_bias: bool) -> None:
    bias = {"bias": dense((100,), 2)} if has_bias else {}
    softmax = Step(
        op=ops.Softmax(),
        inputs={"input": dense((3, 100), 0), **bias},
        outputs={"output": dense((3, 100), 1)},
    )
    writer = _writer()
    (call,) = writer.write([softmax])
    added = "as<const float>(a2)" if has_bias else "nullptr"
    operands = f"as<const float>(a0), {added}, as<float>(a1)"
    assert call == f"  row_softmax<float>(b_rowsoftmax_0, {operands});"
    assert writer.tables == ["constexpr RowSoftmax b_rowsoftmax_0 = {3, 100};"]
    assert writer.headers == {"pooling/row_softmax.h"}


@pytest.mark.parametrize("rows", [10, 4000])
def test_a_scaling_is_in_parts_if_it_moves_enough(rows: int) -> None:
    scaling = Step(
        op=ops.Scaling(),
        inputs={"input": dense((2, rows, 8), 0), "factors": dense((2, 8), 1)},
        outputs={"output": dense((2, rows, 8), 2)},
        operations=1,
    )
    writer = _writer()
    (call,) = writer.write([scaling])
    name, threads = ("scaling", "") if rows == 10 else ("scaling_in_parts", "{threads, 8}, ")
    operands = "as<const float>(a0), as<const float>(a1), as<float>(a2)"
    assert call == f"  {name}<float>({threads}b_scaling_0, {operands});"
    assert writer.tables == [f"constexpr Scaling b_scaling_0 = {{2, {rows}, 8}};"]


def test_a_copy_of_bytes_is_a_call() -> None:
    (call,) = _writer().write([copy(part(0, 4, 12), part(1, 0, 12))])
    assert call == "  std::memcpy(a1, a0 + 4, 12);"


@pytest.mark.parametrize("rows", [5, 1])
def test_a_copy_of_rows_is_a_table_and_a_call(rows: int) -> None:
    source = dense((rows, 8), 0)
    columns = source.model_copy(update={"slice": part(1, 16, 240), "strides": (12, 1)})
    step = Step(op=ops.Copy(), inputs={"source": source}, outputs={"destination": columns})
    writer = _writer()
    (call,) = writer.write([step])
    if rows == 1:
        assert call == "  std::memcpy(a1 + 16, a0, 32);"
        return
    assert call == "  rearrange<float>(b_rearrangement_0, as<const float>(a0), as<float>(a1 + 16));"
    (table,) = writer.tables
    assert table.endswith(
        "= {1, 0, 0, {1, 1, 1, 1, 5, 8}, {0, 0, 0, 0, 8, 1}, {0, 0, 0, 0, 12, 1}};"
    )
    assert writer.headers == {"elementwise/rearrange.h"}


def test_a_copy_in_another_order_is_a_table_and_a_call() -> None:
    """Of the last two axes, one is along neighbours in the result and the other along those in the source."""
    turned = array((2, 4, 5, 3), (2, 1, 3, 0))
    step = Step(
        op=ops.Copy(), inputs={"source": turned}, outputs={"destination": dense((2, 4, 5, 3), 1)}
    )
    writer = _writer()
    (call,) = writer.write([step])
    assert call == "  rearrange<float>(b_rearrangement_0, as<const float>(a0), as<float>(a1));"
    (table,) = writer.tables
    assert table.endswith(
        "= {1, 0, 0, {1, 1, 1, 2, 20, 3}, {0, 0, 0, 60, 1, 20}, {0, 0, 0, 60, 3, 1}};"
    )


def test_a_copy_of_bytes_with_gaps_is_refused() -> None:
    gaps = array((5, 8), (0, 1), element_type=ElementType.UINT8)
    plain = array((5, 8), (1, 0), 1, element_type=ElementType.UINT8)
    step = Step(op=ops.Copy(), inputs={"source": gaps}, outputs={"destination": plain})
    with pytest.raises(UnsupportedProgramError, match="an array with gaps"):
        _writer().write([step])


def _tables(rows: int, row_bytes: int) -> dict[str, View]:
    """A table, and six indices."""
    table = array((rows, row_bytes), (1, 0), 0, element_type=ElementType.UINT8)
    return {"table": table, "indices": array((6,), (0,), 1, element_type=ElementType.INT32)}


def test_a_lookup_is_a_table_and_a_call() -> None:
    output = array((6, 20), (1, 0), 2, element_type=ElementType.UINT8)
    lookup = Step(op=ops.Lookup(wrap=7), inputs=_tables(7, 20), outputs={"output": output})
    writer = _writer()
    (call,) = writer.write([lookup])
    assert call == "  lookup(b_lookup_0, a0, as<const std::int32_t>(a1), a2);"
    assert writer.tables == ["constexpr Lookup b_lookup_0 = {6, 7, 20, 7};"]
    assert writer.headers == {"elementwise/lookup.h"}


def test_an_embedding_bag_has_the_tables_of_its_lookup_and_its_pooling() -> None:
    pool = ops.Pooling(reducer="sum", initial=0.0, window=(3, 1), stride=(1, 1), pad_low=(0, 0))
    bag = Step(
        op=ops.EmbeddingBag(lookup=ops.Lookup(wrap=7), pooling=pool, in_size=(3, 1)),
        inputs=_tables(7, 20),
        outputs={"output": dense((2, 1, 1, 5), 3)},
    )
    writer = _writer()
    (call,) = writer.write([bag])
    assert call == (
        "  embedding_bag<float>(b_lookup_0, b_pooling_1, a0, as<const std::int32_t>(a1), "
        "as<float>(a3));"
    )
    assert writer.tables[1].endswith(" 2, 5, {3, 1}, {3, 1}, {1, 1}, {1, 1}, {0, 0}, 5, 1.0, 1.0};")
    assert writer.headers == {"pooling/embedding_bag.h"}


# --- others -------------------------------------------------------------------------------------------


def test_a_sort_is_a_table_and_a_call_of_its_comparator() -> None:
    operands = {
        "operand0": dense((4, 5), 0),
        "operand1": array((4, 5), (1, 0), 1, element_type=ElementType.INT64),
    }
    sort = Step(op=ops.Sort(comparator="less", axis=0), inputs=operands, outputs=operands)
    writer = _writer()
    (call,) = writer.write([sort])
    assert call == "  sort(b_sort_0, less, {a0, a1}, arena + 0);"
    assert writer.tables == ["constexpr Sort b_sort_0 = {1, 4, 5, 2, {4, 8}};"]


def test_the_largest_of_rows_are_a_table_and_a_call() -> None:
    indices = array((3, 2), (1, 0), 2, element_type=ElementType.INT32)
    top = Step(
        op=ops.TopK(),
        inputs={"values": dense((3, 9), 0)},
        outputs={"output": dense((3, 2), 1), "indices": indices},
    )
    writer = _writer()
    (call,) = writer.write([top])
    operands = "as<const float>(a0), as<float>(a1), as<std::int32_t>(a2), arena + 0"
    assert call == f"  top_k<float>(b_topk_0, {operands});"
    assert writer.tables == ["constexpr TopK b_topk_0 = {3, 9, 2};"]


def _fft(order: tuple[int, ...]) -> Step:
    spectrum = array((3, 5), order, 1, element_type=ElementType.COMPLEX64)
    return Step(
        op=ops.Fft(fft_type="rfft", lengths=(8,)),
        inputs={"input": dense((3, 8), 0)},
        outputs={"output": spectrum},
    )


def test_a_fourier_transform_is_a_table_and_a_call() -> None:
    writer = _writer()
    (call,) = writer.write([_fft((1, 0))])
    assert call == "  fft<float>(b_fft_0, a0, a1, arena + 0);"
    assert writer.tables == ["constexpr Fft b_fft_0 = {FftType::kRfft, 3, 1, {8, 1, 1}};"]
    with pytest.raises(UnsupportedProgramError, match="transposed"):
        writer.write([_fft((0, 1))])


def test_every_random_step_has_a_state_of_its_own() -> None:
    draw = Step(op=ops.RandomState(delta=5), outputs={"state": View.of_bytes(part(0, 0, 16))})
    lines = _writer().write([draw, draw])
    assert lines == [
        f"  get_and_update_state(arena + {number * RANDOM_STATE_BYTES}, 5, a0);"
        for number in range(2)
    ]
