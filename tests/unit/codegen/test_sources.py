"""The C++ files of a model: one for each level, and one with its tables."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from modelwheel.codegen import CompiledVariant, ModelTables, level_source, tables_source
from modelwheel.codegen.sources import quote
from modelwheel.levels import LEVELS
from modelwheel.signature import Signature, Tensor
from tests.support.programs import matmul_program

V3 = LEVELS["x86-64-v3"]


def test_the_level_file_names_every_variant() -> None:
    variants = [
        CompiledVariant(1, "b1", matmul_program(1), 10.0),
        CompiledVariant(4, "b4", matmul_program(4), 30.5),
    ]
    text = level_source(V3, variants, {"ab" * 32: 0}, states=0)
    assert "namespace modelwheel::x86_64_v3 {" in text
    assert "dot<float>(b4_dot_0, as<const float>(a0), as<const float>(a1), as<float>(a2)" in text
    assert (
        "{4, arena_bytes_b4, input_staging_b4, output_staging_b4, 30.5, run_b4, part_bytes_b4, 0.0, 0.0, reads_all_rows_b4}};"
        in text
    )
    # Each size is a constant of its own: compilers limit what one may take to compute.
    assert "constexpr std::size_t end_b4_0 = 128 + dot_scratch<float>(b4_dot_0);" in text
    assert "constexpr std::size_t arena_bytes_b4 = larger(128, end_b4_0);" in text
    assert text == level_source(V3, variants, {"ab" * 32: 0}, states=0)
    assert '#include "kernels/gemm/uses.h"' in text
    assert "constexpr GemmUses float_uses_1 = dot_uses<float>(b4_dot_0, false);" in text
    assert "constexpr GemmUses float_each[] = {float_uses_0, float_uses_1};" in text
    assert "MODELWHEEL_GEMM_CALLS(float, LinkedCalls<float, float_uses>)" in text
    assert "GEMM_CALLS(double" not in text


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
