"""Writes the loops of a graph in a line as `stablehlo.while`, which torch-mlir cannot make of ONNX's.

Nodes between loops, and bodies of loops, become functions, each converted by torch-mlir; what calls them is
written here. XLA inlines the calls.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import onnx
from onnx import helper

from .onnx_rewrites.graphs import captured, subgraphs
from .onnx_rewrites.straight import Straight

_INDEX, _TRUTH = "tensor<i64>", "tensor<i1>"


@dataclass(frozen=True)
class Function:
    """A function of a module."""

    name: str
    text: str
    arguments: tuple[str, ...]
    """Types."""
    results: tuple[str, ...]
    """Types."""


ToFunction: TypeAlias = Callable[
    [Straight, Sequence[onnx.NodeProto], Sequence[str], Sequence[str], str], Function
]
"""Converts nodes without loops, by the names of arguments and results."""


@dataclass(frozen=True)
class _Value:
    """A value in the text of a function."""

    text: str
    """`%arg0`, `%3#1`."""
    type: str


def is_loop(node: onnx.NodeProto) -> bool:
    """Whether a node has a body that is written once."""
    return node.op_type in ("Loop", "Scan")


def read_by(node: onnx.NodeProto) -> set[str]:
    """What a node reads, also inside its body."""
    inside = [captured(graph) for graph in subgraphs(node)]
    return set(filter(None, node.input)).union(*inside)


def needed_nodes(nodes: Sequence[onnx.NodeProto], results: Iterable[str]) -> list[onnx.NodeProto]:
    """The nodes that the results depend on, without names for outputs that nothing reads."""
    needed, kept = set(results), []
    for node in reversed(nodes):
        used = [name if name in needed else "" for name in node.output]
        if not any(used):
            continue
        while not used[-1]:
            used.pop()
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        if not is_loop(node):  # all outputs of a loop are its own business
            copy.output[:] = used
        kept.append(copy)
        needed |= read_by(node)
    return kept[::-1]


class LoopWriter:
    """Collects the functions of one module."""

    def __init__(self, straight: Straight, to_function: ToFunction) -> None:
        self._straight = straight
        self._to_function = to_function
        self._functions: list[Function] = []
        self._numbers = itertools.count()

    def module(
        self, nodes: Sequence[onnx.NodeProto], arguments: Sequence[str], results: Sequence[str]
    ) -> str:
        """The text of a module whose function `main` computes the results."""
        main = self._function(nodes, arguments, results, "main")
        texts = [function.text for function in self._functions if function is not main]
        public = main.text.replace("func.func private @main(", "func.func @main(", 1)
        return "\n".join(["module {", public, *texts, "}", ""])

    def _function(
        self,
        nodes: Sequence[onnx.NodeProto],
        arguments: Sequence[str],
        results: Sequence[str],
        name: str = "",
    ) -> Function:
        name = name or f"part{next(self._numbers)}"
        if not any(map(is_loop, nodes)):
            made = self._to_function(self._straight, nodes, arguments, results, name)
        else:
            made = self._calls(nodes, arguments, results, name)
        self._functions.append(made)
        return made

    def _calls(
        self,
        nodes: Sequence[onnx.NodeProto],
        arguments: Sequence[str],
        results: Sequence[str],
        name: str,
    ) -> Function:
        """A function that calls the parts between loops, and the bodies of the loops."""
        text = _Text()
        kinds = [self._type(value) for value in arguments]
        known = {
            value: _Value(f"%arg{number}", kind)
            for number, (value, kind) in enumerate(zip(arguments, kinds, strict=True))
        }
        parts = list(_parts(nodes))
        for number, part in enumerate(parts):
            later = set(results).union(
                *(read_by(node) for rest in parts[number + 1 :] for node in rest)
            )
            if is_loop(part[0]):
                known |= self._loop(text, part[0], known)
                continue
            made = [output for node in part for output in node.output if output in later]
            read = set().union(*map(read_by, part))
            given = [value for value in known if value in read]
            function = self._function(part, given, made)
            values = text.call(function, [known[value] for value in given])
            known |= zip(made, values, strict=True)
        returned = [known[value] for value in results]
        head = ", ".join(f"%arg{n}: {kind}" for n, kind in enumerate(kinds))
        types = [value.type for value in returned]
        body = "\n".join(f"    {line}" for line in (*text.lines, _return("return", returned)))
        return Function(
            name,
            f"  func.func private @{name}({head}) -> ({', '.join(types)}) {{\n{body}\n  }}",
            tuple(kinds),
            tuple(types),
        )

    def _loop(
        self, text: _Text, node: onnx.NodeProto, known: dict[str, _Value]
    ) -> dict[str, _Value]:
        """The values of a loop's outputs."""
        body = next(subgraphs(node))
        reads = captured(body)
        fixed = [name for name in known if name in reads]
        # As values of the loop, because its regions must not refer to others.
        carried = _Carried([known[name] for name in fixed])
        inputs = [known.get(name) for name in node.input]  # an optional one has no name
        loop = _Loop(text, node, self._body(body, fixed), inputs, carried)
        found = self._scan(loop) if node.op_type == "Scan" else self._until(loop)
        return dict(zip(node.output, found, strict=False))

    def _scan(self, loop: _Loop) -> list[_Value]:
        text, node, carried = loop.text, loop.node, loop.carried
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        count = attributes["num_scan_inputs"]
        turns = self._straight.shape(node.input[-count])[0]
        before = carried.add(text.constant("0", _INDEX))[0]
        states = carried.add(*loop.given(slice(-count)))
        rows = carried.add(*loop.given(slice(-count, None)))
        stacked = carried.add(*(self._empty(text, name) for name in node.output[len(states) :]))
        turn = _Text(text)
        index = before
        if attributes["scan_input_directions"][0]:
            index = turn.binary("subtract", turn.constant(str(turns - 1), _INDEX), before)
        given = [*states, *(turn.row(source, index) for source in rows), *carried.fixed]
        made = turn.call(loop.function, given)
        after = [
            turn.binary("add", before, turn.constant("1", _INDEX)),
            *made[: len(states)],
            *rows,
        ]
        after += [
            turn.with_row(whole, row, index)
            for whole, row in zip(stacked, made[len(states) :], strict=True)
        ]
        condition = _Text(text)
        limit = condition.constant(str(turns), _INDEX)
        condition.add_return([condition.compare(before, limit)])
        results = text.repeat(carried, condition, turn, after)
        return [*results[1 : 1 + len(states)], *results[len(results) - len(stacked) :]]

    def _until(self, loop: _Loop) -> list[_Value]:
        text, node, carried = loop.text, loop.node, loop.carried
        most = loop.inputs[0] or text.constant(str((1 << 63) - 1), _INDEX)
        (limit,) = carried.add(most)
        before, going = carried.add(text.constant("0", _INDEX), *loop.given(slice(1, 2)))
        states = carried.add(*loop.given(slice(2, None)))
        stacked = carried.add(*(self._empty(text, name) for name in node.output[len(states) :]))
        turn = _Text(text)
        made = turn.call(loop.function, [before, going, *states, *carried.fixed])
        after = [limit, turn.binary("add", before, turn.constant("1", _INDEX))]
        after += made[: 1 + len(states)]
        rows = made[1 + len(states) :]
        after += [
            turn.with_row(whole, row, before) for whole, row in zip(stacked, rows, strict=True)
        ]
        condition = _Text(text)
        condition.add_return([condition.binary("and", condition.compare(before, limit), going)])
        results = text.repeat(carried, condition, turn, after)
        return results[3:]

    def _body(self, body: onnx.GraphProto, fixed: Sequence[str]) -> Function:
        """The function of a turn: arguments of the body, then what it reads of outside."""
        results = [value.name for value in body.output]
        nodes = needed_nodes(body.node, results)
        return self._function(nodes, [*(value.name for value in body.input), *fixed], results)

    def _empty(self, text: _Text, name: str) -> _Value:
        """Zeros of the type of a value."""
        kind = self._type(name)
        element = kind.rstrip(">").rpartition("x")[2]
        zero = "false" if element == "i1" else "0.0" if "f" in element else "0"
        return text.constant(zero, kind)

    def _type(self, name: str) -> str:
        dtype, shape = self._straight.dtype(name), self._straight.shape(name)
        return f"tensor<{'x'.join((*map(str, shape), _ELEMENTS[dtype.name]))}>"


_ELEMENTS = {
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (8, 16, 32, 64)},
    "bool": "i1",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}


def _parts(nodes: Sequence[onnx.NodeProto]) -> Iterator[list[onnx.NodeProto]]:
    """Nodes between loops, and loops alone."""
    part: list[onnx.NodeProto] = []
    for node in nodes:
        if is_loop(node):
            if part:
                yield part
            yield [node]
            part = []
        else:
            part.append(node)
    if part:
        yield part


@dataclass
class _Carried:
    """The values that a loop passes from turn to turn."""

    outside: list[_Value]
    """What the first turn gets; first those that never change."""
    fixed: list[_Value] = field(init=False)
    """Those in the body."""
    inside: list[_Value] = field(init=False)

    def __post_init__(self) -> None:
        given, self.outside, self.inside = self.outside, [], []
        self.fixed = self.add(*given)

    def add(self, *values: _Value) -> list[_Value]:
        """Values of the loop; returns their names in its regions."""
        made = [
            _Value(f"%turn{len(self.inside) + n}", value.type) for n, value in enumerate(values)
        ]
        self.outside += values
        self.inside += made
        return made


@dataclass(frozen=True)
class _Loop:
    """A `Loop` or `Scan` that is being written."""

    text: _Text
    """What it is written into."""
    node: onnx.NodeProto
    function: Function
    """A turn: of the arguments of the body, and what it reads of outside."""
    inputs: list[_Value | None]
    """Of the node."""
    carried: _Carried

    def given(self, which: slice) -> list[_Value]:
        """Inputs that are not optional."""
        return [value for value in self.inputs[which] if value is not None]


class _Text:
    """The lines of a function or region."""

    def __init__(self, outer: _Text | None = None) -> None:
        self.lines: list[str] = []
        # One number for all values of a function, so that no name is used twice.
        self._names: list[int] = outer._names if outer else [0]

    def _fresh(self) -> str:
        self._names[0] += 1
        return f"%v{self._names[0]}"

    def _add(self, text: str, kind: str) -> _Value:
        made = _Value(self._fresh(), kind)
        self.lines.append(f"{made.text} = {text}")
        return made

    def constant(self, value: str, kind: str) -> _Value:
        return self._add(f"stablehlo.constant dense<{value}> : {kind}", kind)

    def binary(self, op: str, one: _Value, two: _Value) -> _Value:
        return self._add(f"stablehlo.{op} {one.text}, {two.text} : {one.type}", one.type)

    def compare(self, one: _Value, two: _Value) -> _Value:
        """Whether an index is less than another."""
        types = f"({_INDEX}, {_INDEX}) -> {_TRUTH}"
        return self._add(f"stablehlo.compare LT, {one.text}, {two.text}, SIGNED : {types}", _TRUTH)

    def call(self, function: Function, given: Sequence[_Value]) -> list[_Value]:
        types = f"({', '.join(function.arguments)}) -> ({', '.join(function.results)})"
        arguments = ", ".join(value.text for value in given)
        name, many = self._fresh(), len(function.results)
        head = f"{name}:{many}" if many > 1 else name
        self.lines.append(f"{head} = func.call @{function.name}({arguments}) : {types}")
        return _results(name, function.results)

    def row(self, value: _Value, index: _Value) -> _Value:
        """The row of a value at an index of axis 0, without that axis."""
        first, kind = _row_types(value.type)
        sizes = ", ".join(first.removeprefix("tensor<").split("x")[:-1])
        indices = self._indices(first, index)
        types = ", ".join([value.type, *[_INDEX] * len(indices)])
        places = ", ".join(place.text for place in indices)
        cut = self._add(
            f"stablehlo.dynamic_slice {value.text}, {places}, sizes = [{sizes}] : ({types}) -> {first}",
            first,
        )
        return self._add(f"stablehlo.reshape {cut.text} : ({first}) -> {kind}", kind)

    def with_row(self, whole: _Value, row: _Value, index: _Value) -> _Value:
        """The whole with another row at an index of axis 0."""
        first, _ = _row_types(whole.type)
        update = self._add(f"stablehlo.reshape {row.text} : ({row.type}) -> {first}", first)
        indices = self._indices(first, index)
        types = ", ".join([whole.type, first, *[_INDEX] * len(indices)])
        places = ", ".join(value.text for value in (whole, update, *indices))
        return self._add(
            f"stablehlo.dynamic_update_slice {places} : ({types}) -> {whole.type}", whole.type
        )

    def _indices(self, kind: str, index: _Value) -> list[_Value]:
        others = kind.count("x") - 1
        return [index, *[self.constant("0", _INDEX)] * others] if others else [index]

    def add_return(self, values: Sequence[_Value]) -> None:
        self.lines.append(_return("stablehlo.return", values))

    def repeat(
        self, carried: _Carried, condition: _Text, turn: _Text, after: Sequence[_Value]
    ) -> list[_Value]:
        """A loop; returns what is carried, but for what never changes."""
        turn.add_return([*carried.fixed, *after])
        types = [value.type for value in carried.inside]
        pairs = zip(carried.inside, carried.outside, strict=True)
        given = ", ".join(f"{one.text} = {two.text}" for one, two in pairs)
        name = self._fresh()
        self.lines += [
            f"{name}:{len(types)} = stablehlo.while({given}) : {', '.join(types)}",
            "cond {",
            *(f"  {line}" for line in condition.lines),
            "} do {",
            *(f"  {line}" for line in turn.lines),
            "}",
        ]
        return _results(name, types)[len(carried.fixed) :]


def _results(name: str, types: Sequence[str]) -> list[_Value]:
    if len(types) == 1:
        return [_Value(name, types[0])]
    return [_Value(f"{name}#{number}", kind) for number, kind in enumerate(types)]


def _row_types(kind: str) -> tuple[str, str]:
    """The types of a row with its first axis of extent 1, and without that axis."""
    rest = kind.removeprefix("tensor<").partition("x")[2]
    return f"tensor<1x{rest}", f"tensor<{rest}"


def _return(op: str, values: Sequence[_Value]) -> str:
    return f"{op} {', '.join(v.text for v in values)} : {', '.join(v.type for v in values)}"
