"""XLA's text of modules: what it says is read, and what was read is written so that it can be read again."""

from __future__ import annotations

import math

import pytest

from modelwheel.compiler.ir.hlo import (
    ConvolutionNumbers,
    DotNumbers,
    GatherNumbers,
    Instruction,
    Module,
    PadAxis,
    Shape,
    SliceAxis,
    WindowAxis,
)
from modelwheel.compiler.ir.hlo_text import instruction_text, read_text, shape_text, write_text
from modelwheel.errors import UnsupportedProgramError

PRINTED = """HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[2,8]{1,0})->(f32[2,8]{1,0})}

FileNames
1 "model.py"

%fused_computation (param_0.2: f32[2,8]) -> f32[2,8] {
  %param_0.2 = f32[2,8]{1,0} parameter(0)
  %Relu.2 = f32[] constant(0), metadata={op_type="Relu" op_name="model/\\"act\\"/Relu" source_line=10}
  %Relu.1 = f32[2,8]{1,0} broadcast(f32[] %Relu.2), dimensions={}, metadata={op_type="Relu" op_name="m{x}, y=1"}
  ROOT %Relu.0 = f32[2,8]{1,0} maximum(%param_0.2, /*index=1*/%Relu.1)
}

ENTRY %main.1 (arg0.1: f32[2,8]) -> (f32[2,8], s32[]) {
  %arg0.1 = f32[2,8]{1,0} parameter(0), parameter_replication={false}
  %zero = s32[] constant(7)
  %relu_fusion = f32[2,8]{1,0} fusion(%arg0.1), kind=kLoop, calls=%fused_computation, backend_config={"a":{"b":["1, 2"]}}
  ROOT %results = (f32[2,8]{1,0}, /*index=1*/s32[]) tuple(%relu_fusion, %zero)
}
"""
"""As XLA prints a module."""


def _instruction(line: str, *operands: str) -> Instruction:
    """An instruction of a computation that has some others before."""
    before = "\n".join((*operands, f"ROOT {line}"))
    computations = "add {\n  a = f32[] parameter(0)\n}\nbody {\n  b = s32[] parameter(0)\n}"
    return read_text(f"{computations}\nENTRY main {{\n{before}\n}}").entry.root


X = "x = f32[4,4] parameter(0)"


def test_a_printed_module_is_read() -> None:
    module = read_text(PRINTED)
    assert module.name == "jit_f"
    assert [c.name for c in module.computations] == ["fused_computation", "main.1"]
    assert module.entry.name == "main.1"
    arg, zero, fusion, results = module.entry.instructions
    assert module.entry.root is results
    assert (arg.opcode, arg.shape) == ("parameter", Shape("f32", (2, 8), (1, 0)))
    assert zero.value == 7
    assert fusion.operands == (arg,)
    assert fusion.called_root.opcode == "maximum"
    assert fusion.called_root.operands[1].operands[0].value == 0.0
    assert fusion.called_root.operands[1].op_name == "m{x}, y=1"
    named = module.instruction("Relu.2")
    assert named is not None
    assert named.op_name == 'model/"act"/Relu'
    assert results.shape.tuple_shapes == (arg.shape, zero.shape)


def test_what_was_read_is_written_and_read_again() -> None:
    text = write_text(read_text(PRINTED))
    assert write_text(read_text(text)) == text
    assert "ROOT %Relu.0 = f32[2,8]{1,0} maximum(%param_0.2, %Relu.1)" in text


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("f32[]", Shape("f32")),
        ("f32[2,3]{0,1}", Shape("f32", (2, 3), (0, 1))),
        ("bf16[2,3]{1,0:T(8,128)S(1)}", Shape("bf16", (2, 3), (1, 0))),
        ("s32[<=4]{0}", Shape("s32", (4,), (0,))),
        ("token[]", Shape("token")),
        ("(pred[], (f32[2]{0}))", Shape("tuple", tuple_shapes=(
            Shape("pred"), Shape("tuple", tuple_shapes=(Shape("f32", (2,), (0,)),))
        ))),
    ],
)  # fmt: skip
def test_shapes_are_read(text: str, shape: Shape) -> None:
    assert _instruction(f"x = {text} parameter(0)").shape == shape
    assert _instruction(f"x = {shape_text(shape)} parameter(0)").shape == shape


def test_a_shape_without_a_layout_is_row_major() -> None:
    assert _instruction("x = f32[2,3,4] parameter(0)").shape.minor_to_major == (2, 1, 0)


@pytest.mark.parametrize(
    ("constant", "value"),
    [
        ("f32[] constant(0.1)", 0.10000000149011612),
        ("f32[1,1]{1,0} constant({ {-inf} })", -math.inf),
        ("f64[] constant(0.1)", 0.1),
        ("pred[] constant(true)", True),
        ("pred[] constant(false)", False),
        ("s64[1]{0} constant({-3})", -3),
        ("c64[] constant((1, -2))", 1 - 2j),
        ("f32[2]{0} constant({1, 2})", None),
        ("f32[500]{0} constant({...})", None),
    ],
)
def test_the_value_of_a_constant_is_read(constant: str, value: object) -> None:
    found = _instruction(f"c = {constant}")
    assert found.value == value
    assert type(found.value) is type(value)
    assert _instruction(instruction_text(found)).value == value


ATTRIBUTES = [
    ("f32[4,2]{1,0} slice(x), slice={[0:4], [0:4:2]}", {"slices": (SliceAxis(0, 4), SliceAxis(0, 4, 2))}),
    ("f32[7,4]{1,0} pad(x, x), padding=1_2_0x-1_1_3", {"padding": (PadAxis(1, 2), PadAxis(-1, 1, 3))}),
    (
        "f32[4,2]{1,0} reduce-window(x, x), window={size=1x3 stride=1x2 pad=0_0x1_2}, to_apply=%add",
        {"window": (WindowAxis(1), WindowAxis(3, stride=2, pad_low=1, pad_high=2))},
    ),
    (
        ("f32[4,4]{1,0} convolution(x, x), window={size=3 lhs_dilate=2 rhs_dilate=3 rhs_reversal=1}, "
        "dim_labels=b0f_io0->bf0, feature_group_count=2, batch_group_count=4"),
        {
            "window": (WindowAxis(3, base_dilation=2, window_dilation=3, reversed=True),),
            "convolution": ConvolutionNumbers(0, 2, (1,), 0, 1, (2,), 0, 1, (2,)),
            "feature_groups": 2,
            "batch_groups": 4,
        },
    ),
    (
        "f32[4,4]{1,0} dot(x, x), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={1}, rhs_contracting_dims={0}",
        {"dot": DotNumbers((0,), (1,), (1,), (0,))},
    ),
    (
        ("f32[4,4]{1,0} gather(x, x), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "operand_batching_dims={2}, start_indices_batching_dims={3}, index_vector_dim=1, slice_sizes={1,4}"),
        {"gather": GatherNumbers((1,), (0,), (0,), (2,), (3,), 1), "slice_sizes": (1, 4)},
    ),
    ("f32[4,4]{0,1} transpose(x), dimensions={1,0}", {"dimensions": (1, 0)}),
    ("s32[4,4]{1,0} iota(), iota_dimension=1", {"dimensions": (1,)}),
    ("f32[4,4]{1,0} get-tuple-element(x), index=3", {"tuple_index": 3}),
    ("pred[4,4]{1,0} compare(x, x), direction=LT", {"direction": "LT", "comparison": "FLOAT"}),
    (
        "pred[4,4]{1,0} compare(x, x), direction=LT, type=TOTALORDER",
        {"direction": "LT", "comparison": "TOTALORDER"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("line", "fields"), ATTRIBUTES)
def test_attributes_are_read_and_written(line: str, fields: dict[str, object]) -> None:
    found = _instruction(f"y = {line}", X)
    assert {name: getattr(found, name) for name in fields} == fields
    again = _instruction(instruction_text(found), X)
    assert {name: getattr(again, name) for name in fields} == fields


def test_integers_are_compared_by_their_signs() -> None:
    for primitive, order in (("s32", "SIGNED"), ("u8", "UNSIGNED"), ("pred", "UNSIGNED")):
        x = f"x = {primitive}[4] parameter(0)"
        assert _instruction("y = pred[4] compare(x, x), direction=EQ", x).comparison == order


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("f32[] while(x), condition=%add, body=%body", ["body", "add"]),
        ("f32[] conditional(x, x), branch_computations={%add, %body}", ["add", "body"]),
        ("f32[] reduce(x, x), dimensions={0}, to_apply=%add", ["add"]),
        ("f32[] select-and-scatter(x, x, x), select=%body, scatter=%add", ["body", "add"]),
        ("f32[] custom-call(x), called_computations={%add, %body}", ["add", "body"]),
    ],
)
def test_called_computations_have_an_order(line: str, names: list[str]) -> None:
    found = _instruction(f"y = {line}", X)
    assert [computation.name for computation in found.called] == names
    assert [c.name for c in _instruction(instruction_text(found), X).called] == names


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("HloModule empty", "no computation"),
        ("ENTRY main {\n  x = f32[] parameter(0)", "'main' has no end"),
        ("ENTRY main {\n}", "'main' has no instruction"),
        ("ENTRY main {\n  what is this\n}", "'what is this' is not an instruction"),
        ("ENTRY main {\n  x = f32[] negate(y)\n}", "operand 'y' of 'x' is not known"),
        ("ENTRY main {\n  x = f32[] call(), to_apply=%f\n}", "computation 'f' is not known"),
        ("ENTRY main {\n  x = f32[] parameter(0\n}", "not closed"),
        ("ENTRY main {\n  x = f32[]\n}", "'x' has no operation"),
        ("ENTRY main {\n  x = 7 parameter(0)\n}", "does not begin with a shape"),
    ],
)
def test_what_is_no_module_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UnsupportedProgramError, match=problem):
        read_text(text)


# --- users ----------------------------------------------------------------------------------------


def _module(results: str) -> Module:
    return read_text(f"""
        ENTRY main {{
          x = f32[2,3] parameter(0)
          flat = f32[6] bitcast(x)
          y = f32[6] negate(flat)
          z = f32[2,3] add(x, x)
          ROOT results = (f32[6]) tuple({results})
        }}
    """)


def test_the_users_of_a_value_are_known() -> None:
    module = _module("y, z")
    x, flat, y, z, results = module.entry.instructions
    assert module.users(x) == (flat, z)
    assert module.uses(x) == [(y, 0), (z, 0), (z, 1)]
    assert module.uses(flat) == [(y, 0)]
    assert module.uses(results) is None
    assert module.instruction("z") is z
    assert module.instruction("other") is None
