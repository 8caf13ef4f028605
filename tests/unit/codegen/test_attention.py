"""Attention and its masks as C++."""

from __future__ import annotations

from modelwheel.codegen.calls import CALLS
from modelwheel.codegen.writer import StepWriter
from modelwheel.dtypes import ElementType
from modelwheel.program import ops
from modelwheel.program.expr import Expression, Operation
from modelwheel.program.steps import Step, numbered
from modelwheel.program.view import View
from tests.support.programs import dense


def _writer() -> StepWriter:
    return StepWriter(CALLS, prefix="b")


def _attention(queries: int, replacement: float | None = None, **masks: View) -> Step:
    """Two by three heads of five keys."""
    views = [
        View(
            slice=dense((2, rows, 12), number).slice,
            element_type=ElementType.FLOAT32,
            shape=(2, 3, rows, 4),
            strides=(rows * 12, 4, 12, 1),
        )
        for number, rows in enumerate((queries, 5, 5, queries))
    ]
    query, key, value, output = views
    key = key.model_copy(update={"start": 3})
    return Step(
        op=ops.Attention(scale=0.5, replacement=replacement),
        inputs={"query": query, "key": key, "value": value, **masks},
        outputs={"output": output},
        operations=2 * 6 * queries * 5 * 8,
    )


def test_attention_is_a_table_and_a_call() -> None:
    writer = _writer()
    (call,) = writer.write([_attention(7)])
    operands = "as<const float>(a0) + 0, as<const float>(a1) + 3, as<const float>(a2) + 0"
    assert call == f"  attention<float>(b_attention_0, {operands}, as<float>(a3) + 0, arena + 0);"
    few, many = "{84, 4, 12, 1}", "{60, 4, 12, 1}"
    values = f"{{2, 3, 7, 5, 4, 4, 0.5, {few}, {many}, {many}, {few}}}"
    assert writer.tables == [f"constexpr Attention b_attention_0 = {values};"]
    assert writer.headers == {"attention/attention.h"}
    assert writer.uses == {"float": ["common_uses()"]}
    assert writer.scratch.ends == ["0 + attention_scratch<float>(b_attention_0)"]
    (call,) = writer.write([_attention(7000)])
    assert call.startswith("  attention_in_parts<float>({threads, ")


def test_masks_of_attention_are_operands() -> None:
    mask = View(
        slice=dense((4, 16), 4).slice,
        element_type=ElementType.INT32,
        shape=(2, 3, 7, 5),
        strides=(16, 0, 0, 1),
        start=2,
    )
    writer = _writer()
    (call,) = writer.write([_attention(7, kept=mask)])
    assert call.endswith(", {nullptr, as<const std::int32_t>(a4) + 2});")
    assert writer.tables[0].endswith("{0, 0, 0, 0}, {16, 0, 0, 1}, -__builtin_inf()};")
    writer.write([_attention(7, -2.5, kept=mask, added=mask)])
    assert writer.tables[1].endswith("{16, 0, 0, 1}, {16, 0, 0, 1}, -2.5};")


def _mask(*operations: Operation, reads: tuple[View, ...] = ()) -> Step:
    code = Expression(operations=operations, results=(len(operations) - 1,))
    output = View(
        slice=dense((4, 16), 1).slice,
        element_type=ElementType.INT32,
        shape=(4, 1, 1, 5),
        strides=(16, 16, 16, 1),
    )
    inputs = numbered("read", reads)
    return Step(op=ops.Mask(code=code), inputs=inputs, outputs={"output": output}, operations=20)


def _tokens(start: int, *strides: int) -> View:
    return View(
        slice=dense((4, 5), 0).slice,
        element_type=ElementType.INT32,
        shape=(4, 1, 1, 5),
        strides=strides,
        start=start,
    )


def test_a_mask_is_a_type_and_a_call() -> None:
    whole, condition = ElementType.INT32, ElementType.BOOL
    mask = _mask(
        Operation(opcode="read", element_type=whole),
        Operation(opcode="constant", element_type=whole, value=0),
        Operation(opcode="ne", element_type=condition, operands=(0, 1)),
        reads=(_tokens(3, 5, 0, 0, 1),),
    )
    writer = _writer()
    operands, call = writer.write([mask])
    ((name, text),) = writer.types.items()
    assert operands == "  { const void *const in[] = {a0};"
    assert call == f"    compute_mask<{name}>(b_maskshape_0, in, as<std::int32_t>(a1)); }}"
    assert writer.tables == ["constexpr MaskShape b_maskshape_0 = {4, 1, 1, 5, 16};"]
    assert writer.headers == {"attention/mask.h"}
    assert "v0 = static_cast<const std::int32_t *>(in[0])[place_of({3, 5, 0, 0, 1}, p)];" in text
    assert "const bool v2 = v0 != v1;\n    return v2 ? -1 : 0;" in text


def test_a_mask_that_reads_memory_in_two_orders_has_it_once() -> None:
    whole, condition = ElementType.INT32, ElementType.BOOL
    mask = _mask(
        Operation(opcode="read", element_type=whole, input=0),
        Operation(opcode="read", element_type=whole, input=1),
        Operation(opcode="eq", element_type=condition, operands=(0, 1)),
        reads=(_tokens(0, 5, 0, 0, 1), _tokens(0, 5, 0, 1, 0)),
    )
    writer = _writer()
    operands, _ = writer.write([mask])
    (text,) = writer.types.values()
    assert operands == "  { const void *const in[] = {a0};"
    assert "v1 = static_cast<const std::int32_t *>(in[0])[place_of({0, 5, 0, 1, 0}, p)];" in text


def test_a_mask_of_indices_reads_nothing() -> None:
    whole, condition = ElementType.INT32, ElementType.BOOL
    mask = _mask(
        Operation(opcode="index", element_type=whole, strides=(0, 0, 0, 1)),
        Operation(opcode="index", element_type=whole, start=2, strides=(0, 0, 1, 0)),
        Operation(opcode="le", element_type=condition, operands=(0, 1)),
    )
    writer = _writer()
    operands, _ = writer.write([mask])
    (text,) = writer.types.values()
    assert operands == "  { const void *const in[] = {nullptr};"
    assert "v1 = static_cast<std::int32_t>(place_of({2, 0, 0, 1, 0}, p));" in text
