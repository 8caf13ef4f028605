"""Sizes of tensors, turns of loops and counts of operations that follow from a StableHLO module alone.

An abstract interpreter, as `compiler/inspect/sizes.py` is for graphs: integers that shapes and counters are computed
with are followed, nothing is executed.
"""

from __future__ import annotations

import math
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from ...errors import UnsupportedModelError
from ...limits import MAX_CALL_DEPTH
from ...model.inspection import Cost, EndlessLoop, LargeTensor
from .mlir_text import Block, Function, Op, TensorType, result_types, tensor_types

_MANY = 10**18
_ELEMENTS = 64
_LOOPS_KEPT = 4
_TURNS_KEPT = 10_000
MAIN = "main"


@dataclass(frozen=True)
class Value:
    """The facts about a value that are known before anything runs."""

    dynamic: bool = True
    """Whether it depends on the inputs, or on random numbers."""
    numbers: tuple[int | None, ...] | None = None
    """Its elements, if they are few integers."""
    counter: tuple[int, int, int] | None = None
    """A loop's number, the number of one of its values, and what was added to that."""
    tests: tuple[tuple[str, Value, Value], ...] = ()
    """Comparisons that all hold if it is true."""
    bounds: tuple[int, int] | None = None
    """The least and the largest that it may be, where an outer loop counts it."""


_UNKNOWN = Value()
_Environment = MutableMapping[str, tuple[Value, ...]]


@dataclass
class _Found:
    largest: LargeTensor | None = None
    loops: list[EndlessLoop] = field(default_factory=list)

    def size(self, op: Op, function: str, elements: int) -> None:
        if self.largest is None or elements > self.largest.elements:
            name = op.results[0][0] if op.results else op.name
            self.largest = LargeTensor(node=f"%{name}", function=function, elements=elements)

    def loop(self, loop: EndlessLoop) -> None:
        # Short ones count too: they may be inside others.
        self.loops.append(loop)
        self.loops.sort(key=_turns, reverse=True)
        del self.loops[_LOOPS_KEPT:]

    def add(self, other: _Found, turns: int = 1) -> None:
        largest = other.largest
        if largest and (self.largest is None or largest.elements > self.largest.elements):
            self.largest = largest
        for loop in other.loops:
            turned = None if loop.turns is None else loop.turns * turns
            self.loop(loop.model_copy(update={"turns": turned}))


def _turns(loop: EndlessLoop) -> float:
    return math.inf if loop.turns is None else loop.turns


class Walk:
    """Walks what `main` runs."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self._functions = functions
        self._counts: dict[str, tuple[int, int, str]] = {}
        self._calls: dict[tuple[str, tuple[Value, ...]], tuple[tuple[Value, ...], _Found]] = {}
        self._loops = 0
        self._budget = 100_000 + 100 * sum(map(_count_ops, (f.body for f in functions.values())))

    def cost(self) -> Cost:
        """The cost of running the module."""
        nodes, depth, deepest = self._measure(MAIN, ())
        findings = _Found()
        if depth <= MAX_CALL_DEPTH:
            arguments = (_UNKNOWN,) * len(self._functions[MAIN].arguments)
            findings = self._call(MAIN, arguments)[1]
        return Cost(
            nodes=min(nodes, _MANY),
            depth=depth,
            deepest=deepest,
            largest=findings.largest,
            loops=tuple(loop for loop in findings.loops if _turns(loop) > _TURNS_KEPT),
        )

    def _measure(self, name: str, path: tuple[str, ...]) -> tuple[int, int, str]:
        """Operations after inlining, the depth of calls, and the function at the end of the longest."""
        if name in path:
            raise UnsupportedModelError(
                f"the StableHLO function {name!r} calls itself, which XLA cannot compile"
            )
        if len(path) > MAX_CALL_DEPTH:
            return 1, 1, name
        if name not in self._counts:
            function = self._functions[name]
            nodes, depth, deepest = 0, 0, name
            for op in _all_ops(function.body):
                nodes += 1
                for called in called_functions(op, self._functions):
                    inner, further, end = self._measure(called, (*path, name))
                    nodes = min(nodes + inner, _MANY)
                    if further > depth:
                        depth, deepest = further, end
            self._counts[name] = nodes, depth + 1, deepest
        return self._counts[name]

    def _call(self, name: str, arguments: tuple[Value, ...]) -> tuple[tuple[Value, ...], _Found]:
        key = name, arguments
        if key not in self._calls:
            function, findings = self._functions[name], _Found()
            names = function.body.arguments
            known: _Environment = {n: (v,) for n, v in zip(names, arguments, strict=False)}
            results = self._walk(function.body, known, name, findings)
            self._calls[key] = results, findings
        return self._calls[key]

    def _walk(
        self, block: Block, known: _Environment, function: str, findings: _Found
    ) -> tuple[Value, ...]:
        """Evaluates a block; what it returns."""
        returned: tuple[Value, ...] = ()
        for op in block.ops:
            self._budget -= 1
            if self._budget < 0:
                raise UnsupportedModelError(
                    f"the StableHLO function {function!r} calls others or nests loops too deeply "
                    "to be judged; simplify it"
                )
            inputs = tuple(_read(known, *operand) for operand in op.operands)
            for tensor in tensor_types(op.text):
                findings.size(op, function, math.prod(e for e in tensor.shape if e is not None))
            if op.name in ("func.return", "stablehlo.return"):
                returned = inputs
                continue
            values = self._evaluate(op, inputs, known, function, findings)
            position = 0
            for name, count in op.results:
                known[name] = (values[position : position + count] + (_UNKNOWN,) * count)[:count]
                position += count
        return returned

    def _evaluate(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        known: _Environment,
        function: str,
        findings: _Found,
    ) -> tuple[Value, ...]:
        if op.name == "stablehlo.while":
            return self._loop(op, inputs, known, function, findings)
        called = called_functions(op, self._functions)
        if called:
            results: tuple[Value, ...] = ()
            for name in called:
                results, met = self._call(name, inputs)
                findings.add(met)
            return results
        if op.regions:
            return self._regions(op, inputs, known, function, findings)
        elements = _shape_operand(op, inputs)
        if elements:
            findings.size(op, function, elements)
        value = _fold(op, inputs)
        return (value,) * sum(count for _, count in op.results)

    def _regions(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        known: _Environment,
        function: str,
        findings: _Found,
    ) -> tuple[Value, ...]:
        """A branch, or an operation with a function of elements."""
        dynamic = any(value.dynamic for value in inputs)
        for region in op.regions:
            inner: _Environment = {name: (Value(dynamic),) for name in region.arguments}
            results = self._walk(region, _within(known, inner), function, findings)
            dynamic = dynamic or any(value.dynamic for value in results)
        return (Value(dynamic),) * sum(count for _, count in op.results)

    # --- loops ------------------------------------------------------------------------------------

    def _loop(
        self,
        op: Op,
        inputs: tuple[Value, ...],
        known: _Environment,
        function: str,
        findings: _Found,
    ) -> tuple[Value, ...]:
        condition, turn = op.regions
        self._loops += 1
        number = self._loops
        dynamic = [value.dynamic for value in inputs]
        results: tuple[Value, ...] = ()
        for _ in range(len(inputs) + 1):  # in each, one more value becomes dynamic
            state = [Value(d, None, (number, i, 0)) for i, d in enumerate(dynamic)]
            results = self._walk(turn, _bind(known, turn, state), function, _Found())
            wider = [d or r.dynamic for d, r in zip(dynamic, results, strict=True)]
            if wider == dynamic:
                break
            dynamic = wider
        steps = {
            index: result.counter[2]
            for index, result in enumerate(results)
            if result.counter is not None and result.counter[:2] == (number, index)
        }
        state = [
            value if steps.get(index) == 0 else Value(dynamic[index], None, (number, index, 0))
            for index, value in enumerate(inputs)
        ]
        (again,) = self._walk(condition, _bind(known, condition, state), function, findings)
        counted = None if again.dynamic else _count_turns(again, number, steps, inputs)
        if not again.dynamic:
            name = f"%{op.results[0][0]}" if op.results else op.name
            findings.loop(EndlessLoop(node=name, function=function, turns=counted))
        turns, met = counted or 1, _Found()
        plain = [
            replace(value, counter=None)
            if steps.get(index) == 0
            # What changes in the turns of a loop that inputs end depends on them too.
            else Value(
                value.dynamic or again.dynamic,
                bounds=_counted(inputs[index], steps.get(index), counted),
            )
            for index, value in enumerate(state)
        ]
        self._walk(turn, _bind(known, turn, plain), function, met)
        findings.add(met, turns)
        return tuple(replace(v, dynamic=v.dynamic or again.dynamic, bounds=None) for v in plain)


def _count_turns(
    again: Value, loop: int, steps: Mapping[int, int], inputs: Sequence[Value]
) -> int | None:
    """The turns of a loop that counts up to a number; None if it was not found out."""
    counts = []
    for direction, left, right in again.tests:
        if left.counter is None:
            left, right = right, left  # noqa: PLW2901 - a comparison from the other side
            direction = _TURNED.get(direction, direction)  # noqa: PLW2901
        if left.counter is None or left.counter[0] != loop:
            continue
        index, offset = left.counter[1:]
        start, end, step = _span(inputs[index]), _span(right), steps.get(index)
        if start is None or end is None or not step:
            continue
        # The longest way.
        distance = (end[1] - start[0] if step > 0 else end[0] - start[1]) - offset
        if direction in ("LE", "GE"):
            distance += 1 if step > 0 else -1
        if (direction in ("LT", "LE") and step > 0) or (direction in ("GT", "GE") and step < 0):
            counts.append(max(0, -(-distance // step)))
        elif direction == "NE" and (start[0], end[0]) != (start[1], end[1]):
            continue
        elif direction == "NE" and distance % step == 0 and distance // step >= 0:
            counts.append(distance // step)
    return min(counts, default=None)


def _span(value: Value) -> tuple[int, int] | None:
    number = _scalar(value)
    return value.bounds if number is None else (number, number)


def _counted(start: Value, step: int | None, turns: int | None) -> tuple[int, int] | None:
    """The bounds of a counter when a turn begins."""
    span = _span(start)
    if span is None or step is None or not turns:
        return None
    last = step * (turns - 1)
    return span[0] + min(0, last), span[1] + max(0, last)


_TURNED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def _bind(known: _Environment, block: Block, values: Sequence[Value]) -> _Environment:
    return _within(known, {n: (v,) for n, v in zip(block.arguments, values, strict=False)})


def _within(known: _Environment, inner: _Environment) -> _Environment:
    """The known facts in a region. The outer values are not copied: that would be quadratic in a long function."""
    outer = known.maps if isinstance(known, ChainMap) else [known]
    return ChainMap(inner, *outer)


# --- operations -----------------------------------------------------------------------------------


def called_functions(op: Op, functions: Mapping[str, Function]) -> list[str]:
    """The functions that an operation names."""
    return [name for name in op.symbols if name in functions]


def _all_ops(block: Block) -> list[Op]:
    ops = list(block.ops)
    for op in ops:  # grows while it is walked
        for region in op.regions:
            ops += region.ops
    return ops


def _count_ops(block: Block) -> int:
    return len(_all_ops(block))


def _read(known: _Environment, name: str, index: int) -> Value:
    values = known.get(name, ())
    return values[index] if index < len(values) else _UNKNOWN


def _scalar(value: Value) -> int | None:
    return value.numbers[0] if value.numbers is not None and len(value.numbers) == 1 else None


def _fold(op: Op, inputs: tuple[Value, ...]) -> Value:
    dynamic = any(value.dynamic for value in inputs) or op.name == "stablehlo.rng"
    name = op.name.partition(".")[2]
    if name == "constant":
        return Value(dynamic=False, numbers=_constant(op))
    if name == "get_dimension_size":
        return Value(dynamic=False, numbers=(_dimension(op) or 1,))
    if name == "compare" and len(inputs) == 2:
        direction = next(iter(re.findall(r"\b(LT|LE|GT|GE|EQ|NE)\b", op.text)), "")
        # `NE false`, as which JAX writes a conversion to a truth value.
        if direction == "NE" and inputs[0].tests and _scalar(inputs[1]) == 0:
            return inputs[0]
        left, right = (replace(value, tests=()) for value in inputs)
        return Value(dynamic, tests=((direction, left, right),))
    if name == "and":
        return Value(dynamic, tests=tuple(test for value in inputs for test in value.tests))
    if (
        name in ("convert", "reshape", "broadcast_in_dim", "optimization_barrier")
        and len(inputs) == 1
    ):
        return _reshaped(op, inputs[0])
    if name == "concatenate" and all(value.numbers is not None for value in inputs):
        joined = tuple(n for value in inputs for n in value.numbers or ())
        return Value(dynamic, joined if len(joined) <= _ELEMENTS else None)
    if name in _ARITHMETIC and len(inputs) == 2:
        return _compute(name, dynamic, *inputs)
    return Value(dynamic)


def _reshaped(op: Op, value: Value) -> Value:
    types = result_types(op)
    shape = types[-1].shape if types else (None,)
    if None in shape or value.numbers is None:
        return value if not shape else replace(value, numbers=None)
    count = math.prod(extent for extent in shape if extent is not None)
    if count == len(value.numbers):
        return value
    if len(value.numbers) == 1 and count <= _ELEMENTS:
        return replace(value, numbers=value.numbers * count)
    return replace(value, numbers=None)


def _compute(name: str, dynamic: bool, left: Value, right: Value) -> Value:
    counter = None
    if name in ("add", "subtract"):
        sides = [(left, right)] if name == "subtract" else [(left, right), (right, left)]
        for side, term in sides:
            number = _scalar(term)
            if side.counter is not None and number is not None:
                loop, index, offset = side.counter
                counter = loop, index, offset + (number if name == "add" else -number)
    numbers = None
    if left.numbers and right.numbers and len(left.numbers) == len(right.numbers):
        function = _ARITHMETIC[name]
        numbers = tuple(
            None if a is None or b is None else function(a, b)
            for a, b in zip(left.numbers, right.numbers, strict=True)
        )
    spans = (_span(left), _span(right))
    bounds = None
    if numbers is None and name in _MONOTONE and None not in spans:
        ends = [_ARITHMETIC[name](a, b) for a in spans[0] or () for b in spans[1] or ()]
        bounds = min(end or 0 for end in ends), max(end or 0 for end in ends)
    return Value(dynamic, numbers, counter, bounds=bounds)


def _divide(left: int, right: int) -> int | None:
    return math.trunc(left / right) if right else None


_ARITHMETIC: dict[str, Callable[[int, int], int | None]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "maximum": max,
    "minimum": min,
    "divide": _divide,
}


_MONOTONE = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})
"""Those whose extremes are results of extremes."""


def _constant(op: Op) -> tuple[int | None, ...] | None:
    types = result_types(op)
    if not types or not re.fullmatch(r"u?i\d+", types[-1].element):
        return None
    count = math.prod(extent for extent in types[-1].shape if extent is not None)
    if count > _ELEMENTS:
        return None
    inside = op.text.partition("dense<")[2].rpartition("> : ")[0]
    words = re.findall(r"-?\d+|true|false", inside)
    numbers = tuple(_read_number(word) for word in words)
    return numbers * count if len(numbers) == 1 else numbers if len(numbers) == count else None


def _read_number(word: str) -> int:
    return int(word == "true") if word.isalpha() else int(word)


def _dimension(op: Op) -> int | None:
    axis = re.search(r"dim = (\d+)", op.text)
    types = list(tensor_types(op.text))
    if axis is None or not types or int(axis[1]) >= len(types[0].shape):
        return None
    return types[0].shape[int(axis[1])]


_SHAPES = {
    "stablehlo.dynamic_iota": 0,
    "stablehlo.dynamic_broadcast_in_dim": 1,
    "stablehlo.dynamic_reshape": 1,
    "stablehlo.dynamic_pad": 3,
}
"""Operations whose result has a computed shape, and the operand that holds it, or adds to it."""


def _shape_operand(op: Op, inputs: tuple[Value, ...]) -> int | None:
    """The elements of a result whose shape is computed; unknown extents count as 1."""
    position = _SHAPES.get(op.name)
    if position is None or position >= len(inputs):
        return None
    numbers = [number for number in inputs[position].numbers or () if number is not None]
    return math.prod(max(number, 1) for number in numbers)


__all__ = ["MAIN", "TensorType", "Value", "Walk", "called_functions"]
