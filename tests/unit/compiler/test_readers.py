"""Values that several steps read: computed once, and in memory for as long as anybody needs them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.memory import Memory
from modelwheel.compiler.ir.thunk_walk import slices, written
from modelwheel.compiler.passes.epilogues import Emitted
from modelwheel.compiler.passes.joining import join_epilogues
from modelwheel.dtypes import ElementType
from modelwheel.program.arrays import AllocationKind
from tests.support.modules import Steps, shape
from tests.support.thunks import pooling

MATRIX, VECTOR, SCALAR = shape(4, 4), shape(4), shape()


def _relu_of_sum(steps: Steps, within: str, product: str, bias: str, residual: str) -> str:
    """relu(product + bias + residual), of instructions of a computation."""
    steps.add(f"{product}.b", "broadcast", MATRIX, bias, within=within, dimensions=[1])
    steps.add(f"{product}.1", "add", MATRIX, product, f"{product}.b", within=within)
    steps.add(f"{product}.2", "add", MATRIX, residual, f"{product}.1", within=within)
    if (within, "zero") not in steps._names:
        zero = {"literal": type("L", (), {"f32s": [0.0]})}
        steps.add("zero.1", "constant", SCALAR, within=within, **zero)
        steps.add("zero", "broadcast", MATRIX, "zero.1", within=within)
    return steps.add(f"{product}.3", "maximum", MATRIX, f"{product}.2", "zero", within=within)


def _parameters(steps: Steps, within: str, **shapes: Any) -> None:
    for number, (name, of) in enumerate(shapes.items()):
        steps.add(name, "parameter", of, within=within, parameter_number=number)


def _residual(*, second: str = "f2", changed: bool = False) -> Steps:
    """Two blocks with a residual each: XLA computes the first sum again in the second fusion, whose result is at `second`."""
    steps = Steps()
    steps.given("x", MATRIX)
    steps.given("bias", VECTOR)
    steps.given("other", VECTOR)
    steps.product("v1", MATRIX, "x")
    _parameters(steps, "f1", v=MATRIX, bias=VECTOR, x=MATRIX)
    _relu_of_sum(steps, "f1", "v", "bias", "x")
    steps.fusion("f1", MATRIX, "v1", "bias", "x")
    steps.product("v2", MATRIX, "f1")
    first = "other" if changed else "bias"
    _parameters(steps, "f2", v=MATRIX, bias=VECTOR, x=MATRIX, w=MATRIX, other=VECTOR)
    sums = _relu_of_sum(steps, "f2", "v", first, "x")
    _relu_of_sum(steps, "f2", "w", "other", sums)
    steps.fusion("f2", MATRIX, "v1", "bias", "x", "v2", "other", result=second)
    steps.product("y", MATRIX, "f2")
    steps.add("root", "tuple", SCALAR, "y")
    return steps


def _joined(steps: Steps) -> tuple[list[Emitted], Memory]:
    memory = Memory(steps.kinds())
    return join_epilogues(steps.build(), steps.emitted, memory), memory


def test_a_finished_value_is_taken_from_memory() -> None:
    steps = _residual()
    joined, _ = _joined(steps)
    v1, v2, _ = (one.thunk for one in joined)
    assert isinstance(v1, p.Dot)
    assert isinstance(v2, p.Dot)
    assert v1.epilogue is not None
    assert v2.epilogue is not None
    assert v1.epilogue.result == v2.lhs.slice == v2.epilogue.addend == steps.place("f1")
    assert v1.epilogue.addend == steps.place("x")
    assert v2.epilogue.result == steps.place("f2")
    assert joined[0].is_kept
    assert not joined[1].is_kept


def test_a_value_moves_if_its_memory_is_used_again() -> None:
    steps = _residual(second="f1")
    joined, memory = _joined(steps)
    v1, v2, y = (one.thunk for one in joined)
    assert isinstance(v1, p.Dot)
    assert isinstance(v2, p.Dot)
    assert v1.epilogue is not None
    assert v2.epilogue is not None
    assert isinstance(y, p.Dot)
    moved = v1.epilogue.result
    assert memory.is_own(moved)
    assert moved == v2.lhs.slice == v2.epilogue.addend
    assert v2.epilogue.result == y.lhs.slice == steps.place("f1")


def test_a_value_that_differs_is_computed_again() -> None:
    joined, _ = _joined(_residual(changed=True))
    assert [one.thunk.kind for one in joined] == ["dot", "kernel", "dot", "kernel", "dot"]


def test_values_of_loops_do_not_move() -> None:
    steps = _residual()
    joined = join_epilogues(steps.build(), steps.emitted)
    assert [one.thunk.kind for one in joined] == ["dot", "kernel", "dot", "kernel", "dot"]


def test_two_products_in_one_fusion_have_an_epilogue_each() -> None:
    steps = Steps()
    steps.given("x", MATRIX)
    steps.given("bias", VECTOR)
    steps.product("v", MATRIX, "x")
    steps.product("w", MATRIX, "x")
    _parameters(steps, "f", v=MATRIX, w=MATRIX, bias=VECTOR)
    steps.add("b", "broadcast", MATRIX, "bias", within="f", dimensions=[1])
    steps.add("v.1", "multiply", MATRIX, "v", "b", within="f")
    steps.add("w.1", "add", MATRIX, "w", "b", within="f")
    steps.add("sum", "add", MATRIX, "v.1", "w.1", within="f")
    steps.fusion("f", MATRIX, "v", "w", "bias")
    steps.add("root", "tuple", SCALAR, "f")
    v, w = (one.thunk for one in _joined(steps)[0])
    assert isinstance(v, p.Dot)
    assert isinstance(w, p.Dot)
    assert v.epilogue == p.Epilogue(result=steps.place("v"), scale=steps.place("bias"))
    assert w.epilogue == p.Epilogue(
        result=steps.place("f"), shift=steps.place("bias"), addend=steps.place("v")
    )


def _mean_of_sums() -> Steps:
    """The mean of the images v + x, which no other step computes."""
    images, features = shape(2, 3, 4, 8), shape(2, 8)
    steps = Steps()
    steps.given("x", images)
    steps.product("v", images, "x")
    _parameters(steps, "f", v=images, x=images)
    steps.add("sum", "add", images, "v", "x", within="f")
    zero = {"literal": SimpleNamespace(f32s=[0.0])}
    steps.add("zero", "constant", SCALAR, within="f", **zero)
    for name in ("a", "b"):
        steps.add(name, "parameter", SCALAR, within="r", parameter_number=int(name == "b"))
    steps.add("total", "add", SCALAR, "a", "b", within="r")
    steps.add("mean", "reduce", features, "sum", "zero", within="f", dimensions=[1, 2], calls="r")
    steps.fusion("f", features, "v", "x")
    steps.add("root", "tuple", SCALAR, "f")
    return steps


def test_a_product_finishes_what_a_mean_is_of() -> None:
    steps = _mean_of_sums()
    joined, _ = _joined(steps)
    v, mean = (one.thunk for one in joined)
    assert isinstance(v, p.Dot)
    assert isinstance(mean, p.Pooling)
    assert v.epilogue == p.Epilogue(result=steps.place("v"), addend=steps.place("x"))
    assert (mean.input, mean.output) == (steps.place("v"), steps.place("f"))
    assert (mean.batch, mean.features, mean.in_size, mean.out_size) == (2, 8, (3, 4), (1, 1))


# --- concatenations -------------------------------------------------------------------------------

WHOLE = shape(4, 8)


def _concatenated(pooled: bool = False, read: str | None = "f") -> Steps:
    """relu(v) beside relu(w) in wider rows, and relu(w) for another reader, too."""
    steps = Steps()
    steps.given("x", MATRIX)
    zero = {"literal": type("L", (), {"f32s": [0.0]})}
    steps.product("w", MATRIX, "x")
    for within, operands in (("g", ("w",)), ("f", ("v", "w"))):
        _parameters(steps, within, **dict.fromkeys(operands, MATRIX))
        steps.add("zero.1", "constant", SCALAR, within=within, **zero)
        steps.add("zero", "broadcast", MATRIX, "zero.1", within=within)
        for name in operands:
            steps.add(f"{name}.1", "maximum", MATRIX, name, "zero", within=within)
    steps.add("whole", "concatenate", WHOLE, "v.1", "w.1", within="f", dimensions=[1])
    steps.fusion("g", MATRIX, "w")
    if pooled:
        steps.add("pool", "fusion", MATRIX, "g", calls="g")
        steps.emitted.append(Emitted(_pooling(steps), "pool"))
        steps.product("v", MATRIX, "pool")
    else:
        steps.product("v", MATRIX, "g")
    steps.fusion("f", WHOLE, "v", "w")
    steps.add("y", "fusion", WHOLE, read or "x", calls="g")
    steps.kernel("y", (read or "x",), steps.place("y"))
    steps.add("root", "tuple", SCALAR, "y")
    return steps


def _pooling(steps: Steps, source: str = "g") -> p.Pooling:
    return pooling(steps.place(source), steps.place("pool"))


def test_products_write_pieces_of_a_concatenation() -> None:
    steps = _concatenated()
    joined, memory = _joined(steps)
    w, v, copy, y = (one.thunk for one in joined)
    assert isinstance(w, p.Dot)
    assert isinstance(v, p.Dot)
    assert isinstance(copy, p.CopyRows)
    assert isinstance(y, p.Kernel)
    (whole,) = y.arguments
    assert memory.is_own(whole)
    assert v.epilogue is not None
    assert v.out.slice == v.epilogue.result == whole.model_copy(update={"size": 112})
    assert v.out.strides == (8, 1)
    assert v.epilogue.low == 0.0
    assert (copy.rows, copy.columns, copy.step) == (4, 4, 8)
    assert copy.source == steps.place("g")
    assert copy.destination == whole.model_copy(update={"offset": 16, "size": 112})
    assert w.epilogue is not None
    assert w.epilogue.result == steps.place("g")


def test_what_only_poolings_read_too_is_written_at_once() -> None:
    joined, _ = _joined(_concatenated(pooled=True))
    w, pool, v, y = (one.thunk for one in joined)
    assert isinstance(w, p.Dot)
    assert isinstance(pool, p.Pooling)
    assert isinstance(v, p.Dot)
    assert isinstance(y, p.Kernel)
    assert w.out.strides == v.out.strides == (8, 1)
    assert (
        w.out.slice == pool.input == y.arguments[0].model_copy(update={"offset": 16, "size": 112})
    )
    assert pool.in_step == 8


def _scaled(*, pooled_twice: bool = False, spoiled: bool = False) -> Steps:
    """A pooling of what a kernel multiplies by a half."""
    steps = Steps()
    steps.given("x", MATRIX)
    steps.add("s", "copy", MATRIX, "x")
    steps.kernel("s", ("x",), steps.place("s"))
    _parameters(steps, "g", v=MATRIX)
    half = {"literal": type("L", (), {"f32s": [0.5]})}
    steps.add("half.1", "constant", SCALAR, within="g", **half)
    steps.add("half", "broadcast", MATRIX, "half.1", within="g")
    steps.add("scaled", "multiply", MATRIX, "half", "v", within="g")
    steps.fusion("g", MATRIX, "s")
    if spoiled:
        steps.add("other", "copy", MATRIX, "x")
        steps.kernel("other", ("x",), steps.place("s"))
    steps.add("pool", "fusion", MATRIX, "g", calls="g")
    pool = _pooling(steps).model_copy(update={"reducer": "sum", "initial": 0.0})
    steps.emitted.append(Emitted(pool, "pool"))
    steps.add("root", "tuple", SCALAR, "pool", *(["g"] if pooled_twice else []))
    return steps


def test_a_pooling_multiplies_what_it_adds_up() -> None:
    steps = _scaled()
    _, pool = (one.thunk for one in _joined(steps)[0])
    assert isinstance(pool, p.Pooling)
    assert (pool.input, pool.in_factor) == (steps.place("s"), 0.5)


@pytest.mark.parametrize("changes", [{"pooled_twice": True}, {"spoiled": True}])
def test_a_scaled_value_that_is_needed_stays(changes: dict[str, bool]) -> None:
    assert "g" in [one.instruction for one in _joined(_scaled(**changes))[0]]


@pytest.mark.parametrize("kind", ["output", "parameter"])
def test_what_callers_see_stays_where_it_is(kind: AllocationKind) -> None:
    steps = _concatenated()
    before = steps.place("f").allocation
    allocations = [
        a.model_copy(update={"kind": kind}) if a.index == before else a for a in steps.kinds()
    ]
    joined = join_epilogues(steps.build(), steps.emitted, Memory(allocations))
    assert [one.thunk.kind for one in joined] == ["dot", "kernel", "dot", "kernel", "kernel"]


# --- look-ups -------------------------------------------------------------------------------------


def _words(*, read_twice: bool = False, **changes: object) -> Steps:
    """A pooling of four rows that are looked up; `changes` are those of the pooling."""
    steps = Steps()
    steps.given("x", MATRIX)
    steps.given("i", VECTOR)
    steps.add("rows", "fusion", MATRIX, "x", "i", calls="g")
    lookup = p.Lookup(
        operations=0, table=steps.place("x"), indices=steps.place("i"), output=steps.place("rows"),
        count=4, index_type=ElementType.INT32, wrap=0, rows=4, row_bytes=16,
    )  # fmt: skip
    steps.emitted.append(Emitted(lookup, "rows"))
    steps.add("pool", "fusion", MATRIX, "rows", calls="g")
    _parameters(steps, "g", v=MATRIX)
    pool = _pooling(steps, "rows").model_copy(update=changes)
    steps.emitted.append(Emitted(pool, "pool"))
    steps.add("root", "tuple", SCALAR, "pool", *(["rows"] if read_twice else []))
    return steps


def test_a_pooling_reads_rows_in_the_table() -> None:
    steps = _words()
    (bag,) = (one.thunk for one in _joined(steps)[0])
    assert isinstance(bag, p.EmbeddingBag)
    assert slices(bag) == tuple(map(steps.place, ("x", "i", "pool")))
    assert written(bag) == (steps.place("pool"),)


@pytest.mark.parametrize(
    "changes",
    [{"read_twice": True}, {"batch": 2}, {"features": 8}, {"in_step": 8}, {"output": "x"}],
)
def test_rows_that_more_than_a_pooling_reads_are_written(changes: dict[str, Any]) -> None:
    if "output" in changes:  # the memory of the table
        changes = {"output": _words().place("x")}
    joined, _ = _joined(_words(**changes))
    assert [one.thunk.kind for one in joined] == ["lookup", "pooling"]
