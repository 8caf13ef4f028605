"""Constant factors and summands around a product or convolution become part of its weights and of one bias.

    %y = convolution(%x, %w) ... : (tensor<1x8x8x4xf32>, tensor<1x1x4x6xf32>) -> tensor<1x8x8x6xf32>
    %z = multiply %y, %half : tensor<1x8x8x6xf32>            all elements of %half are one number
->
    %v = multiply %w, %half_of_w : tensor<1x1x4x6xf32>       computed while XLA compiles
    %z = convolution(%x, %v) ... : (tensor<1x8x8x4xf32>, tensor<1x1x4x6xf32>) -> tensor<1x8x8x6xf32>

and before a layer (`%y = convolution(multiply(%x, %half), %w)`) likewise; summands before one become a bias, where no window
reaches beyond the data and another layer has computed it: inputs of a model may be so large that their difference from the summand
is all that counts. Paddle's PP-LCNet has such factors and summands behind each layer and each activation.

It is done where the runtime's kernels do not apply them to the sums in registers, which are a bias, a factor and a summand for
each feature, in this order. The result differs by rounding, as it does where XLA orders a sum in another way.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .. import op_text as o
from ..block_graph import BlockGraph
from ..mlir_text import Op
from .draft import Draft, Replacement, repeated_axes, reshaped_axes
from .layers import Layer, is_constant, read_layer

_FITS = re.compile(r"a?(?:ma?)?")
"""What an epilogue has: bias, factor, summand. Two summands in turn are one."""
_ELEMENTWISE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "clamp", "divide", "exponential", "logistic", "maximum", "minimum"),
        *("multiply", "negate", "select", "subtract", "tanh"),
    )
) | {"chlo.erf", "chlo.erfc"}  # fmt: skip
_SMALL = 1 << 16
"""Elements of weights of which there may be two copies."""
_MOST_STEPS = 12
"""Between a layer and the next one, where that decides anything."""


@dataclass(frozen=True)
class _Affine:
    """A value times or plus a constant, or another one of the same elements."""

    kind: Literal["multiply", "add", "move"]
    value: str
    """What it is computed from."""
    constant: str = ""
    inverted: bool = False
    """Whether the constant divides, or is subtracted."""


def _read_affine(graph: BlockGraph, op: Op, constants: Collection[str]) -> _Affine | None:
    operands, name = graph.operands(op), op.name.removeprefix("stablehlo.")
    if name in ("reshape", "transpose") and len(operands) == 1:
        return _Affine("move", operands[0])
    if name not in ("add", "divide", "multiply", "subtract") or len(operands) != 2:
        return None
    constant = [is_constant(graph, operand, constants) for operand in operands]
    if constant[0] == constant[1] or (constant[0] and name in ("divide", "subtract")):
        return None
    value, other = operands if constant[1] else operands[::-1]
    kind: Literal["multiply", "add"] = "multiply" if name in ("divide", "multiply") else "add"
    return _Affine(kind, value, other, name in ("divide", "subtract"))


def _is_read_once(graph: BlockGraph, name: str) -> bool:
    return len(graph.readers(name)) == 1 and not graph.is_read_inside(name)


def _may_scale(graph: BlockGraph, weights: str) -> bool:
    """Whether weights are small, or nothing else reads them: scaled ones are stored beside those that others read."""
    name, kind = weights, graph.types[weights]
    if math.prod(extent or 0 for extent in kind.shape) <= _SMALL:
        return True
    while _is_read_once(graph, name):
        op = graph.own.get(name)
        operands = graph.operands(op) if op is not None else []
        if len(operands) != 1:
            return True
        (name,) = operands
    return False


class _Sums:
    """Constants of the features of a layer, in its weights and in one bias."""

    def __init__(self, draft: Draft, element: str) -> None:
        self._draft, self._element = draft, element
        self.factor: str | None = None
        self.summand: str | None = None

    def apply(self, step: _Affine, constant: str) -> None:
        """A further step, with its constant as an array of the features."""
        draft = self._draft
        if step.kind == "add":
            value = draft.unary("negate", constant) if step.inverted else constant
            self.summand = (
                value if self.summand is None else draft.binary("add", self.summand, value)
            )
            return
        value = self._inverse(constant) if step.inverted else constant
        if self.summand is not None:
            self.summand = draft.binary("multiply", self.summand, value)
        self.factor = value if self.factor is None else draft.binary("multiply", self.factor, value)

    def _inverse(self, constant: str) -> str:
        one = self._draft.number(1.0, self._element)
        one = self._draft.broadcast(one, [], self._draft.type(constant).shape)
        return self._draft.binary("divide", one, constant)


# --- after a layer --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Chain:
    """The steps that follow a layer up to a value, the nearest step first."""

    layer: Layer
    steps: tuple[tuple[_Affine, str], ...]
    """Each with the name of its result."""


def fold_after_layer(graph: BlockGraph, op: Op, constants: Collection[str]) -> Replacement | None:
    """The last of some factors and summands behind a layer, as a layer with other weights and a bias."""
    chain = _read_chain(graph, op, constants)
    if chain is None or not _may_scale(graph, chain.layer.weights):
        return None
    draft = Draft(graph, op)
    layer, features = chain.layer, sorted(chain.layer.features)
    shape = [layer.result.shape[axis] for axis in features]
    sums, order = _Sums(draft, layer.result.element), ""
    places: Mapping[int, int] = {axis: axis for axis in features}
    """The axes of a step's result that are those of the layer's."""
    steps: list[tuple[_Affine, str]] = []
    for step, result in chain.steps:
        if step.kind == "move":
            places = _moved(graph, step.value, result, places)
            continue
        repeated = repeated_axes(graph, step.constant)
        axes = [a for a in range(len(graph.types[step.constant].shape)) if a not in repeated]
        if not set(axes) <= set(places):
            return None
        order += step.kind[0] if axes else step.kind[0].upper()
        plain = draft.without(step.constant, repeated)
        steps.append((step, draft.spread(plain, [features.index(places[a]) for a in axes], shape)))
    if _FITS.fullmatch(order) or order == "A":
        return None
    for step, constant in steps:
        sums.apply(step, constant)
    weights = _scaled(draft, layer, sums.factor, [layer.features[axis] for axis in features])
    return _write_chain(draft, graph, chain, weights, sums.summand)


def _read_chain(graph: BlockGraph, op: Op, constants: Collection[str]) -> _Chain | None:
    steps: list[tuple[_Affine, str]] = []
    current = op
    while len(steps) < _MOST_STEPS:
        name = current.results[0][0] if len(current.results) == 1 else ""
        if not name or (steps and not _is_read_once(graph, name)):
            return None
        layer = read_layer(graph, current, constants)
        if layer is not None:
            return _Chain(layer, tuple(steps[::-1])) if steps else None
        step = _read_affine(graph, current, constants)
        if step is None or step.value not in graph.own or (not steps and step.kind == "move"):
            return None
        steps.append((step, name))
        current = graph.own[step.value]
    return None


def _moved(
    graph: BlockGraph, value: str, result: str, places: Mapping[int, int]
) -> Mapping[int, int]:
    """Where axes are after a reshape or transpose; those that it splits or joins are left out."""
    op = graph.own[result]
    order = o.dimensions(op.text)
    if op.name == o.TRANSPOSE and order is not None:
        return {order.index(axis): place for axis, place in places.items()}
    shapes = graph.types[value].shape, graph.types[result].shape
    return {
        after[0]: places[before[0]]
        for before, after in reshaped_axes(*shapes)
        if len(before) == len(after) == 1 and before[0] in places
    }


def _scaled(draft: Draft, layer: Layer, factor: str | None, axes: Sequence[int]) -> str:
    """The weights times a factor whose axes are these of the weights."""
    if factor is None:
        return layer.weights
    shape = draft.type(layer.weights).shape
    return draft.binary("multiply", layer.weights, draft.spread(factor, axes, shape))


def _write_chain(
    draft: Draft, graph: BlockGraph, chain: _Chain, weights: str, bias: str | None
) -> Replacement:
    """The layer, an array of its features that is added, and then all that only moves elements."""
    layer = chain.layer
    made = layer.result
    text = layer.write(layer.data, weights, (graph.types[layer.data], draft.type(weights)))
    if bias is not None:
        name = draft.add(text, made)
        wide = draft.spread(bias, sorted(layer.features), made.shape)
        text = f"stablehlo.add %{name}, %{wide} : {o.written(made)}"
    for step, result in chain.steps:
        if step.kind == "move":
            op, source, name = graph.own[result], made, draft.add(text, made)
            order = o.dimensions(op.text) if op.name == o.TRANSPOSE else None
            made = graph.types[result]
            moved = o.reshape(name, source, made)
            text = moved if order is None else o.transpose(name, source, made, order)
    return draft.finish(text)


# --- before a layer -------------------------------------------------------------------------------


def fold_before_layer(graph: BlockGraph, op: Op, constants: Collection[str]) -> Replacement | None:
    """A layer whose data have one factor or summand for all elements, as one of what is before these."""
    layer = read_layer(graph, op, constants)
    if layer is None or not _may_scale(graph, layer.weights):
        return None
    steps: list[_Affine] = []
    data = layer.data
    while data in graph.own and _is_read_once(graph, data) and len(steps) < _MOST_STEPS:
        step = _read_affine(graph, graph.own[data], constants)
        if step is None or step.kind == "move" or not _is_uniform(graph, step.constant):
            break
        if step.kind == "add" and not (layer.takes_sums and _follows_layer(graph, step.value)):
            break
        steps.append(step)
        data = step.value
    if not steps:
        return None
    draft = Draft(graph, op)
    sums = _Sums(draft, layer.result.element)
    for step in steps[::-1]:
        rank = len(graph.types[step.constant].shape)
        sums.apply(step, draft.without(step.constant, range(rank)))
    weights = _scaled(draft, layer, sums.factor, [])
    text = layer.write(data, weights, (graph.types[data], draft.type(weights)))
    if sums.summand is None:
        return draft.finish(text)
    # What the layer makes of the summand: it times the sum of the weights, which are not scaled.
    bias = draft.total(layer.weights, layer.summed)
    bias = draft.binary("multiply", bias, draft.spread(sums.summand, [], draft.type(bias).shape))
    kept = [a for a in range(len(draft.type(layer.weights).shape)) if a not in layer.summed]
    axes = {axis: feature for feature, axis in layer.features.items()}
    wide = draft.spread(bias, [axes[axis] for axis in kept], layer.result.shape)
    name = draft.add(text, layer.result)
    return draft.finish(f"stablehlo.add %{name}, %{wide} : {o.written(layer.result)}")


def _is_uniform(graph: BlockGraph, name: str) -> bool:
    return len(repeated_axes(graph, name)) == len(graph.types[name].shape)


def _follows_layer(graph: BlockGraph, name: str) -> bool:
    """Whether a value is computed, element by element, from the result of a product."""
    waiting, seen = [name], {name}
    for current in waiting:  # grows while it is walked
        op = graph.own.get(current)
        if op is None or len(seen) > _MOST_STEPS * 4:
            continue
        if op.name in ("stablehlo.convolution", "stablehlo.dot_general"):
            return True
        if op.name in _ELEMENTWISE:
            new = [operand for operand in graph.operands(op) if operand not in seen]
            seen.update(new)
            waiting += new
    return False
