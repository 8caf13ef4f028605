"""Emission: constants once, memory where it belongs, C++ that says what the program does."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.codegen import (
    CompiledVariant,
    ModelTables,
    estimate_cost,
    level_source,
    tables_source,
)
from modelwheel.codegen.lengths import length_tables, pad_bytes
from modelwheel.codegen.memory import ScratchPlace, plan_memory
from modelwheel.codegen.sources import quote
from modelwheel.codegen.thunks import ThunkWriter
from modelwheel.dtypes import ElementType
from modelwheel.errors import UnsupportedProgramError
from modelwheel.levels import LEVELS
from modelwheel.program import program as p
from modelwheel.program.arrays import Allocation, Array, Slice
from modelwheel.signature import Signature, Tensor
from tests.support.programs import dense, matmul_program

V3 = LEVELS["x86-64-v3"]


def test_a_result_that_fills_its_allocation_is_written_in_place() -> None:
    memory = plan_memory(matmul_program(), {"ab" * 32: 128}, random_states=0)
    assert memory.pointers == {0: "input(in[0])", 1: "constant(128)", 2: "output(out[0])"}
    assert memory.result_copies == ()
    assert (memory.input_staging, memory.output_staging) == ((0,), (64,))
    assert (memory.scratch, memory.end) == ((ScratchPlace(128),), 128)


@pytest.mark.parametrize("case", ["shared allocation", "duplicate result", "parameter", "offset"])
def test_a_result_that_lies_elsewhere_is_copied(case: str) -> None:
    program = matmul_program()
    (y,) = program.results
    results = {
        "shared allocation": (dense((1, 3), 2), dense((1, 3), 2, offset=12)),
        "duplicate result": (y, y),
        "parameter": (y, dense((2, 4), 0)),
        "offset": (dense((1, 3), 2, offset=12),),
    }[case]
    program = program.model_copy(update={"results": results})
    memory = plan_memory(program, {"ab" * 32: 0}, random_states=0)
    copied = {copy.target for copy in memory.result_copies}
    expected = {1} if case == "parameter" else set(range(len(results)))
    assert copied == {f"out[{number}]" for number in expected}


def _counting(update: Array) -> p.Program:
    """A program whose last parameter is state; `update` is its new value."""
    program = matmul_program()
    state = Allocation(index=5, size=16, kind="parameter", parameter=1)
    return program.model_copy(
        update={
            "allocations": (*program.allocations, state),
            "parameters": (*program.parameters, dense((1, 4), 5)),
            "results": (*program.results, update),
            "state": (1,),
        }
    )


def test_state_is_a_parameter_that_is_written_in_place_or_by_a_copy() -> None:
    program = _counting(dense((1, 4), 5))
    (dot,) = program.thunks
    reads = dot.model_copy(update={"lhs": dense((1, 4), 5)})
    program = program.model_copy(update={"thunks": (reads,)})
    memory = plan_memory(program, {"ab" * 32: 0}, random_states=0)
    assert memory.pointers[5] == "state(in[1])"
    assert memory.result_copies == ()
    # Neither the state nor its new value is a buffer of the caller that may need a copy.
    assert (len(memory.input_staging), len(memory.output_staging)) == (1, 1)
    program = _counting(dense((1, 4), 0))
    (copy,) = plan_memory(program, {"ab" * 32: 0}, random_states=0).result_copies
    assert (copy.target, copy.allocation, copy.size) == ("state(in[1])", 0, 16)


def test_state_that_would_be_overwritten_before_it_is_copied_is_refused() -> None:
    program = _counting(dense((1, 4), 5, offset=8))
    with pytest.raises(UnsupportedProgramError, match="memory of another part of the state"):
        plan_memory(program, {"ab" * 32: 0}, random_states=0)


def test_random_states_come_first_in_the_arena() -> None:
    memory = plan_memory(matmul_program(), {"ab" * 32: 0}, random_states=5)
    assert memory.input_staging == (128,)


def test_the_level_file_names_every_variant() -> None:
    variants = [
        CompiledVariant(1, "b1", matmul_program(1), 10.0),
        CompiledVariant(4, "b4", matmul_program(4), 30.5),
    ]
    text = level_source(V3, variants, {"ab" * 32: 0}, states=0)
    assert "namespace modelwheel::x86_64_v3 {" in text
    assert "dot<float>(b4_dot_0, as<const float>(a0), as<const float>(a1), as<float>(a2)" in text
    assert (
        "{4, arena_bytes_b4, input_staging_b4, output_staging_b4, 30.5, run_b4, part_bytes_b4, 0.0}};"
        in text
    )
    # Each size is a constant of its own: compilers limit what one may take to compute.
    assert "constexpr std::size_t end_b4_0 = 128 + dot_scratch<float>(b4_dot_0);" in text
    assert "constexpr std::size_t arena_bytes_b4 = larger(128, end_b4_0);" in text
    assert text == level_source(V3, variants, {"ab" * 32: 0}, states=0)
    assert '#include "kernels/gemm_uses.h"' in text
    assert "constexpr GemmUses float_uses_1 = dot_uses<float>(b4_dot_0, false);" in text
    assert "constexpr GemmUses float_each[] = {float_uses_0, float_uses_1};" in text
    assert "MODELWHEEL_GEMM_CALLS(float, LinkedCalls<float, float_uses>)" in text
    assert "GEMM_CALLS(double" not in text


def test_loops_and_branches_are_written_as_such() -> None:
    flag = Slice(allocation=3, offset=8, size=1)
    copy = p.Copy(operations=0, source=flag, destination=flag)
    endless = p.While(
        operations=0, trip_count=None, condition=(copy,), condition_value=flag, body=(copy,)
    )
    choice = p.Conditional(operations=0, index=flag, branches=((copy,), ()))
    lines = "\n".join(ThunkWriter("b1").write((endless, choice)))
    assert "if (*(a3 + 8) == 0) break;" in lines
    assert "switch (branch_of(a3 + 8, 1, 2)) {" in lines


def test_a_mixed_product_without_a_kernel_is_refused_by_name() -> None:
    (dot,) = matmul_program().thunks
    assert isinstance(dot, p.Dot)
    lhs = dot.lhs.model_copy(update={"element_type": ElementType.INT32})
    with pytest.raises(UnsupportedProgramError, match="int32_t by float"):
        ThunkWriter("b1").write((dot.model_copy(update={"lhs": lhs}),))


def test_larger_batches_cost_more_but_less_for_each_row() -> None:
    costs = [estimate_cost(matmul_program(batch)) for batch in (1, 16, 256)]
    assert costs == sorted(costs)
    assert costs[2] / 256 < costs[1] / 16 < costs[0]


def test_rows_cost_more_in_a_batch_that_leaves_the_cache() -> None:
    kept, left, far = (estimate_cost(matmul_program(rows)) / rows for rows in (2**14, 2**17, 2**20))
    assert kept < left < far


def test_a_batch_that_needs_much_memory_must_be_quicker_than_smaller_ones() -> None:
    def cost(temporary: int) -> float:
        program = matmul_program(64)
        (dot,) = program.thunks
        assert isinstance(dot, p.Dot)
        scratch = Slice(allocation=3, offset=0, size=64)
        kernel = p.Kernel(
            operations=0, symbol="k", arguments=(), results=(scratch,), workgroups=(1, 1, 1)
        )
        allocations = (
            a.model_copy(update={"size": temporary}) if a.index == 3 else a
            for a in program.allocations
        )
        changed = {"allocations": tuple(allocations), "thunks": (dot, kernel)}
        return estimate_cost(program.model_copy(update=changed))

    assert cost(512 << 10) == cost(64)
    assert 1.02 * cost(64) < cost(513 << 10) < 1.04 * cost(64)


def _tables(name: str = "digits", **about: object) -> str:
    signature = Signature(
        inputs=(
            Tensor(name="x/y", c_name="x_y", dtype="float32", shape=(None, 4), leading_per_row=1),
        ),
        outputs=(Tensor(name="y", c_name="y", dtype="bool", shape=(), leading_per_row=0),),
    )
    model = ModelTables(
        name=name,
        version="1.0.0",
        about=about,
        signature=signature,
        batch_sizes=(1, 4),
        no_emulation_reason=None,
        strategy="cheapest",
        rules=("5:4,1",),
    )
    return tables_source(model, [V3], states=0)


def test_the_tables_describe_tensors() -> None:
    text = _tables()
    assert '{"x/y", "x_y", MODELWHEEL_FLOAT32, 4, 2, input_0_shape, 1, 4, 16}' in text
    assert "input_0_shape[] = {-1, 4};" in text
    assert '{"y", "y", MODELWHEEL_BOOL, 1, 0, output_0_shape, 0, 1, 1}' in text
    assert 'rules[] = {"5:4,1"};' in text


def test_free_text_cannot_leave_its_string() -> None:
    hostile = 'a"; } int main() { //\\ ??/ \n \u202e </script>'
    line = next(line for line in _tables(author=hostile).splitlines() if '"1.0.0"' in line)
    assert line.count('"') == 6
    assert json.dumps(hostile) not in line


@given(st.text())
def test_quoted_text_reads_back(text: str) -> None:
    literal = quote(text)
    assert literal.isascii()
    assert "??" not in literal
    assert "\n" not in literal
    body = literal[1:-1].encode().decode("unicode_escape")
    assert body.encode("latin-1").decode() == text


# --- epilogues ------------------------------------------------------------------------------------


def _tensor_of(dtype: str, **changes: object) -> Tensor:
    fields = {"name": "x", "c_name": "x", "shape": (None, 8), "leading_per_row": 1, **changes}
    return Tensor.model_validate({**fields, "dtype": dtype})


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("float16", -1.5), ("float32", 0.1), ("float64", 0.1), ("complex64", 2.5)),
        *(("int8", -3), ("uint16", 65535), ("int64", -(2**40)), ("bool", 1)),
    ],
)
def test_pads_have_the_bytes_that_numpy_gives_them(dtype: str, value: float) -> None:
    assert pad_bytes(_tensor_of(dtype), value) == np.array(value).astype(dtype).tobytes()


def test_a_bfloat16_is_the_upper_half_of_a_float() -> None:
    assert pad_bytes(_tensor_of("bfloat16"), -1.5) == np.float32(-1.5).tobytes()[2:]


def test_the_tables_of_lengths() -> None:
    tokens = _tensor_of("int8", extents=((1, 0), (0, 1)), pad=-1)
    scale = _tensor_of("float32", shape=(), leading_per_row=0)
    out = _tensor_of("float32", shape=(None,), leading_per_row=17, extents=((1, 2),))
    signature = Signature(inputs=(tokens, scale), outputs=(out,), lengths=(4, 8))
    lines = length_tables(signature).splitlines()
    assert lines == [
        "constexpr std::size_t lengths[] = {4, 8};",
        "constexpr modelwheel_extent input_0_extents[] = {{1, 0}, {0, 1}};",
        "constexpr modelwheel_extent input_1_extents[] = {{0, 0}};",
        "constexpr const modelwheel_extent *input_extents[] = {input_0_extents, input_1_extents};",
        "constexpr modelwheel_extent output_0_extents[] = {{1, 2}};",
        "constexpr const modelwheel_extent *output_extents[] = {output_0_extents};",
        "constexpr unsigned char pad_0[] = {255};",
        "constexpr const void *pads[] = {pad_0, nullptr};",
    ]
    assert out.shape_at(3, 4) == (27,)
    assert out.shape_at(3, None) == (51,)
    assert length_tables(signature.model_copy(update={"lengths": ()})) == ""


def test_the_code_skips_inputs_that_nothing_uses() -> None:
    memory = plan_memory(matmul_program(), {"ab" * 32: 128}, 0, inputs=[False, True, False])
    assert memory.pointers[0] == "input(in[1])"
    assert memory.input_staging == ("ignored_input", 0, "ignored_input")
