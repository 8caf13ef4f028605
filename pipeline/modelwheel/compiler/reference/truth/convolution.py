"""Convolutions of float64 and of integers as loops over matrix products: XLA's own code for them is a hundred times slower.

One product for each element of the kernel, with the part of the input that it meets. See `convolution` in the
specification of StableHLO.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, product

_Shape = tuple[int, ...]

_HEAD = r"^ *(?P<name>%\S+) = stablehlo\.convolution\((?P<x>%\S+), (?P<w>%\S+)\) "
_CONVOLUTION = re.compile(
    _HEAD + r"dim_numbers = \[(?P<xs>[^\]]*)\]x\[(?P<ws>[^\]]*)\]->\[(?P<ys>[^\]]*)\], "
    r"window = \{(?P<window>[^}]*)\} \{(?P<groups>[^}]*)\} : "
    r"\(tensor<(?P<xt>[\d?x]+)xf64>, tensor<(?P<wt>[\dx]+)xf64>\) -> tensor<(?P<yt>[\d?x]+)xf64>$",
    re.MULTILINE,
)
_INTEGERS = re.compile(
    _HEAD
    + r"(?P<attributes>.*) : \(tensor<(?P<xt>[\dx]+)x(?P<xe>u?i8)>, tensor<(?P<wt>[\dx]+)x(?P<we>u?i8)>\) "
    r"-> tensor<(?P<yt>[\dx]+)x(?P<ye>i32)>$",
    re.MULTILINE,
)


_WINDOW = re.compile(r"(\w+) = (\[(?:[^\[\]]|\[[^\]]*\])*\])")


def has_integer_convolutions(text: str) -> bool:
    """Whether `expand_integer_convolutions` changes a module."""
    return _INTEGERS.search(text) is not None


def expand_integer_convolutions(text: str) -> str:
    """A module in which convolutions of bytes into int32, of known shape, are written out.

    The sums of float64 are the same: whole numbers below 2**53.
    """
    return expand_convolutions(_INTEGERS.sub(_in_float64, text))[0]


def _in_float64(match: re.Match[str]) -> str:
    stem = f"%float64_{match.start()}"
    types = {of: f"tensor<{match[of + 't']}xf64>" for of in "xwy"}
    converts = [
        f"{stem}_{of} = stablehlo.convert {match[of]} : (tensor<{match[of + 't']}x{match[of + 'e']}>) -> {types[of]}"
        for of in "xw"
    ]
    convolution = f"stablehlo.convolution({stem}_x, {stem}_w) {match['attributes']}"
    result = f"tensor<{match['yt']}x{match['ye']}>"
    lines = (
        *converts,
        f"{stem}_y = {convolution} : ({types['x']}, {types['w']}) -> {types['y']}",
        f"{match['name']} = stablehlo.convert {stem}_y : ({types['y']}) -> {result}",
    )
    return "\n".join(lines)


def expand_convolutions(text: str) -> tuple[str, int]:
    """A module in which convolutions of float64 and of known shape are written out.

    Returns:
        Its text, and the number of multiplications in the others, for each row of a free batch.
    """
    numbers, left = count(), [0]

    def expand(match: re.Match[str]) -> str:
        convolution = _read(match)
        if convolution is None:
            left[0] += _multiplications(match)
            return match[0]
        writer = _Writer(f"%convolution_{next(numbers)}_")
        x, w = _Value(match["x"], convolution.x), _Value(match["w"], convolution.w)
        writer.transpose(convolution.write(writer, x, w), convolution.from_y)
        *lines, last = writer.lines
        return "\n".join((*lines, f"{match['name']} = {last.partition(' = ')[2]}"))

    return _CONVOLUTION.sub(expand, text), left[0]


@dataclass(frozen=True)
class _Value:
    """A value of a module."""

    name: str
    shape: _Shape
    element: str = "f64"

    @property
    def type(self) -> str:
        """As MLIR writes it."""
        return f"tensor<{''.join(f'{extent}x' for extent in self.shape)}{self.element}>"


@dataclass
class _Writer:
    """Operations, one after the other."""

    prefix: str
    lines: list[str] = field(default_factory=list)

    def constant(self, literal: str, shape: _Shape, element: str = "i32") -> _Value:
        return self._write(f"stablehlo.constant dense<{literal}>", [], shape, element)

    def transpose(self, x: _Value, axes: Sequence[int]) -> _Value:
        shape = tuple(x.shape[axis] for axis in axes)
        return self._write(f"stablehlo.transpose {x.name}, dims = {list(axes)}", [x], shape)

    def reshape(self, x: _Value, shape: _Shape) -> _Value:
        return self._write(f"stablehlo.reshape {x.name}", [x], shape, x.element)

    def element(self, x: _Value, index: _Value) -> _Value:
        """One element of the first axis, which is left out."""
        rest = x.shape[1:]
        zeros = [self.constant("0", ()) for _ in rest]
        return self.reshape(self.part(x, [index, *zeros], (1, *rest)), rest)

    def part(self, x: _Value, starts: Sequence[_Value], shape: _Shape) -> _Value:
        names = ", ".join(start.name for start in starts)
        text = f"stablehlo.dynamic_slice {x.name}, {names}, sizes = {list(shape)}"
        return self._write(text, [x, *starts], shape, x.element)

    def stride(self, x: _Value, strides: Sequence[int]) -> _Value:
        """Every n-th element."""
        pairs = list(zip(x.shape, strides, strict=True))
        ranges = ", ".join(f"0:{extent}:{stride}" for extent, stride in pairs)
        shape = tuple(-(-extent // stride) for extent, stride in pairs)
        return self._write(f"stablehlo.slice {x.name} [{ranges}]", [x], shape)

    def pad(self, x: _Value, edges: Sequence[tuple[int, int, int]]) -> _Value:
        """Zeros before, behind and between elements; less than none cuts off."""
        zero = self.constant("0.0", (), "f64")
        shape = tuple(
            low + high + extent + max(extent - 1, 0) * between
            for extent, (low, high, between) in zip(x.shape, edges, strict=True)
        )
        low, high, between = (list(amounts) for amounts in zip(*edges, strict=True))
        text = (
            f"stablehlo.pad {x.name}, {zero.name}, low = {low}, high = {high}, interior = {between}"
        )
        return self._write(text, [x, zero], shape)

    def dot(self, x: _Value, w: _Value, *, groups: bool, sums: bool) -> _Value:
        """Products with axes (groups, ...) from `x` with (..., groups, summed) and `w` with (summed,
        groups, ...); without the axes of groups, or summed ones, if there are none."""
        free = len(x.shape) - groups - sums
        batching = f"[{free}] x [{int(sums)}]" if groups else "[] x []"
        summed = f"[{free + groups}] x [0]" if sums else "[] x []"
        text = f"stablehlo.dot_general {x.name}, {w.name}, batching_dims = {batching}, contracting_dims = {summed}"
        shape = (*x.shape[free : free + groups], *x.shape[:free], *w.shape[sums + groups :])
        return self._write(text, [x, w], shape)

    def add(self, x: _Value, y: _Value) -> _Value:
        return self._write(f"stablehlo.add {x.name}, {y.name}", [x, y], x.shape, x.element)

    def total(self, turns: int, shape: _Shape, turn: Callable[[_Value], _Value]) -> _Value:
        """The sum of what `turn` writes for the numbers up to `turns`, as a loop."""
        first, end, one = (self.constant(str(n), ()) for n in (0, turns, 1))
        zeros = self.constant("0.0", shape, "f64")
        name = f"{self.prefix}{len(self.lines)}"
        number, so_far = _Value(f"{name}_number", (), "i32"), _Value(f"{name}_total", shape)
        types = f"{number.type}, {so_far.type}"
        self.lines += [
            f"{name}:2 = stablehlo.while({number.name} = {first.name}, {so_far.name} = {zeros.name}) : {types}",
            "cond {",
            f"%again = stablehlo.compare LT, {number.name}, {end.name} : (tensor<i32>, tensor<i32>) -> tensor<i1>",
            "stablehlo.return %again : tensor<i1>",
            "} do {",
        ]
        summed, following = self.add(so_far, turn(number)), self.add(number, one)
        self.lines += [f"stablehlo.return {following.name}, {summed.name} : {types}", "}"]
        return _Value(f"{name}#1", shape)

    def _write(
        self, operation: str, operands: Sequence[_Value], shape: _Shape, element: str = "f64"
    ) -> _Value:
        result = _Value(f"{self.prefix}{len(self.lines)}", shape, element)
        types = ", ".join(operand.type for operand in operands)
        arguments = f"({types}) -> " if operands else ""
        self.lines.append(f"{result.name} = {operation} : {arguments}{result.type}")
        return result


@dataclass(frozen=True)
class _Convolution:
    """The attributes of an operation; its input becomes (batch, space..., features), its kernel
    (space..., features, outputs)."""

    x: _Shape
    w: tuple[int, ...]
    to_x: tuple[int, ...]
    """The axes of the input in this order."""
    to_w: tuple[int, ...]
    from_y: tuple[int, ...]
    """The axes of (batch, space..., outputs) in the order of the result."""
    space: tuple[int, ...]
    """Extents of the result."""
    strides: Sequence[int]
    low: Sequence[int]
    """Zeros before the input."""
    spread: Sequence[int]
    """The distance of elements of the input."""
    steps: Sequence[int]
    """The distance of elements of the kernel."""
    backward: Sequence[bool]
    groups: int

    def write(self, writer: _Writer, x: _Value, w: _Value) -> _Value:
        """The result as (batch, space..., outputs)."""
        x, w = writer.transpose(x, self.to_x), writer.transpose(w, self.to_w)
        (*kernel, features, outputs), groups = self.kernel, self.groups
        per_group = () if self.depthwise else (outputs // groups,)
        grouped = (groups,) if groups > 1 else ()
        summed = () if self.depthwise else (features,)
        w = writer.reshape(w, (math.prod(kernel), *summed, *grouped, *per_group))
        places = list(product(*map(range, kernel)))
        starts = [
            writer.constant(
                str([self._start(axis, place[axis]) for place in places]), (len(places),)
            )
            for axis in range(len(kernel))
        ]
        x, met = self._pad(writer, x)
        zero = writer.constant("0", ())

        def turn(number: _Value) -> _Value:
            at = [writer.element(start, number) for start in starts]
            part = writer.stride(writer.part(x, [zero, *at, zero], met), (1, *self.strides, 1))
            if grouped:
                part = writer.reshape(part, (*part.shape[:-1], *grouped, *summed))
            of_element = writer.element(w, number)
            return writer.dot(part, of_element, groups=bool(grouped), sums=bool(summed))

        places_of_result = (x.shape[0], *self.space)
        total = writer.total(len(places), (*grouped, *places_of_result, *per_group), turn)
        if grouped:
            behind = len(places_of_result) + 1
            total = writer.transpose(
                total, [*range(1, behind), 0, *range(behind, len(total.shape))]
            )
        return writer.reshape(total, (*places_of_result, outputs))

    @property
    def kernel(self) -> tuple[int, ...]:
        """The shape of the kernel in the order of `to_w`."""
        return tuple(self.w[axis] for axis in self.to_w)

    @property
    def depthwise(self) -> bool:
        """Whether each feature becomes one output."""
        *_, features, outputs = self.kernel
        return features == 1 and outputs == self.groups > 1

    def _start(self, axis: int, number: int) -> int:
        """Where an element of the kernel meets the padded input first."""
        last = self.kernel[axis] - 1
        return (last - number if self.backward[axis] else number) * self.steps[axis]

    def _pad(self, writer: _Writer, x: _Value) -> tuple[_Value, _Shape]:
        """The input with zeros, and the shape of the part of it that each element of the kernel meets."""
        edges, met = [(0, 0, 0)], [x.shape[0]]
        for axis, extent in enumerate(self.space):
            met.append((extent - 1) * self.strides[axis] + 1)
            behind = (self.kernel[axis] - 1) * self.steps[axis] + met[-1] - self.low[axis]
            reach = (x.shape[axis + 1] - 1) * self.spread[axis] + 1
            edges.append((self.low[axis], behind - reach, self.spread[axis] - 1))
        return writer.pad(x, [*edges, (0, 0, 0)]), (*met, x.shape[-1])


def _read(match: re.Match[str]) -> _Convolution | None:
    """None for a convolution that cannot be written out."""
    groups = dict(re.findall(r"(\w+) = (\d+)", match["groups"]))
    if "?" in match["xt"] or groups["batch_group_count"] != "1":
        return None
    x, w, y = (tuple(map(int, match[name].split("x"))) for name in ("xt", "wt", "yt"))
    if 0 in (*x, *w, *y):
        return None
    xs, ws, ys = (match[name].split(", ") for name in ("xs", "ws", "ys"))
    axes = [str(axis) for axis in range(len(x) - 2)]
    window = {name: _numbers(text) for name, text in _WINDOW.findall(match["window"])}
    ones, zeros = [1] * len(axes), [0] * len(axes)
    return _Convolution(
        x=x,
        w=w,
        to_x=tuple(map(xs.index, ("b", *axes, "f"))),
        to_w=tuple(map(ws.index, (*axes, "i", "o"))),
        from_y=tuple(("b", *axes, "f").index(label) for label in ys),
        space=tuple(y[ys.index(axis)] for axis in axes),
        strides=window.get("stride", ones),
        low=window.get("pad", [0, 0] * len(axes))[::2],
        spread=window.get("lhs_dilate", ones),
        steps=window.get("rhs_dilate", ones),
        backward=[bool(number) for number in window.get("reverse", zeros)],
        groups=int(groups["feature_group_count"]),
    )


def _multiplications(match: re.Match[str]) -> int:
    """Of a convolution, with 1 for what is not known."""
    ws = match["ws"].split(", ")
    w, y = (
        [int(extent.replace("?", "1")) for extent in match[name].split("x")]
        for name in ("wt", "yt")
    )
    w[ws.index("o")] = 1
    return math.prod(w) * math.prod(y)


def _numbers(text: str) -> list[int]:
    words = re.findall(r"-?\d+|true|false", text)
    return [int(word == "true") if word.isalpha() else int(word) for word in words]
