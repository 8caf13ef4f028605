"""Makes the features of images the last axis, as XLA and the runtime's kernels have them.

ONNX and PyTorch put features before places. XLA's convolutions have them last, so that it would exchange axes before and
after each convolution, and compute what is between in the order of the model. Here whole chains of operations are
computed in the other order; axes are exchanged where something else reads or writes a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_ELEMENTWISE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "ceil", "clamp", "compare", "convert", "divide", "exponential", "floor"),
        *("log", "log_plus_one", "logistic", "maximum", "minimum", "multiply", "negate", "power"),
        *("exponential_minus_one", "rsqrt", "select", "sign", "sqrt", "subtract", "tanh"),
    )
) | {"chlo.erf"}
_BROADCAST = "stablehlo.broadcast_in_dim"
_FIRST = re.compile(r"\[b, f, 0(, \d)*\]x(?P<kernel>\[[^]]*\])->\[b, f, 0(, \d)*\]")
"""The axes of a convolution with features first."""


def put_channels_last(module: Any) -> None:
    """Exchanges the axes in all functions of a StableHLO module.

    Args:
        module: A `torch_mlir.ir.Module`.
    """
    from torch_mlir.passmanager import PassManager

    for function in module.body.operations:
        for block in function.regions[0].blocks:
            _Block(module.context).rewrite(block)
    with module.context:
        PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)


class _Block:
    def __init__(self, context: Any) -> None:
        from torch_mlir import ir

        self._ir = ir
        self._context = context
        self._last: dict[Any, Any] = {}
        """Values with features last, by those with features first."""

    def rewrite(self, block: Any) -> None:
        for view in list(block.operations):
            operation = view.operation
            with self._context, operation.location, self._ir.InsertionPoint(operation):
                made = self._made(operation)
                if made is not None:
                    self._replace(operation.results[0], made)
                    operation.erase()

    def _made(self, operation: Any) -> Any | None:
        """The result of an operation with features last, if it is computed so."""
        if len(operation.results) != 1 or _rank(operation.results[0]) not in (3, 4, 5):
            return None
        if operation.name == "stablehlo.convolution":
            return self._convolution(operation)
        if not any(value in self._last for value in operation.operands):
            return None
        if operation.name in _ELEMENTWISE:
            return self._elementwise(operation)
        if operation.name == _BROADCAST:
            return self._repeated(operation)
        if operation.name == "stablehlo.reduce_window":
            return self._windows(operation)
        return None

    def _replace(self, before: Any, after: Any) -> None:
        """Readers that need features first get them so; nobody computes them if there are none."""
        rank = _rank(after)
        back = self._transpose(after, [0, rank - 1, *range(1, rank - 1)])
        self._last[back] = after
        before.replace_all_uses_with(back)

    def _convolution(self, operation: Any) -> Any | None:
        numbers = _FIRST.search(str(operation.attributes["dimension_numbers"]))
        if numbers is None:
            return None
        rank = _rank(operation.results[0])
        axes = f"[b, {', '.join(map(str, range(rank - 2)))}, f]"
        changed = self._ir.Attribute.parse(f"#stablehlo.conv<{axes}x{numbers['kernel']}->{axes}>")
        return self._create(
            operation,
            [self._moved(operation.operands[0]), operation.operands[1]],
            {"dimension_numbers": changed},
        )

    def _elementwise(self, operation: Any) -> Any:
        # Conditions and limits may be scalars.
        operands = [v if _rank(v) == 0 else self._moved(v) for v in operation.operands]
        if operation.name == "stablehlo.multiply":
            operands = self._one_scale(*operands)
        return self._create(operation, operands, {})

    def _one_scale(self, x: Any, scale: Any) -> list[Any]:
        """The factors of a batch normalisation with one scale in place of two, the inverse deviation and a weight."""
        inner, outer = _owner(x, "stablehlo.multiply"), _owner(scale, _BROADCAST)
        first = None if inner is None else _owner(inner.operands[1], _BROADCAST)
        if inner is None or outer is None or first is None:
            return [x, scale]
        deviation, weight = first.operands[0], outer.operands[0]
        axes = [broadcast.attributes["broadcast_dimensions"] for broadcast in (first, outer)]
        if getattr(_behind(deviation), "name", None) != "stablehlo.rsqrt" or axes[0] != axes[1]:
            return [x, scale]
        if deviation.type != weight.type:
            return [x, scale]
        product = self._ir.Operation.create(
            "stablehlo.multiply", results=[weight.type], operands=[deviation, weight]
        )
        spread = self._ir.Operation.create(
            _BROADCAST,
            results=[scale.type],
            operands=[product.results[0]],
            attributes=dict(outer.attributes.items()),
        )
        return [inner.operands[0], spread.results[0]]

    def _repeated(self, operation: Any) -> Any | None:
        """A broadcast along axes of one element; the attribute names all axes in order, in the other order too."""
        (operand,) = operation.operands
        axes = list(operation.attributes["broadcast_dimensions"])
        if axes != list(range(_rank(operation.results[0]))):
            return None
        return self._create(operation, [self._moved(operand)], {})

    def _windows(self, operation: Any) -> Any | None:
        if len(operation.operands) != 2:
            return None
        ir, changed = self._ir, {}
        for name, value in operation.attributes.items():
            if name == "padding":
                pairs = list(value)
                pairs = [pairs[i : i + 2] for i in range(0, len(pairs), 2)]
                flat = ", ".join(str([low, high]) for low, high in _permuted(pairs))
                changed[name] = ir.Attribute.parse(f"dense<[{flat}]> : tensor<{len(pairs)}x2xi64>")
            else:
                changed[name] = ir.DenseI64ArrayAttr.get(_permuted(list(value)))
        operands = [self._moved(operation.operands[0]), operation.operands[1]]
        return self._create(operation, operands, changed)

    def _create(self, operation: Any, operands: Sequence[Any], changed: dict[str, Any]) -> Any:
        """The operation on values with features last."""
        attributes = dict(operation.attributes.items())
        made = self._ir.Operation.create(
            operation.name,
            results=[self._type(operation.results[0])],
            operands=operands,
            attributes={**attributes, **changed},
            regions=len(operation.regions),
        )
        for before, after in zip(operation.regions, made.regions, strict=True):
            for block in before.blocks:
                block.append_to(after)
        return made.results[0]

    def _moved(self, value: Any) -> Any:
        """A value with features last."""
        if value not in self._last:
            self._last[value] = self._made_last(value)
        return self._last[value]

    def _made_last(self, value: Any) -> Any:
        rank = _rank(value)
        owner = _owner(value, _BROADCAST)
        if owner is not None:
            places = {axis: place for place, axis in enumerate(_permuted(list(range(rank))))}
            axes = [places[axis] for axis in owner.attributes["broadcast_dimensions"]]
            return self._spread(value, owner.operands[0], axes)
        return self._transpose(value, _permuted(list(range(rank))))

    def _spread(self, value: Any, operand: Any, axes: list[int]) -> Any:
        """A broadcast along other axes."""
        if sorted(axes) != axes:
            # Its axes must ascend: those of one element may be anywhere.
            operand = self._transpose(operand, [axes.index(axis) for axis in sorted(axes)])
        made = self._ir.Operation.create(
            _BROADCAST,
            results=[self._type(value)],
            operands=[operand],
            attributes={"broadcast_dimensions": self._ir.DenseI64ArrayAttr.get(sorted(axes))},
        )
        return made.results[0]

    def _transpose(self, value: Any, order: Sequence[int]) -> Any:
        shape = value.type
        made = self._ir.RankedTensorType.get(
            [shape.shape[axis] for axis in order], shape.element_type
        )
        return self._ir.Operation.create(
            "stablehlo.transpose",
            results=[made],
            operands=[value],
            attributes={"permutation": self._ir.DenseI64ArrayAttr.get(list(order))},
        ).results[0]

    def _type(self, value: Any) -> Any:
        shape = value.type
        return self._ir.RankedTensorType.get(_permuted(list(shape.shape)), shape.element_type)


def _permuted(values: list[Any]) -> list[Any]:
    """Values that belong to axes in their order with features last."""
    return [values[0], *values[2:], values[1]]


def _owner(value: Any, name: str) -> Any | None:
    """The operation that computes a value, if it is called so."""
    # The owner of an argument is a block.
    owner = value.owner
    return owner if getattr(owner, "name", None) == name else None


def _behind(value: Any) -> Any:
    """The operation that computes a value, behind changes of its shape."""
    while (
        moved := _owner(value, "stablehlo.transpose") or _owner(value, "stablehlo.reshape")
    ) is not None:
        value = moved.operands[0]
    return value.owner


def _rank(value: Any) -> int:
    """The number of axes; -1 if it is not known."""
    return int(value.type.rank) if value.type.has_rank else -1
