"""What modules compute before and after they are brought into canonical form: `python -m tests.models.canonical_forms`.

Writes for each module the largest difference of its result relative to the largest number in it, and whether the text changed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from modelwheel.compiler.stablehlo.canonical import canonical_form
from modelwheel.compiler.stablehlo.xla_module import call_module, run_passes

_RANDOM = np.random.default_rng(3)


def _kind(shape: Sequence[int]) -> str:
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}f32>"


class _Text:
    """Operations of a module, one after another."""

    def __init__(self, *inputs: Sequence[int]) -> None:
        self.inputs, self.lines = inputs, list[str]()
        self.shapes = {f"%arg{n}": tuple(shape) for n, shape in enumerate(inputs)}

    def __call__(self, op: str, shape: Sequence[int], *operands: str, attributes: str = "") -> str:
        name = f"%{len(self.lines)}"
        given = ", ".join(_kind(self.shapes[one]) for one in operands)
        self.lines.append(
            f'{name} = "stablehlo.{op}"({", ".join(operands)}) {attributes} : ({given}) -> {_kind(shape)}'
        )
        self.shapes[name] = tuple(shape)
        return name

    def number(self, value: float, shape: Sequence[int]) -> str:
        return self("constant", shape, attributes=f"{{value = dense<{value}> : {_kind(shape)}}}")

    def weights(self, *shape: int) -> str:
        values = _RANDOM.normal(size=shape).astype("<f4").tobytes().hex().upper()
        return self(
            "constant", shape, attributes=f'{{value = dense<"0x{values}"> : {_kind(shape)}}}'
        )

    def moved(self, x: str, order: Sequence[int]) -> str:
        shape = [self.shapes[x][axis] for axis in order]
        return self(
            "transpose", shape, x, attributes=f"{{permutation = array<i64: {_list(order)}>}}"
        )

    def repeated(self, x: str, axes: Sequence[int], shape: Sequence[int]) -> str:
        axes_ = f"{{broadcast_dimensions = array<i64: {_list(axes)}>}}"
        return self("broadcast_in_dim", shape, x, attributes=axes_)

    def product(
        self, x: str, y: str, batch: Sequence[Sequence[int]], contracting: Sequence[Sequence[int]]
    ) -> str:
        shapes, pairs = (self.shapes[x], self.shapes[y]), list(zip(batch, contracting, strict=True))
        free = [
            [extent for axis, extent in enumerate(shape) if axis not in (*one, *other)]
            for shape, (one, other) in zip(shapes, pairs, strict=True)
        ]
        made = [*(shapes[0][axis] for axis in batch[0]), *free[0], *free[1]]
        numbers = ", ".join(
            f"{side}_{name}_dimensions = [{_list(axes)}]"
            for name, both in (("batching", batch), ("contracting", contracting))
            for side, axes in zip(("lhs", "rhs"), both, strict=True)
            if axes
        )
        return self(
            "dot_general",
            made,
            x,
            y,
            attributes=f"{{dot_dimension_numbers = #stablehlo.dot<{numbers}>}}",
        )

    def reduced(self, x: str, axis: int, op: str, start: str) -> str:
        """A reduction of one axis, which is repeated again."""
        scalar, shape = f"%{len(self.lines)}", self.shapes[x]
        self.lines.append(f"{scalar} = stablehlo.constant dense<{start}> : tensor<f32>")
        small = [extent for number, extent in enumerate(shape) if number != axis]
        name, types = f"%{len(self.lines)}", f"({_kind(shape)}, tensor<f32>) -> {_kind(small)}"
        applied = f"applies stablehlo.{op} across dimensions = [{axis}]"
        self.lines.append(f"{name} = stablehlo.reduce({x} init: {scalar}) {applied} : {types}")
        self.shapes[name] = tuple(small)
        return self.repeated(name, [n for n in range(len(shape)) if n != axis], shape)

    def module(self, result: str) -> str:
        arguments = ", ".join(f"%arg{n}: {_kind(shape)}" for n, shape in enumerate(self.inputs))
        body, kind = "\n".join(self.lines), _kind(self.shapes[result])
        text = f"module {{ func.func public @main({arguments}) -> {kind} {{\n{body}\nreturn {result} : {kind} }} }}"
        return run_passes(text.encode(), "canonicalize")


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _repeated_operand() -> tuple[_Text, str]:
    """A product whose axes are in any order, and one operand of which is repeated along some of the batch."""
    extents = {"b": 3, "h": 2, "m": 4, "n": 5, "k": 6}
    left, right = ("".join(_RANDOM.permutation(list(axes))) for axes in ("bhmk", "bhnk"))
    gone = "b" if _RANDOM.random() < 0.6 else "bh"
    side = int(_RANDOM.random() < 0.6)
    small = "".join(one for one in (left, right)[side] if one not in gone)
    whole = (left, right)[1 - side]
    t = _Text([extents[one] for one in whole], [extents[one] for one in small])
    target = (left, right)[side]
    order = list(_RANDOM.permutation(len(target)))
    # A broadcast to axes in another order, and then a transpose.
    wide = "".join(target[axis] for axis in order)
    moved = t.moved("%arg1", [small.index(one) for one in wide if one in small])
    axes = [axis for axis, one in enumerate(wide) if one in small]
    repeated = t.repeated(moved, axes, [extents[one] for one in wide])
    operand = t.moved(repeated, [wide.index(one) for one in target])
    pair = ("%arg0", operand) if side else (operand, "%arg0")
    batch = [[text.index(one) for one in "bh"] for text in (left, right)]
    return t, t.product(*pair, batch, [[text.index("k")] for text in (left, right)])


def _affine(t: _Text, x: str, axis: int) -> str:
    """Some factors and summands, each one number or one for each feature."""
    shape = t.shapes[x]
    for op in _RANDOM.choice(["multiply", "add", "divide", "subtract"], 3):
        if _RANDOM.random() < 0.5:
            other = t.number(round(float(_RANDOM.uniform(0.5, 2)), 3), shape)
        else:
            other = t.repeated(t.weights(shape[axis]), [axis], shape)
        x = t(str(op), shape, x, other)
    return x


def _layers() -> tuple[_Text, str]:
    """Two layers, with factors and summands behind each of them."""
    t = _Text([2, 7, 8])
    x = t.product("%arg0", t.weights(8, 6), [[], []], [[2], [0]])
    x = t("reshape", [14, 6], _affine(t, x, 2)) if _RANDOM.random() < 0.5 else _affine(t, x, 2)
    x = _affine(t, x, len(t.shapes[x]) - 1)
    x = t("tanh", t.shapes[x], x)
    for number in (0.25, 1.5):
        x = t(
            str(_RANDOM.choice(["add", "multiply"])), t.shapes[x], x, t.number(number, t.shapes[x])
        )
    x = t.product(x, t.weights(6, 5), [[], []], [[len(t.shapes[x]) - 1], [0]])
    return t, _affine(t, x, len(t.shapes[x]) - 1)


def _softmax() -> tuple[_Text, str]:
    """Along any axis, of what is transposed or not, and perhaps with a product behind it."""
    extents = [2, 3, 4, 5]
    order, axis = list(_RANDOM.permutation(4)), int(_RANDOM.integers(4))
    t = _Text([extents[n] for n in order], extents, [2, 3, 4, 7])
    x = t.moved("%arg0", [order.index(n) for n in range(4)])
    x = t("add", extents, x, "%arg1")
    x = t(
        "exponential",
        extents,
        t("subtract", extents, x, t.reduced(x, axis, "maximum", "0xFF800000")),
    )
    x = t("divide", extents, x, t.reduced(x, axis, "add", "0.0"))
    if axis == 2:
        x = t.product(x, "%arg2", [[1, 0], [1, 0]], [[2], [2]])
    return t, x


def _results(text: str, inputs: Sequence[Any]) -> Any:
    kind = re.findall(r"-> tensor<((?:\d+x)*)f32>", text.split("\n")[1])[0]
    shape = tuple(map(int, kind.split("x")[:-1]))
    (found,) = call_module(text, inputs, [("float32", shape)])
    return found.numpy()


def _modules() -> Iterator[tuple[str, _Text, str]]:
    for number in range(6):
        yield f"repeated {number}", *_repeated_operand()
    for number in range(8):
        yield f"layers {number}", *_layers()
    for number in range(6):
        yield f"softmax {number}", *_softmax()


def main() -> None:
    """Writes the differences as JSON."""
    found = {}
    for name, t, result in _modules():
        text = t.module(result)
        changed = canonical_form(text)
        inputs = [_RANDOM.normal(size=shape).astype(np.float32) for shape in t.inputs]
        before, after = (_results(one, inputs) for one in (text, changed))
        found[name] = [float(np.abs(before - after).max() / np.abs(before).max()), changed != text]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
