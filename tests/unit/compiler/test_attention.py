"""Steps that become attention: only the softmax of scores, in memory that nothing else needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from modelwheel.compiler.ir import thunks as p
from modelwheel.compiler.ir.hlo import HloModule
from modelwheel.compiler.ir.memory import Memory
from modelwheel.compiler.ir.thunks import Array
from modelwheel.compiler.passes.epilogues import Emitted
from modelwheel.compiler.passes.joining import join_epilogues
from modelwheel.dtypes import ElementType
from modelwheel.program.arrays import Allocation, Slice
from tests.support.modules import shape as make_shape
from tests.support.thunks import dense

OUTER, INNER, QUERIES, KEYS, DEPTH, FEATURES = 2, 3, 4, 64, 6, 7
SCORES, ROWS = (OUTER, INNER, QUERIES, KEYS), (OUTER, INNER, QUERIES)
ASKED, TOLD = (OUTER, INNER, QUERIES, DEPTH), (OUTER, INNER, DEPTH, KEYS)
VALUES, ANSWERS = (OUTER, INNER, KEYS, FEATURES), (OUTER, INNER, QUERIES, FEATURES)
PLACES = OUTER * QUERIES
WIDTH, RESULT = INNER * DEPTH, (PLACES, INNER * FEATURES)


def _like(value: Any, element: ElementType) -> SimpleNamespace:
    return make_shape(*value.shape.dimensions, element=element)


class _Module:
    """A module under construction, and the thunks of its entry computation."""

    def __init__(self) -> None:
        self.computations: list[list[SimpleNamespace]] = [[]]
        self.count = 0
        self.places: dict[int, Array] = {}
        self.emitted: list[Emitted] = []
        self.reducers = {name: self._reducer(name) for name in ("add", "maximum")}

    def add(
        self, opcode: str, shape: Any, *operands: Any, into: int = 0, **fields: Any
    ) -> SimpleNamespace:
        rest = {
            "called_computation_ids": [],
            "dimensions": [],
            "parameter_number": 0,
            "metadata": SimpleNamespace(op_name=""),
            **fields,
        }
        made = SimpleNamespace(
            id=self.count,
            name=f"{opcode}.{self.count}",
            opcode=opcode,
            shape=shape,
            operand_ids=[operand.id for operand in operands],
            **rest,
        )
        self.count += 1
        self.computations[into].append(made)
        return made

    def _reducer(self, opcode: str) -> int:
        number = self._computation()
        operands = [
            self.add("parameter", make_shape(), into=number, parameter_number=n) for n in (0, 1)
        ]
        self.add(opcode, make_shape(), *operands, into=number)
        return number

    def _computation(self) -> int:
        self.computations.append([])
        return len(self.computations) - 1

    def memory(self, value: Any, thunk: Any = None) -> Any:
        """Gives a value memory of its own, and a step if something computes it."""
        array = dense(value.shape.dimensions, len(self.places))
        self.places[value.id] = array
        if thunk is not None:
            self.emitted.append(Emitted(thunk(array), value.name))
        return value

    def input(self, *shape: int, element: ElementType = ElementType.FLOAT32) -> Any:
        return self.memory(self.add("parameter", make_shape(*shape, element=element)))

    def number(
        self, value: float, into: int = 0, element: ElementType = ElementType.FLOAT32
    ) -> Any:
        values = {"f32s": [value], "s32s": [value]}
        kind = "f32s" if element == ElementType.FLOAT32 else "s32s"
        literal = SimpleNamespace(**{name: values[name] if name == kind else [] for name in values})
        found = self.add("constant", make_shape(element=element), into=into, literal=literal)
        return self.memory(found) if into == 0 else found

    def dot(self, shape: Any, lhs: Any, rhs: Any, batch: int = 0, rhs_axis: int = 0) -> Any:
        value, axes = self.add("dot", make_shape(*shape), lhs, rhs), tuple(range(batch))

        def thunk(out: Array) -> p.Dot:
            return p.Dot(
                operations=10,
                lhs=self.places[lhs.id],
                rhs=self.places[rhs.id],
                out=out,
                lhs_batch=axes,
                rhs_batch=axes,
                lhs_contracting=(batch + 1,),
                rhs_contracting=(batch + rhs_axis,),
            )

        return self.memory(value, thunk)

    def fusion(self, *operands: Any) -> _Fusion:
        return _Fusion(self, operands)

    def build(self) -> HloModule:
        found = [
            SimpleNamespace(id=number, instructions=all_, root_id=all_[-1].id)
            for number, all_ in enumerate(self.computations)
        ]
        return HloModule(SimpleNamespace(computations=found, entry_computation_id=0))


class _Fusion:
    """A fusion under construction."""

    def __init__(self, module: _Module, operands: tuple[Any, ...]) -> None:
        self.module = module
        self.operands = operands
        self.number = module._computation()
        self.parameters = [
            self.add("parameter", operand.shape, parameter_number=number)
            for number, operand in enumerate(operands)
        ]

    def add(self, opcode: str, shape: Any, *operands: Any, **fields: Any) -> Any:
        return self.module.add(opcode, shape, *operands, into=self.number, **fields)

    def scaled(self, value: Any, factor: float) -> Any:
        return self.add("multiply", value.shape, value, self.repeated(factor, value.shape))

    def repeated(self, number: float, shape: Any) -> Any:
        constant = self.module.number(number, self.number, shape.element_type)
        return self.add("broadcast", shape, constant)

    def compared(self, one: Any, other: Any, direction: str) -> Any:
        kinds = {"comparison_direction": direction, "comparison_type": "SIGNED"}
        return self.add("compare", _like(one, ElementType.BOOL), one, other, **kinds)

    def here(self, tokens: Any) -> Any:
        """Which tokens are not 0, for all scores."""
        condition = self.compared(tokens, self.repeated(0, tokens.shape), "NE")
        return self._for_scores(condition, [0, 3])

    def causal(self) -> Any:
        """Whether a key is not behind the query, for all scores."""
        square = make_shape(QUERIES, KEYS, element=ElementType.INT32)
        query, key = (self.add("iota", square, dimensions=[axis]) for axis in (0, 1))
        return self._for_scores(self.compared(query, key, "GE"), [2, 3])

    def _for_scores(self, value: Any, axes: list[int]) -> Any:
        shape = make_shape(*SCORES, element=value.shape.element_type)
        return self.add("broadcast", shape, value, dimensions=axes)

    def chosen(self, condition: Any, scores: Any, number: float, *, negated: bool = False) -> Any:
        """The scores where a condition is true or, if it is negated, false."""
        other = self.repeated(number, scores.shape)
        values = (other, scores) if negated else (scores, other)
        return self.add("select", scores.shape, condition, *values)

    def lowered(self, condition: Any, scores: Any) -> Any:
        """The scores, less a large number where a condition is true."""
        factor = self.add("convert", scores.shape, condition)
        return self.add("add", scores.shape, scores, self.scaled(factor, -1e9))

    def done(self) -> Any:
        root = self.module.computations[self.number][-1]
        value = self.module.add(
            "fusion", root.shape, *self.operands, called_computation_ids=[self.number]
        )

        def thunk(out: Array) -> p.Kernel:
            return p.Kernel(
                operations=1,
                symbol="fusion",
                workgroups=(1, 1, 1),
                arguments=tuple(self.module.places[one.id].slice for one in self.operands),
                results=(out.slice,),
            )

        return self.module.memory(value, thunk)


def _heads(module: _Module, width: int, to: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """A product with a bias, as heads whose axes are in another order."""
    rows = math.prod(to) // (INNER * width)
    x, weights = module.input(rows, 8), module.input(8, INNER * width)
    product = module.dot((rows, INNER * width), x, weights)
    bias = module.input(INNER, width)
    fusion = module.fusion(product, bias)
    split = make_shape(OUTER, rows // OUTER, INNER, width)
    value = fusion.add("bitcast", split, fusion.parameters[0])
    added = fusion.add("broadcast", split, fusion.parameters[1], dimensions=[2, 3])
    value = fusion.add("add", split, value, added)
    moved = fusion.add("transpose", make_shape(*to), value, dimensions=list(axes))
    fusion.add("copy", make_shape(*to), moved)
    return fusion.done()


def _reduced(module: _Module, value: Any, reducer: str, start: float) -> Any:
    """A reduction of rows, in windows of 32 first."""
    constant = module.number(start)
    fusion = module.fusion(value, constant)
    single = {"padding_low": 0, "padding_high": 0, "window_dilation": 1, "base_dilation": 1}
    windows = [
        SimpleNamespace(size=size, stride=size, window_reversal=False, **single)
        for size in (1, 1, 1, 32)
    ]
    called = {"called_computation_ids": [module.reducers[reducer]]}
    fusion.add(
        "reduce-window",
        make_shape(*ROWS, KEYS // 32),
        *fusion.parameters,
        window=SimpleNamespace(dimensions=windows),
        **called,
    )
    first = fusion.done()
    fusion = module.fusion(first, constant)
    fusion.add("reduce", make_shape(*ROWS), *fusion.parameters, dimensions=[3], **called)
    return fusion.done()


def _attention(
    *,
    scale: float = 0.5,
    other_scale: float = 0.5,
    reducer: str = "maximum",
    total: str = "powers",
    read_twice: bool = False,
    moved: bool = True,
    masked: Callable[[_Fusion, Any, Any], Any] = lambda _, scores, __: scores,
    other_masked: Callable[[_Fusion, Any, Any], Any] | None = None,
) -> tuple[p.Thunk, ...]:
    module = _Module()
    tokens = module.input(OUTER, KEYS, element=ElementType.INT32)
    if moved:
        queries = _heads(module, DEPTH, ASKED, (0, 2, 1, 3))
        keys = _heads(module, DEPTH, TOLD, (0, 2, 3, 1))
        values = _heads(module, FEATURES, VALUES, (0, 2, 1, 3))
    else:
        queries, keys, values = (module.input(*shape) for shape in (ASKED, TOLD, VALUES))
    scores = module.dot(SCORES, queries, keys, 2)
    fusion = module.fusion(scores, tokens)
    masked(fusion, fusion.scaled(fusion.parameters[0], scale), fusion.parameters[1])
    scaled = fusion.done()
    largest = _reduced(module, scaled, reducer, -math.inf)
    fusion = module.fusion(largest, scores, tokens)
    again = fusion.scaled(fusion.parameters[1], other_scale)
    again = (other_masked or masked)(fusion, again, fusion.parameters[2])
    rows = fusion.add("broadcast", again.shape, fusion.parameters[0], dimensions=[0, 1, 2])
    fusion.add("exponential", again.shape, fusion.add("subtract", again.shape, again, rows))
    powers = fusion.done()
    sums = _reduced(module, powers if total == "powers" else scaled, "add", 0.0)
    fusion = module.fusion(powers, sums)
    rows = fusion.add("broadcast", again.shape, fusion.parameters[1], dimensions=[0, 1, 2])
    fusion.add("divide", again.shape, fusion.parameters[0], rows)
    answers = module.dot(ANSWERS, fusion.done(), values, 2)
    fusion = module.fusion(answers)
    whole = make_shape(OUTER, QUERIES, INNER, FEATURES)
    value = fusion.add("transpose", whole, fusion.parameters[0], dimensions=[0, 2, 1, 3])
    fusion.add("bitcast", make_shape(*RESULT), fusion.add("copy", whole, value))
    result = fusion.done()
    last = module.dot((PLACES, 8), result, module.input(INNER * FEATURES, 8))
    module.add("tuple", make_shape(), last, *([powers] if read_twice else []))
    allocations = [
        Allocation(index=number, size=place.slice.size, kind="temporary")
        for number, place in enumerate(module.places.values())
    ]
    memory = Memory(allocations, [module.places[last.id].slice])
    return tuple(one.thunk for one in join_epilogues(module.build(), module.emitted, memory))


def test_scores_softmax_and_values_are_one_step() -> None:
    *products, attention, last = _attention()
    assert isinstance(attention, p.Attention)
    assert (attention.heads, attention.queries, attention.keys) == ((OUTER, INNER), QUERIES, KEYS)
    assert (attention.depth, attention.features, attention.scale) == (DEPTH, FEATURES, 0.5)
    assert attention.operations == 20
    assert isinstance(last, p.Dot)
    assert last.lhs.slice == attention.output.slice
    # Each head is read from, and written to, rows of all heads.
    wide = INNER * FEATURES
    assert attention.query.steps == (QUERIES * WIDTH, DEPTH, WIDTH, 1)
    assert attention.key.steps == (KEYS * WIDTH, DEPTH, WIDTH, 1)
    assert attention.value.steps == (KEYS * wide, FEATURES, wide, 1)
    assert attention.output.steps == (QUERIES * wide, FEATURES, wide, 1)
    results: list[Slice] = []
    for product in products:
        assert isinstance(product, p.Dot)
        assert product.epilogue is not None
        assert product.epilogue.shift is not None
        results.append(product.epilogue.result)
    assert results == [part.slice for part in (attention.query, attention.key, attention.value)]


def test_heads_are_read_where_they_are() -> None:
    attention, _ = _attention(moved=False)
    assert isinstance(attention, p.Attention)
    assert attention.key.steps == (INNER * DEPTH * KEYS, DEPTH * KEYS, 1, KEYS)
    assert attention.query.steps == (INNER * QUERIES * DEPTH, QUERIES * DEPTH, DEPTH, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"other_scale": 0.25},
        {"scale": 0.25},
        {"scale": math.inf, "other_scale": math.inf},
        {"reducer": "add"},
        {"total": "scores"},
        {"read_twice": True},
    ],
)
def test_anything_else_is_not(changes: dict[str, Any]) -> None:
    assert not any(isinstance(thunk, p.Attention) for thunk in _attention(**changes))


# --- masks ----------------------------------------------------------------------------------------


def _masked(masked: Callable[[_Fusion, Any, Any], Any]) -> tuple[p.Mask, p.Attention]:
    found = _attention(masked=masked)
    mask, attention = (one for one in found if isinstance(one, p.Mask | p.Attention))
    assert isinstance(mask, p.Mask)
    assert isinstance(attention, p.Attention)
    return mask, attention


def test_a_condition_chooses_scores() -> None:
    mask, attention = _masked(lambda f, scores, tokens: f.chosen(f.here(tokens), scores, -2e38))
    assert (mask.extents, mask.step) == ((OUTER, 1, 1, KEYS), KEYS)
    assert [one.opcode for one in mask.code.operations] == ["read", "constant", "ne"]
    assert mask.code.operations[0].steps == (KEYS, 0, 0, 1)
    assert attention.added is None
    assert attention.replacement == -2e38
    assert attention.kept == p.Heads(slice=mask.output, start=0, steps=(KEYS, 0, 0, 1))


def test_a_condition_may_be_the_opposite() -> None:
    mask, attention = _masked(
        lambda f, scores, tokens: f.chosen(f.here(tokens), scores, -math.inf, negated=True)
    )
    assert [one.opcode for one in mask.code.operations] == ["read", "constant", "ne", "not"]
    assert attention.replacement is None


def test_indices_are_compared() -> None:
    mask, attention = _masked(lambda f, scores, _: f.chosen(f.causal(), scores, -1.0))
    assert mask.extents == (1, 1, QUERIES, KEYS)
    assert [one.steps for one in mask.code.operations[:2]] == [(0, 0, 1, 0), (0, 0, 0, 1)]
    assert mask.code.operations[-1].opcode == "ge"
    assert attention.kept is not None
    assert attention.kept.steps == (0, 0, KEYS, 1)


def test_a_computed_value_is_added() -> None:
    mask, attention = _masked(lambda f, scores, tokens: f.lowered(f.here(tokens), scores))
    opcodes = [one.opcode for one in mask.code.operations]
    assert opcodes == ["read", "constant", "ne", "convert", "constant", "multiply"]
    assert not mask.code.is_condition
    assert attention.kept is None
    assert attention.added == p.Heads(slice=mask.output, start=0, steps=(KEYS, 0, 0, 1))


@pytest.mark.parametrize(
    "other",
    [
        lambda f, scores, _: f.chosen(f.causal(), scores, -2e38),
        lambda f, scores, tokens: f.chosen(f.here(tokens), scores, -1e38),
        lambda f, scores, tokens: f.chosen(f.here(tokens), scores, -2e38, negated=True),
        lambda f, scores, tokens: f.lowered(f.here(tokens), scores),
        lambda _, scores, __: scores,
    ],
)
def test_the_largest_must_be_that_of_the_same_scores(other: Any) -> None:
    masked = lambda f, scores, tokens: f.chosen(f.here(tokens), scores, -2e38)
    found = _attention(masked=masked, other_masked=other)
    assert not any(isinstance(thunk, p.Attention) for thunk in found)


@pytest.mark.parametrize("number", [math.inf, math.nan])
def test_a_replacement_is_no_upper_limit(number: float) -> None:
    found = _attention(masked=lambda f, scores, t: f.chosen(f.here(t), scores, number))
    assert not any(isinstance(thunk, p.Attention) for thunk in found)
