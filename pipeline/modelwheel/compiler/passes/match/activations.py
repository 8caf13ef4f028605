"""Finds activation functions in the computations of fusions: tanh, sigmoid, SiLU, GELU, hard SiLU, and rectifiers.

XLA writes most of them as arithmetic (xla/hlo/transforms/expanders/logistic_expander.cc, `Erfc` in
xla/hlo/builder/lib/math.cc, `materializeErfc` in stablehlo/transforms/ChloLegalizeToStablehlo.cpp). An activation is found if the instructions are its definition, down to the last constant;
operands that may be exchanged may be in any order.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ....program import ops
from ...ir.hlo import Instruction
from ...ir.match import scalar_of
from .rectifiers import ROOTS, find_rectifier

_COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum"})
_ROOTS = frozenset({"tanh", "logistic", "divide", "multiply"})
"""The last operations of activations."""
_Form: TypeAlias = int
"""The number of an expression: equal expressions have equal numbers."""


class _Forms:
    """Numbers expressions of one argument."""

    argument: _Form = 0

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], _Form] = {}

    def constant(self, value: float) -> _Form:
        """A number, as the nearest 32-bit float."""
        return self._number(("constant", struct.pack("<f", value)))

    def of(self, opcode: str, *operands: _Form) -> _Form:
        """An operation on expressions."""
        ordered = sorted(operands) if opcode in _COMMUTATIVE else operands
        return self._number((opcode, *ordered))

    def horner(self, x: _Form, first: float, *rest: float) -> _Form:
        """A polynomial, from its highest power on."""
        value = self.constant(first)
        for coefficient in rest:
            value = self.of("add", self.of("multiply", value, x), self.constant(coefficient))
        return value

    def _number(self, key: tuple[object, ...]) -> _Form:
        return self._numbers.setdefault(key, len(self._numbers) + 1)


def _sigmoid(f: _Forms) -> _Form:
    one = f.constant(1)
    power = f.of("exponential", f.of("negate", f.argument))
    return f.of("divide", one, f.of("add", one, power))


def _erfc(f: _Forms, x: _Form) -> _Form:
    """1 - x P(x^2) up to 1, exp(-x^2) times a quotient of polynomials of 1 / x^2 beyond."""
    one, size, square = f.constant(1), f.of("abs", x), f.of("multiply", x, x)
    inverse = f.of("divide", one, square)
    over = (0.10208116471767426, 0.4292066693305969, 0.3237907886505127, 0.05397197604179382)
    under = (0.017251677811145782, 0.39137163758277893, 1, 0.6217324137687683, 0.09566286206245422)
    near = (
        *(0.0005618022987619042, -0.004913816694170237, 0.026707515120506287),
        *(-0.11280010640621185, 0.37612295150756836, -1.1283791065216064),
    )
    limited = f.of("minimum", size, f.constant(10.06))
    quotient = f.of(
        "divide", f.horner(inverse, *over), f.of("multiply", limited, f.horner(inverse, *under))
    )
    tail = f.of("multiply", f.of("exponential", f.of("negate", square)), quotient)
    negative = f.of("compare LT", x, f.constant(0))
    beyond = f.of("select", negative, f.of("subtract", f.constant(2), tail), tail)
    inside = f.of("add", f.of("multiply", x, f.horner(square, *near)), one)
    return f.of("select", f.of("compare GT", size, one), beyond, inside)


def _erfc_of_chlo(f: _Forms, x: _Form) -> _Form:
    """The form that `chlo.erfc` becomes: between 1 and 2 another polynomial of 1 / x^2 than beyond."""
    zero, one, two = (f.constant(number) for number in (0, 1, 2))
    size, square = f.of("abs", x), f.of("multiply", x, x)
    negative, inverse = f.of("negate", square), f.of("divide", one, square)
    middle = (
        *(0.0232682, -0.138703942, 0.368742466, -0.582473278, 0.621000469),
        *(-0.494451523, 0.340488, -0.274112701, 0.563825965),
    )
    far = (
        *(-10.477664, 12.9772, -7.49551868, 2.92101908),
        *(-1.01526523, 0.42184633, -0.282076746, 0.564189494),
    )
    near = (
        *(7.85386146e-05, -0.000801019371, 0.00518832775, -0.0268538129),
        *(0.112835854, -0.37612626, 1.12837911),
    )
    polynomials = f.horner(inverse, *middle), f.horner(inverse, *far)
    polynomial = f.of("select", f.of("compare LT", size, two), *polynomials)
    power = f.of("multiply", f.of("exponential", negative), f.of("divide", one, size))
    least = f.of("compare LT", negative, f.constant(-88.7228394))
    tail = f.of("select", least, zero, f.of("multiply", power, polynomial))
    below = f.of("compare LT", x, zero)
    beyond = f.of("select", below, f.of("subtract", two, tail), tail)
    inside = f.of("subtract", one, f.of("multiply", x, f.horner(square, *near)))
    return f.of("select", f.of("compare LT", size, one), inside, beyond)


def _definitions(f: _Forms) -> Iterator[tuple[_Form, ops.Activation]]:
    x, one = f.argument, f.constant(1)
    root = f.constant(0.5**0.5)
    yield f.of("tanh", x), "tanh"
    for sigmoid in (f.of("logistic", x), _sigmoid(f)):
        yield sigmoid, "sigmoid"
        yield f.of("multiply", x, sigmoid), "silu"
    erf = f.of("erf", f.of("multiply", x, root))
    below = f.of("multiply", f.of("negate", x), root)
    for shares in (_erfc(f, below), _erfc_of_chlo(f, below), f.of("add", one, erf)):
        yield from ((form, "gelu") for form in _half_of_x_times(f, shares))
    for inner in _cubic(f):
        shares = f.of("add", one, f.of("tanh", inner))
        yield from ((form, "gelu_tanh") for form in _half_of_x_times(f, shares))
    yield from _hard_swish(f)


def _half_of_x_times(f: _Forms, factor: _Form) -> Iterator[_Form]:
    """The product in any order: frameworks and the exporters of models differ."""
    return _product(f, f.constant(0.5), f.argument, factor)


def _product(f: _Forms, *factors: _Form) -> Iterator[_Form]:
    """A product of three factors, in any order."""
    for last, first, second in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
        yield f.of("multiply", f.of("multiply", factors[first], factors[second]), factors[last])


def _cubic(f: _Forms) -> Iterator[_Form]:
    """The square root of 2 / pi, times x + 0.044715 x^3: with x factored out or not."""
    x, cubic = f.argument, f.constant(0.044715)
    square = f.of("multiply", x, x)
    root = math.sqrt(2 / math.pi)
    # The root of a rounded number, as torch-mlir writes it, is another float.
    for scale in (f.constant(root), f.constant(root - 2**-24)):
        yield from _scaled_cubic(f, scale, cubic, square)


def _scaled_cubic(f: _Forms, scale: _Form, cubic: _Form, square: _Form) -> Iterator[_Form]:
    x = f.argument
    for summand in (
        f.of("multiply", cubic, f.of("multiply", x, square)),
        f.of("multiply", f.of("multiply", f.of("multiply", cubic, x), x), x),
        f.of("multiply", f.of("multiply", cubic, x), square),
        f.of("multiply", x, f.of("multiply", cubic, square)),
    ):
        yield f.of("multiply", scale, f.of("add", x, summand))
    for share in (f.of("multiply", cubic, square), f.of("multiply", x, f.of("multiply", cubic, x))):
        yield from _product(f, x, scale, f.of("add", f.constant(1), share))


def _hard_swish(f: _Forms) -> Iterator[tuple[_Form, ops.Activation]]:
    x, zero, six = f.argument, f.constant(0), f.constant(6)
    raised = f.of("add", x, f.constant(3))
    above = f.of("maximum", raised, zero)
    for limited in (f.of("clamp", zero, raised, six), f.of("minimum", above, six)):
        gated = f.of("multiply", x, limited)
        yield gated, "hard_swish_6"
        sixth = f.constant(1 / 6)
        yield f.of("multiply", gated, sixth), "hard_swish"
        yield f.of("divide", gated, six), "hard_swish"
        yield f.of("multiply", x, f.of("multiply", limited, sixth)), "hard_swish"


@dataclass(frozen=True)
class Found:
    """An activation, and the instruction whose value it takes."""

    activation: ops.Activation
    argument: Instruction
    slope: float | None = None
    """Of a rectifier, below 0."""
    factor: float | None = None
    """The number by which the activation is multiplied."""


class Activations:
    """Looks for activations in the computations of a module."""

    def __init__(self) -> None:
        self._forms = _Forms()
        self._known = dict(_definitions(self._forms))

    def find(self, node: Instruction) -> Found | None:
        """The activation whose value an instruction has, or None."""
        if node.opcode in ROOTS:
            rectifier = find_rectifier(node)
            if rectifier is None:
                return None
            factor = None if rectifier.factor == 1 else rectifier.factor
            return Found(rectifier.activation, rectifier.argument, rectifier.slope, factor)
        if node.opcode not in _ROOTS:
            return None
        before: dict[Instruction, None] = {}
        self._collect(node, before)
        for argument in before:
            activation = self._known.get(self._form(node, argument, {}))
            if activation is not None:
                return Found(activation, argument)
        return None

    def _collect(self, node: Instruction, nodes: dict[Instruction, None]) -> None:
        """Adds the instructions that a value is computed from."""
        for operand in node.operands:
            if operand not in nodes:
                nodes[operand] = None
                self._collect(operand, nodes)

    def _form(
        self, node: Instruction, argument: Instruction, known: dict[Instruction, _Form]
    ) -> _Form:
        """The value of an instruction as an expression of the value of another."""
        if node is argument:
            return self._forms.argument
        if node not in known:
            known[node] = self._new_form(node, argument, known)
        return known[node]

    def _new_form(
        self, node: Instruction, argument: Instruction, known: dict[Instruction, _Form]
    ) -> _Form:
        operands = node.operands
        if node.opcode == "constant" and (number := scalar_of(node)) is not None:
            return self._forms.constant(number)
        if node.opcode == "broadcast" and not node.dimensions:
            return self._form(operands[0], argument, known)
        opcode = node.opcode
        if opcode == "compare":
            opcode = f"compare {node.direction}"
        elif not operands or opcode == "broadcast":
            opcode = f"{opcode} {node.name}"  # like no other
        return self._forms.of(opcode, *(self._form(o, argument, known) for o in operands))
