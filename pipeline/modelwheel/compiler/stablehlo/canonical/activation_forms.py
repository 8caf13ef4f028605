"""Activations in the form that the compiler makes part of products and convolutions, however they were written.

    %a = multiply %x, %half                                  %s = logistic %x
    %b = tanh %a                                             %y = multiply %x, %s
    %c = multiply %half, %b                          ->
    %d = add %c, %half
    %y = multiply %x, %d                                     all elements of %half are 0.5

SiLU alone is written in five ways: as a quotient, by tanh, with sigmoid written out. So an activation is found by what it computes:
a value is SiLU of another one if it is that at many points. The results differ by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from .. import op_text as o
from ..block_graph import BlockGraph
from ..mlir_text import Op
from ..written_functions import Arithmetic, KnownFunction, number_of
from .draft import Draft, Replacement

_ROOTS = frozenset(f"stablehlo.{n}" for n in ("add", "divide", "multiply", "power", "subtract"))
"""What the last operation of an activation is."""
_CURVED = frozenset(
    f"stablehlo.{name}"
    for name in ("clamp", "exponential", "logistic", "maximum", "minimum", "tanh")
) | {"chlo.erf", "chlo.erfc"}  # fmt: skip
_MOST_OPERATIONS = 24
_ROUNDING = 4e-7
_ROOT, _CUBIC = math.sqrt(2 / math.pi), 0.044715

_Form: TypeAlias = "str | float | tuple[Any, ...]"
"""`x`, a number, or an operation and what it reads."""


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _gelu_tanh(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(_ROOT * (x + _CUBIC * x**3)))


_INNER: _Form = ("add", "x", ("multiply", _CUBIC, ("multiply", "x", ("multiply", "x", "x"))))
_ACTIVATIONS: Mapping[str, tuple[Callable[[float], float], _Form]] = {
    "sigmoid": (_sigmoid, ("logistic", "x")),
    "tanh": (math.tanh, ("tanh", "x")),
    "silu": (lambda x: x * _sigmoid(x), ("multiply", "x", ("logistic", "x"))),
    "hard_swish": (
        lambda x: x * min(max(x + 3, 0), 6) / 6,
        ("multiply", ("multiply", "x", ("clamp", 0.0, ("add", "x", 3.0), 6.0)), 1 / 6),
    ),
    "gelu": (
        lambda x: 0.5 * x * (1 + math.erf(x * math.sqrt(0.5))),
        (
            "multiply",
            ("multiply", 0.5, "x"),
            ("add", 1.0, ("chlo.erf", ("multiply", "x", math.sqrt(0.5)))),
        ),
    ),
    "gelu_tanh": (
        _gelu_tanh,
        ("multiply", ("multiply", 0.5, "x"), ("add", 1.0, ("tanh", ("multiply", _ROOT, _INNER)))),
    ),
}
"""What each of them is, and its form."""
_FUNCTIONS = tuple(KnownFunction(name, form, _ROUNDING) for name, (form, _) in _ACTIVATIONS.items())


def rewrite_activation(
    graph: BlockGraph,
    op: Op,
    constants: Collection[str],  # noqa: ARG001 - numbers are in the text
) -> Replacement | None:
    """An activation in its own form, if it has another one."""
    if op.name not in _ROOTS or len(op.results) != 1:
        return None
    name = op.results[0][0]
    kind = graph.types.get(name)
    if kind is None or kind.element != "f32" or None in kind.shape:
        return None
    arithmetic = Arithmetic(graph.ops, op)
    if not arithmetic.has_any(_CURVED, _MOST_OPERATIONS):
        return None
    match = arithmetic.find(_FUNCTIONS, _MOST_OPERATIONS, 0)
    if match is None:
        return None
    argument, activation = match
    _, form = _ACTIVATIONS[activation]
    if graph.types.get(argument) != kind or _is(graph, name, argument, form):
        return None
    return _Written(Draft(graph, op), argument).finish(form)


def _is(graph: BlockGraph, name: str, argument: str, form: _Form) -> bool:
    """Whether a value is computed as a form says; the operands of sums and products may change places."""
    if form == "x" or name == argument:
        return form == "x" and name == argument
    op = graph.ops.get(name)
    number = None if op is None else number_of(op, graph.ops)
    if not isinstance(form, tuple) or number is not None or op is None:
        return (
            number is not None
            and isinstance(form, float)
            and math.isclose(number, form, rel_tol=2e-7)
        )
    if op.name != _operation(str(form[0])):
        return False
    operands, parts = graph.operands(op), form[1:]
    orders = [operands, operands[::-1]] if form[0] in ("add", "multiply") else [operands]
    return any(
        len(order) == len(parts)
        and all(_is(graph, n, argument, part) for n, part in zip(order, parts, strict=True))
        for order in orders
    )


def _operation(name: str) -> str:
    return name if "." in name else f"stablehlo.{name}"


class _Written:
    """Writes a form of a value."""

    def __init__(self, draft: Draft, argument: str) -> None:
        self._draft, self._argument = draft, argument
        self._kind = draft.type(argument)

    def finish(self, form: _Form) -> Replacement:
        """The replacement that computes a form."""
        return self._draft.finish(self._text(form))

    def _text(self, form: _Form) -> str:
        kind = o.written(self._kind)
        if not isinstance(form, tuple):
            return f"stablehlo.constant dense<{float(form):.9e}> : {kind}"
        operands = ", ".join(f"%{self._name(part)}" for part in form[1:])
        name = _operation(str(form[0]))
        types = f"{kind} -> {kind}" if name.startswith("chlo.") else kind
        return f"{name} {operands} : {types}"

    def _name(self, form: _Form) -> str:
        return self._argument if form == "x" else self._draft.add(self._text(form), self._kind)
