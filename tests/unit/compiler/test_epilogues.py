"""Fusions that become part of a product: only those that the kernels compute in the same order, in memory that is free."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.hlo import HloModule
from modelwheel.compiler.ir.memory import Memory
from modelwheel.compiler.passes.epilogues import Emitted, Steps
from modelwheel.compiler.passes.joining import join_epilogues
from modelwheel.program import ops
from modelwheel.program.arrays import Allocation, Slice
from tests.support.thunks import dense

FLOAT = 11
BATCH, COLUMNS = 2, 8
X, W, BIAS, OUT, RESULT, OTHER = range(6)


def _shape(*dimensions: int) -> SimpleNamespace:
    order = list(reversed(range(len(dimensions))))
    return SimpleNamespace(
        element_type=FLOAT, dimensions=dimensions, layout=SimpleNamespace(minor_to_major=order)
    )


MATRIX, VECTOR, SCALAR = _shape(BATCH, COLUMNS), _shape(COLUMNS), _shape()


class _Module:
    """An `xla.HloModuleProto` under construction: the entry computation and one fused computation."""

    def __init__(self) -> None:
        self.instructions: dict[str, SimpleNamespace] = {}

    def add(self, name: str, opcode: str, shape: Any, *operands: str, **fields: Any) -> None:
        ids = [self.instructions[operand].id for operand in operands]
        rest = {"called_computation_ids": [], "dimensions": [], "parameter_number": 0, **fields}
        self.instructions[name] = SimpleNamespace(
            id=len(self.instructions),
            name=name,
            opcode=opcode,
            shape=shape,
            operand_ids=ids,
            **rest,
        )

    def build(self, fused: list[str]) -> HloModule:
        rest = [i for name, i in self.instructions.items() if name not in fused]
        inner = [self.instructions[name] for name in fused]
        computations = [
            SimpleNamespace(id=0, instructions=rest, root_id=rest[-1].id),
            SimpleNamespace(id=1, instructions=inner, root_id=inner[-1].id),
        ]
        return HloModule(SimpleNamespace(computations=computations, entry_computation_id=0))


def _joined(
    steps: list[tuple[str, str]],
    *,
    used_twice: bool = False,
    between: tuple[p.Thunk, ...] = (),
    result: Slice | None = None,
    addend: Slice | None = None,
    before: p.Epilogue | None = None,
    first: tuple[p.Thunk, ...] = (),
    memory: Memory | None = None,
) -> tuple[p.Thunk, ...]:
    """The thunks of `x @ w` and a fusion of it: `steps` are opcodes with `bias`, `addend` or `zero`."""
    module = _Module()
    module.add("p0", "parameter", MATRIX)
    module.add("p1", "parameter", VECTOR, parameter_number=1)
    module.add("p2", "parameter", MATRIX, parameter_number=2)
    module.add("zero.1", "constant", SCALAR, literal=SimpleNamespace(f32s=[0.0]))
    module.add("zero", "broadcast", MATRIX, "zero.1")
    module.add("bias", "broadcast", MATRIX, "p1", dimensions=[1])
    last = "p0"
    for number, (opcode, other) in enumerate(steps):
        module.add(f"s{number}", opcode, MATRIX, last, "p2" if other == "addend" else other)
        last = f"s{number}"
    return _join(
        module,
        dense((COLUMNS,), BIAS).slice,
        addend or dense((BATCH, COLUMNS), OTHER).slice,
        used_twice=used_twice,
        between=between,
        result=result,
        before=before,
        first=first,
        memory=memory,
    )


def _join(
    module: _Module,
    *operands: Slice,
    used_twice: bool = False,
    between: tuple[p.Thunk, ...] = (),
    result: Slice | None = None,
    before: p.Epilogue | None = None,
    first: tuple[p.Thunk, ...] = (),
    memory: Memory | None = None,
) -> tuple[p.Thunk, ...]:
    """The thunks of `x @ w`, with the epilogue `before`, and a fusion of it and others, whose instructions the module has.

    Others run `first`, or `between` the two.
    """
    fused = list(module.instructions)
    module.add("dot", "dot", MATRIX)
    module.add("vector", "parameter", VECTOR)
    module.add("array", "parameter", MATRIX)
    fields = {"called_computation_ids": [1]}
    read = ["dot", "vector", "array"][: 1 + len(operands)]
    module.add("fusion", "fusion", MATRIX, *read, **fields)
    module.add("root", "tuple", SCALAR, "fusion", *(["dot"] if used_twice else []))
    x, w = dense((BATCH, 4), X), dense((4, COLUMNS), W)
    out = dense((BATCH, COLUMNS), OUT)
    dot = p.Dot(
        operations=1,
        lhs=x,
        rhs=w,
        out=out,
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(1,),
        rhs_contracting=(0,),
        epilogue=before,
    )
    target = result or dense((BATCH, COLUMNS), RESULT).slice
    kernel = p.Kernel(
        operations=1,
        symbol="fusion",
        workgroups=(1, 1, 1),
        arguments=(before.result if before else out.slice, *operands),
        results=(target,),
    )
    others = [[Emitted(thunk, "other") for thunk in thunks] for thunks in (first, between)]
    emitted = [*others[0], Emitted(dot, "dot"), *others[1], Emitted(kernel, "fusion")]
    if memory is not None:
        steps = Steps(module.build(fused), emitted, memory)
        steps.join(emitted[-1])
        return tuple(one.thunk for one in steps.all)
    joined = join_epilogues(module.build(fused), emitted)
    return tuple(one.thunk for one in joined)


BIAS_RELU = [("add", "bias"), ("maximum", "zero")]


def _epilogue(thunks: tuple[p.Thunk, ...]) -> p.Epilogue:
    (dot,) = thunks
    assert isinstance(dot, p.Dot)
    assert dot.epilogue is not None
    assert dot.operations == 2
    return dot.epilogue


def test_bias_and_clamp_become_part_of_the_product() -> None:
    found = _epilogue(_joined(BIAS_RELU))
    assert found == p.Epilogue(
        result=dense((BATCH, COLUMNS), RESULT).slice,
        shift=dense((COLUMNS,), BIAS).slice,
        low=0.0,
    )


def test_parts_are_known_by_their_order() -> None:
    found = _epilogue(
        _joined([("add", "bias"), ("multiply", "bias"), ("add", "bias"), ("add", "addend")])
    )
    assert found.bias == found.scale == found.shift == dense((COLUMNS,), BIAS).slice
    assert found.addend == dense((BATCH, COLUMNS), OTHER).slice


@pytest.mark.parametrize(
    "steps",
    [
        [("maximum", "zero"), ("add", "bias")],
        [("add", "addend"), ("multiply", "bias")],
        [("subtract", "bias")],
        [("add", "p0")],
        [("multiply", "zero")],
        [("add", "bias"), ("add", "bias")],
    ],
)
def test_anything_else_stays_a_kernel(steps: list[tuple[str, str]]) -> None:
    assert len(_joined(steps)) == 2


@pytest.mark.parametrize("apart", [False, True])
def test_what_a_product_adds_already_is_followed_by_more(apart: bool) -> None:
    place = dense((BATCH, COLUMNS), OTHER if apart else OUT).slice
    bias = dense((COLUMNS,), BIAS).slice
    found = _epilogue(_joined([("maximum", "zero")], before=p.Epilogue(result=place, bias=bias)))
    assert found == p.Epilogue(result=dense((BATCH, COLUMNS), RESULT).slice, bias=bias, low=0.0)


def test_what_is_applied_before_that_stays_a_kernel() -> None:
    addend = dense((BATCH, COLUMNS), OTHER).slice
    before = p.Epilogue(result=dense((BATCH, COLUMNS), OUT).slice, addend=addend)
    assert len(_joined([("add", "bias")], before=before)) == 2


def test_a_product_that_something_else_reads_keeps_its_result() -> None:
    assert len(_joined(BIAS_RELU, used_twice=True)) == 2


def test_an_addend_may_be_the_result_but_not_a_part_of_it() -> None:
    steps = [("add", "addend")]
    whole = dense((BATCH, COLUMNS), RESULT).slice
    assert _epilogue(_joined(steps, addend=whole)).addend == whole
    moved = whole.model_copy(update={"offset": 32})
    assert len(_joined(steps, addend=moved)) == 2
    assert len(_joined(BIAS_RELU, result=dense((BATCH, COLUMNS), OUT, offset=4).slice)) == 2


def _vector_product(*, opcode: str = "tanh", used_twice: bool = False) -> tuple[p.Thunk, ...]:
    """The thunks of `x @ w` and of a fusion that multiplies a function of it by a vector."""
    module = _Module()
    module.add("p0", "parameter", MATRIX)
    module.add("p1", "parameter", VECTOR, parameter_number=1)
    module.add("values", opcode, MATRIX, "p0")
    numbers = SimpleNamespace(
        lhs_batch_dimensions=[],
        rhs_batch_dimensions=[],
        lhs_contracting_dimensions=[1],
        rhs_contracting_dimensions=[0],
    )
    module.add("product", "dot", _shape(BATCH), "values", "p1", dot_dimension_numbers=numbers)
    return _join(
        module,
        dense((COLUMNS,), OTHER).slice,
        used_twice=used_twice,
        result=dense((BATCH,), RESULT).slice,
    )


def test_what_a_product_with_a_vector_computes_first_becomes_part_of_the_product_before_it() -> (
    None
):
    first, second = _vector_product()
    assert isinstance(first, p.Dot)
    assert isinstance(second, p.Dot)
    assert first.epilogue == p.Epilogue(result=first.out.slice, activation="tanh")
    assert second.lhs == first.out
    assert (second.rhs, second.out) == (dense((COLUMNS,), OTHER), dense((BATCH,), RESULT))
    assert second.epilogue is None


def test_a_product_of_other_values_stays_a_kernel() -> None:
    assert isinstance(_vector_product(opcode="erf")[1], p.Kernel)
    assert isinstance(_vector_product(used_twice=True)[1], p.Kernel)


def _kernel(reads: int, writes: int) -> p.Kernel:
    return p.Kernel(
        operations=0,
        symbol="other",
        workgroups=(1, 1, 1),
        arguments=(dense((BATCH, COLUMNS), reads).slice,),
        results=(dense((BATCH, COLUMNS), writes).slice,),
    )


@pytest.mark.parametrize(
    ("reads", "writes", "position"),
    [
        (6, 7, 0),  # has nothing to do with both
        (6, BIAS, 1),  # makes what the fusion reads: the product waits
        (RESULT, 7, 1),  # reads what the fusion overwrites: the product waits
        (RESULT, X, None),  # overwrites what the product reads, too
    ],
)
def test_kernels_in_between_keep_their_place(reads: int, writes: int, position: int | None) -> None:
    thunks = _joined(BIAS_RELU, between=(_kernel(reads, writes),))
    joined = [n for n, t in enumerate(thunks) if isinstance(t, p.Dot) and t.epilogue is not None]
    assert joined == ([] if position is None else [position])
    assert len(thunks) == (3 if position is None else 2)


def test_a_product_may_wait_if_its_operands_can_move() -> None:
    x = dense((BATCH, 4), X).slice
    makes_x = _kernel(6, 7).model_copy(update={"results": (x,)})
    spoils_both = _kernel(RESULT, X)

    def joined(**options: Any) -> tuple[tuple[p.Thunk, ...], Memory]:
        allocations = [Allocation(index=i, size=64, kind="temporary") for i in range(8)]
        memory = Memory(allocations, options.pop("results", ()))
        return _joined(BIAS_RELU, between=(spoils_both,), memory=memory, **options), memory

    (first, between, dot), memory = joined(first=(makes_x,))
    assert isinstance(first, p.Kernel)
    assert isinstance(dot, p.Dot)
    assert dot.epilogue is not None
    assert between == spoils_both
    assert first.results == (dot.lhs.slice,)
    assert memory.is_own(dot.lhs.slice)
    # What comes from elsewhere, was written in parts, or is read in the end stays where it is.
    in_parts = makes_x.model_copy(update={"results": (x.model_copy(update={"size": 16}),)})
    for options in ({}, {"first": (in_parts,)}, {"first": (makes_x,), "results": [x]}):
        assert all(getattr(thunk, "epilogue", None) is None for thunk in joined(**options)[0])


def _activated(define: Callable[[_Module], None]) -> ops.Activation | None:
    """The activation of the product plus bias that a fusion has; `define` adds its instructions, of `x`."""
    module = _Module()
    module.add("p0", "parameter", MATRIX)
    module.add("p1", "parameter", VECTOR, parameter_number=1)
    for name, value in (("one", 1.0), ("half", 0.5), ("sqrt", 0.5**0.5)):
        module.add(f"{name}.1", "constant", SCALAR, literal=SimpleNamespace(f32s=[value]))
        module.add(name, "broadcast", MATRIX, f"{name}.1")
    module.add("bias", "broadcast", MATRIX, "p1", dimensions=[1])
    module.add("x", "add", MATRIX, "p0", "bias")
    define(module)
    (*_, after) = thunks = _join(module, dense((COLUMNS,), BIAS).slice)
    assert isinstance(after, p.Dot | p.Kernel)
    if isinstance(after, p.Kernel):
        return None
    assert len(thunks) == 1
    assert after.epilogue is not None
    assert after.epilogue.shift == dense((COLUMNS,), BIAS).slice
    return after.epilogue.activation


def _sigmoid(module: _Module, exponent: str = "x") -> None:
    module.add("minus", "negate", MATRIX, exponent)
    module.add("power", "exponential", MATRIX, "minus")
    module.add("sum", "add", MATRIX, "power", "one")
    module.add("sigmoid", "divide", MATRIX, "one", "sum")


def _silu(module: _Module) -> None:
    _sigmoid(module)
    module.add("silu", "multiply", MATRIX, "sigmoid", "x")


def _gelu(module: _Module, factor: str = "sqrt") -> None:
    module.add("halved", "multiply", MATRIX, "half", "x")
    module.add("inner", "multiply", MATRIX, "x", factor)
    module.add("erf", "erf", MATRIX, "inner")
    module.add("sum", "add", MATRIX, "one", "erf")
    module.add("gelu", "multiply", MATRIX, "sum", "halved")


def test_activations_are_known_by_their_definition() -> None:
    assert _activated(lambda m: m.add("tanh", "tanh", MATRIX, "x")) == "tanh"
    assert _activated(_sigmoid) == "sigmoid"
    assert _activated(_silu) == "silu"
    assert _activated(_gelu) == "gelu"


def _hard_swish(module: _Module, six: float = 6.0) -> None:
    for name, value in (("three", 3.0), ("six", six), ("zero", 0.0), ("sixth", 1 / 6)):
        module.add(f"{name}.1", "constant", SCALAR, literal=SimpleNamespace(f32s=[value]))
        module.add(name, "broadcast", MATRIX, f"{name}.1")
    module.add("raised", "add", MATRIX, "x", "three")
    module.add("limited", "clamp", MATRIX, "zero", "raised", "six")
    module.add("gated", "multiply", MATRIX, "x", "limited")


def test_hard_swish_is_known_with_and_without_its_factor() -> None:
    assert _activated(_hard_swish) == "hard_swish_6"

    def whole(module: _Module) -> None:
        _hard_swish(module)
        module.add("hard_swish", "multiply", MATRIX, "gated", "sixth")

    assert _activated(whole) == "hard_swish"
    assert _activated(lambda m: _hard_swish(m, six=5.0)) is None


def test_what_only_looks_like_an_activation_stays_a_kernel() -> None:
    assert _activated(lambda m: m.add("erf", "erf", MATRIX, "x")) is None
    assert _activated(lambda m: _gelu(m, factor="half")) is None
    assert _activated(lambda m: _sigmoid(m, exponent="one")) is None

    def of_two_arguments(module: _Module) -> None:
        _sigmoid(module, exponent="p0")
        module.add("product", "multiply", MATRIX, "sigmoid", "x")

    assert _activated(of_two_arguments) is None
