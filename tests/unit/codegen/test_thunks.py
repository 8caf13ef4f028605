"""Steps of a program in C++: tables and calls of the kernels."""

from __future__ import annotations

import pytest

from modelwheel.codegen import (
    estimate_cost,
)
from modelwheel.codegen.cost import count_branches, count_parts, shared_part
from modelwheel.codegen.memory import ScratchPlace, plan_memory
from modelwheel.codegen.thunks import ThunkWriter
from modelwheel.dtypes import ElementType
from modelwheel.program import program as p
from modelwheel.program.arrays import Allocation
from modelwheel.program.masks import MaskCode, MaskOperation, MaskRead
from modelwheel.program.traffic import bytes_moved
from modelwheel.program.walk import used_allocations
from tests.support.programs import dense, matmul_program, pointwise, pooling


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
    product = matmul_program().thunks[0]
    assert isinstance(product, p.Dot)
    wide = {"rhs": dense((4, 8), 1), "out": dense((2, 8), 2)}
    epilogue = p.Epilogue(
        result=dense((2, 8), allocation).slice,
        shift=dense((8,), 4).slice,
        high=6.0,
        activation="gelu_tanh",
    )
    writer = ThunkWriter(prefix="b")
    lines = writer.write([product.model_copy(update={**wide, "epilogue": epilogue})])
    text = "\n".join(lines)
    assert call in text
    assert text.count("memcpy") == copies
    shift = f"as<float>(a{allocation}), false, nullptr, nullptr, as<const float>(a4), nullptr"
    assert f"{shift}, false, true, 0.0F, 6.0F, Activation::kGeluTanh}};" in text
    assert writer.scratch.ends == [f"0 + {'64 + ' * copies}dot_scratch<float>(b_dot_0)"]


def test_what_replaces_its_addend_has_sums_elsewhere_only_if_the_kernel_stores_some() -> None:
    product = matmul_program().thunks[0]
    assert isinstance(product, p.Dot)
    place = dense((2, 8), 2)
    wide = {"rhs": dense((4, 8), 1), "out": place}
    epilogue = p.Epilogue(result=place.slice, addend=place.slice)
    writer = ThunkWriter(prefix="b")
    lines = writer.write([product.model_copy(update={**wide, "epilogue": epilogue})])
    text = "\n".join(lines)
    assert "char *const kept = arena + 0;" in text
    assert "char *const sums = dot_sums<float>(b_dot_0) != 0 ? kept : a2;" in text
    assert "as<float>(sums), kept + dot_sums<float>(b_dot_0), &epilogue);" in text
    assert "epilogue = {as<const float>(sums), as<float>(a2), false," in text
    needed = "dot_sums<float>(b_dot_0) + dot_scratch<float>(b_dot_0)"
    assert writer.scratch.ends == [f"0 + {needed}"]


def test_scratch_memory_is_in_a_gap_that_is_large_enough() -> None:
    writer = ThunkWriter(prefix="b")
    writer.scratch.place = ScratchPlace(512, range(4096, 12288))
    (line,) = writer.write(matmul_program().thunks)
    needed = "8192, dot_scratch<float>(b_dot_0)"
    assert line.endswith(f"gap_or({needed}, arena + 4096, arena + 512));")
    assert writer.scratch.ends == [f"512 + beyond({needed})"]


def test_strips_are_tables_and_a_call_without_the_memory_between() -> None:
    between = p.Epilogue(result=dense((2, 5, 8), 2).slice, low=0.0)
    first = pointwise(0, 1, 2).model_copy(update={"epilogue": between})
    writer = ThunkWriter(prefix="b")
    strips = p.Strips(operations=2, layers=(first, pointwise(2, 3, 4)))
    text = "\n".join(writer.write([strips]))
    assert "epilogue0 = {as<const float>(nullptr), as<float>(nullptr), false, nullptr," in text
    layers = "{{as<const float>(a1), &epilogue0}, {as<const float>(a3), nullptr}}"
    assert f"const StripLayer<float> layers[] = {layers};" in text
    assert "strips(b_convolution_0, layers, as<const float>(a0), as<float>(a4), arena + 0);" in text
    assert writer.tables[0].startswith("constexpr Convolution b_convolution_0[] = {{2, 1, 8, 8, 1,")
    assert writer.scratch.ends == ["0 + strips_scratch<float>(b_convolution_0)"]
    assert writer.headers == {"strips.h"}
    large = strips.model_copy(update={"operations": 1_000_000})
    text = "\n".join(writer.write([large]))
    assert "strips_in_parts({threads, 2}, b_convolution_1, layers, as<const float>(a0)," in text
    assert writer.scratch.parts == ["strips_scratch<float>(b_convolution_1)"]
    assert writer.headers == {"strips.h", "strip_parts.h", "parts.h"}


def test_memory_that_is_not_used_after_some_place_is_not_reserved() -> None:
    program = matmul_program()
    (dot,) = program.thunks
    assert isinstance(dot, p.Dot)
    large = Allocation(index=7, size=1 << 20, kind="temporary")
    reads = dot.model_copy(update={"lhs": dense((2, 4), 7, offset=64)})
    changes = {"allocations": (*program.allocations, large), "thunks": (reads,)}
    memory = plan_memory(program.model_copy(update=changes), {"ab" * 32: 0}, random_states=0)
    assert memory.pointers[7] == "arena + 0"
    # 64 + 2 x 4 x 4 bytes are used, as the input of the only step. Staging is beside them: of the input before, of the
    # output behind.
    assert (memory.input_staging, memory.output_staging) == ((0,), (128,))
    assert memory.end == 192
    assert memory.scratch == (ScratchPlace(192),)


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
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([pool])
    assert call == "  pooling<float>(b_pooling_0, as<const float>(a0), as<float>(a1));"
    (table,) = writer.tables
    assert table.startswith("constexpr Pooling b_pooling_0 = {Reducer::kMaximum, -__builtin_inf(),")
    assert table.endswith(" 2, 8, {5, 6}, {3, 2}, {2, 3}, {2, 2}, {0, 1}, 8, 1.0, 1.0};")
    writer.write([pool.model_copy(update={"padding": 0.0})])
    assert writer.tables[-1].endswith(" {0, 1}, 8, 1.0, 1.0, true, 0.0};")


def test_a_copy_of_rows_is_a_table_and_a_call() -> None:
    whole = dense((5, 12), 1).slice
    copy = p.CopyRows(
        operations=0,
        source=dense((5, 8), 0).slice,
        destination=whole.model_copy(update={"offset": 16, "size": whole.size - 16}),
        rows=5,
        columns=8,
        step=12,
    )
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([copy])
    assert call == "  copy_rows<float>(b_copyrows_0, as<const float>(a0), as<float>(a1 + 16));"
    assert writer.tables == ["constexpr CopyRows b_copyrows_0 = {5, 8, 12};"]
    assert writer.headers == {"copy_rows.h"}


def test_a_result_may_be_columns_of_wider_rows() -> None:
    part = dense((2, 3), 2).slice.model_copy(update={"offset": 8})
    out = dense((2, 3), 2).model_copy(update={"slice": part, "row_step": 7})
    (dot,) = matmul_program().thunks
    writer = ThunkWriter(prefix="b")
    writer.write([dot.model_copy(update={"out": out})])
    (table,) = writer.tables
    assert table.endswith(" 7, 1};")


def test_threads_may_share_a_large_step() -> None:
    small = matmul_program().thunks[0]
    assert isinstance(small, p.Dot)
    assert count_parts(small) == 1
    writer = ThunkWriter(prefix="b")
    # By the roofline of the costs, 27 and 67 us: products with three columns are slower.
    large = [small.model_copy(update={"operations": n}) for n in (300_000, 750_000)]
    assert [count_parts(step) for step in large] == [2, 5]
    first, second = writer.write(large)
    assert first.startswith("  dot_in_parts<float>({threads, 2}, b_dot_0, as<const float>(a0),")
    assert second.endswith(" arena + 0);")
    assert writer.scratch.parts == [
        "dot_part_scratch<float>(b_dot_0, 2)",
        "dot_part_scratch<float>(b_dot_1, 5)",
    ]
    assert writer.headers == {"dot.h", "parts.h"}
    assert writer.uses == {
        "float": [
            "dot_part_uses<float>(b_dot_0, 2, false)",
            "dot_part_uses<float>(b_dot_1, 5, false)",
        ]
    }
    half = {"element_type": ElementType.FLOAT16}
    arrays = {side: getattr(small, side).model_copy(update=half) for side in ("lhs", "rhs", "out")}
    (call,) = writer.write([large[0].model_copy(update=arrays)])
    assert call.startswith("  dot<F16>(")


@pytest.mark.parametrize(("rows", "parts"), [(1, 2), (2, 1)])
def test_products_of_one_row_are_shared_where_they_take_half_as_long(rows: int, parts: int) -> None:
    (dot,) = matmul_program(rows).thunks
    assert count_parts(dot.model_copy(update={"operations": 150_000})) == parts


def _dot(operations: int) -> p.Thunk:
    return matmul_program().thunks[0].model_copy(update={"operations": operations})


def _branches(operations: int, turns: int = 10, branches: int = 2) -> p.Branches:
    """Loops of one product each."""
    loop = p.While(
        operations=turns * operations,
        trip_count=turns,
        condition=(),
        condition_value=None,
        body=(_dot(operations),),
    )
    return p.Branches(operations=1, branches=((loop,),) * branches)


def test_threads_run_branches_beside_each_other() -> None:
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([_branches(120_000)])
    assert call == (
        "  if (!run_branches({threads, 2}, 1, [&](std::int64_t number, const Threads &own, char *memory) "
        "{ return branches_b_0(number, in, out, arena, own, memory); }, arena + 0)) return false;"
    )
    assert "branches.h" in writer.headers
    # Each has scratch memory of its own, and the first thread all of it if it is alone.
    assert writer.scratch.parts == [f"dot_scratch<float>(b_dot_{number})" for number in (0, 1)]
    (end,) = writer.scratch.ends
    assert end.count("dot_scratch<float>(b_dot_") == 2
    (function,) = writer.functions
    lines = [line.strip() for line in function.lines]
    assert [line for line in lines if line.endswith(":")] == ["case 0:", "default:"]
    assert lines.count("return true;") == 2


def test_steps_of_branches_have_parts_for_more_threads() -> None:
    step = _branches(3_000_000)
    assert count_parts(_dot(3_000_000), in_loop=True) == 5
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([step])
    assert "run_branches({threads, 2}, 5, " in call
    assert sum("dot_in_parts" in line for line in writer.functions[0].lines) == 2
    # As scratch memory of a part, and of a branch that has a thread to itself.
    assert {"dot_part_scratch<float>(b_dot_0, 5)", "dot_scratch<float>(b_dot_0)"} < set(
        writer.scratch.parts
    )


@pytest.mark.parametrize(
    ("step", "count"),
    [
        (_branches(120_000), 2),
        (_branches(40_000, branches=5), 5),
        (_branches(10_000), 1),
        (_branches(10_000, turns=120), 2),
        (_branches(1_500_000, turns=1), 2),
        (p.Branches(operations=1, branches=(_branches(120_000).branches[0], ())), 1),
    ],
)
def test_branches_are_worth_a_thread_if_others_take_much_off_one(
    step: p.Branches, count: int
) -> None:
    assert count_branches(step) == count


@pytest.mark.parametrize(
    ("steps", "part"),
    [
        (matmul_program().thunks, 0.0),
        # A step of 27 us saves next to nothing, and in each turn of a loop nothing; of 900 us, two threads save nearly a half.
        ((_dot(300_000),), 0.1),
        (_branches(300_000).branches[0], 0.0),
        ((_dot(10_000_000),), 0.97),
        (_branches(10_000_000).branches[0], 0.89),
        # All but one of the branches run beside that.
        ((_branches(120_000),), 0.5),
        ((_branches(120_000, branches=4),), 0.75),
        ((_branches(100),), 0.0),
        ((), 0.0),
    ],
)
def test_threads_share_large_steps_and_branches(steps: tuple[p.Thunk, ...], part: float) -> None:
    program = matmul_program().model_copy(update={"thunks": steps})
    assert shared_part(program) == pytest.approx(part, abs=0.01)


def test_branches_that_are_not_worth_it_follow_each_other() -> None:
    writer = ThunkWriter(prefix="b")
    lines = writer.write([_branches(100)])
    assert [line for line in lines if "for (" in line] == [
        "  for (std::int64_t trip = 0; trip < 10; ++trip) {"
    ] * 2
    assert (writer.functions, writer.scratch.parts) == ([], [])


def test_a_reduction_of_rows_is_a_table_and_a_call() -> None:
    reduction = p.RowReduction(
        operations=1,
        reducer="sum",
        initial=0.0,
        input=dense((3, 100), 0).slice,
        output=dense((3, 4), 1).slice,
        rows=3,
        size=100,
        windows=4,
        window=32,
        pad_low=14,
    )
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([reduction])
    assert call == "  row_reduction<float>(b_rowreduction_0, as<const float>(a0), as<float>(a1));"
    values = "{Reducer::kSum, 0.0, 3, 100, 4, 32, 14}"
    assert writer.tables == [f"constexpr RowReduction b_rowreduction_0 = {values};"]
    assert writer.headers == {"row_reduction.h"}


@pytest.mark.parametrize("rows", [10, 4000])
def test_a_scaling_is_in_parts_if_it_moves_enough(rows: int) -> None:
    scaling = p.Scaling(
        operations=1,
        input=dense((2, rows, 8), 0).slice,
        factors=dense((2, 8), 1).slice,
        output=dense((2, rows, 8), 2).slice,
        batch=2,
        rows=rows,
        features=8,
    )
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([scaling])
    name, threads = ("scaling", "") if rows == 10 else ("scaling_in_parts", "{threads, 8}, ")
    operands = "as<const float>(a0), as<const float>(a1), as<float>(a2)"
    assert call == f"  {name}<float>({threads}b_scaling_0, {operands});"
    assert writer.tables == [f"constexpr Scaling b_scaling_0 = {{2, {rows}, 8}};"]


def _attention(queries: int) -> p.Attention:
    heads = [
        p.Heads(slice=dense((2, rows, 12), place).slice, start=0, steps=(rows * 12, 4, 12, 1))
        for place, rows in enumerate((queries, 5, 5, queries))
    ]
    query, key, value, output = heads
    return p.Attention(
        operations=2 * 6 * queries * 5 * 8,
        heads=(2, 3),
        queries=queries,
        keys=5,
        depth=4,
        features=4,
        scale=0.5,
        query=query,
        key=key.model_copy(update={"start": 3}),
        value=value,
        output=output,
    )


def test_attention_is_a_table_and_a_call() -> None:
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([_attention(7)])
    operands = "as<const float>(a0) + 0, as<const float>(a1) + 3, as<const float>(a2) + 0"
    assert call == f"  attention<float>(b_attention_0, {operands}, as<float>(a3) + 0, arena + 0);"
    few, many = "{84, 4, 12, 1}", "{60, 4, 12, 1}"
    values = f"{{2, 3, 7, 5, 4, 4, 0.5, {few}, {many}, {many}, {few}}}"
    assert writer.tables == [f"constexpr Attention b_attention_0 = {values};"]
    assert writer.headers == {"attention.h"}
    assert writer.uses == {"float": ["every_use()"]}
    assert writer.scratch.ends == ["0 + attention_scratch<float>(b_attention_0)"]
    (call,) = writer.write([_attention(7000)])
    assert call.startswith("  attention_in_parts<float>({threads, ")


def test_masks_of_attention_are_operands() -> None:
    heads = p.Heads(slice=dense((4, 16), 4).slice, start=2, steps=(16, 0, 0, 1))
    masked = _attention(7).model_copy(update={"kept": heads})
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([masked])
    assert call.endswith(", {nullptr, as<const std::int32_t>(a4) + 2});")
    assert writer.tables[0].endswith("{0, 0, 0, 0}, {16, 0, 0, 1}, -__builtin_inf()};")
    writer.write([masked.model_copy(update={"added": heads, "replacement": -2.5})])
    assert writer.tables[1].endswith("{16, 0, 0, 1}, {16, 0, 0, 1}, -2.5};")


def test_a_mask_is_a_type_and_a_call() -> None:
    tokens = MaskRead(slice=dense((4, 5), 0).slice, element_type=ElementType.INT32)
    whole, condition = ElementType.INT32, ElementType.BOOL
    operations = (
        MaskOperation(opcode="read", element_type=whole, start=3, steps=(5, 0, 0, 1)),
        MaskOperation(opcode="constant", element_type=whole, value=0),
        MaskOperation(opcode="ne", element_type=condition, operands=(0, 1)),
    )
    mask = p.Mask(
        operations=20,
        extents=(4, 1, 1, 5),
        step=16,
        code=MaskCode(reads=(tokens,), operations=operations),
        output=dense((4, 16), 1).slice,
    )
    writer = ThunkWriter(prefix="b")
    operands, call = writer.write([mask])
    ((name, text),) = writer.types.items()
    assert operands == "  { const void *const in[] = {a0};"
    assert call == f"    compute_mask<{name}>(b_maskshape_0, in, as<std::int32_t>(a1)); }}"
    assert writer.tables == ["constexpr MaskShape b_maskshape_0 = {4, 1, 1, 5, 16};"]
    assert writer.headers == {"mask.h"}
    assert "v0 = static_cast<const std::int32_t *>(in[0])[place_of({3, 5, 0, 0, 1}, p)];" in text
    assert "const bool v2 = v0 != v1;\n    return v2 ? -1 : 0;" in text


def test_a_lookup_costs_the_rows_that_it_reads() -> None:
    program = matmul_program()
    costs = [
        estimate_cost(program.model_copy(update={"thunks": (_lookup(rows),)}))
        for rows in (3, 6, 10**6)
    ]
    assert costs[0] < costs[1] == costs[2]


def _lookup(table_rows: int) -> p.Lookup:
    return p.Lookup(
        operations=0,
        table=dense((table_rows, 5), 0).slice,
        indices=dense((6,), 1).slice,
        output=dense((6, 5), 2).slice,
        count=6,
        index_type=ElementType.INT32,
        wrap=table_rows,
        rows=table_rows,
        row_bytes=20,
    )


def test_a_lookup_is_a_table_and_a_call() -> None:
    lookup = _lookup(7)
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([lookup])
    assert call == "  lookup(b_lookup_0, a0, as<const std::int32_t>(a1), a2);"
    assert writer.tables == ["constexpr Lookup b_lookup_0 = {6, 7, 20, 7};"]
    assert writer.headers == {"lookup.h"}


def test_an_embedding_bag_has_the_tables_of_its_lookup_and_its_pooling() -> None:
    lookup = _lookup(7).model_copy(update={"output": dense((6, 5), 9).slice})
    pool = pooling(
        lookup.output,
        dense((2, 5), 3).slice,
        reducer="sum",
        initial=0.0,
        batch=2,
        features=5,
        in_size=(3, 1),
        out_size=(1, 1),
        window=(3, 1),
    )
    bag = p.EmbeddingBag(operations=1, lookup=lookup, pooling=pool)
    writer = ThunkWriter(prefix="b")
    (call,) = writer.write([bag])
    assert call == (
        "  embedding_bag<float>(b_lookup_0, b_pooling_1, a0, as<const std::int32_t>(a1), "
        "as<float>(a3));"
    )
    assert writer.headers == {"embedding_bag.h"}
    program = matmul_program().model_copy(update={"thunks": (bag,)})
    assert 9 not in used_allocations(program)
    rows, indices, result = 6 * 20, lookup.indices.size, pool.output.size
    assert bytes_moved(program) == rows + indices + result


# --- lengths and ignored inputs -------------------------------------------------------------------
