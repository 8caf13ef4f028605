"""Writes scalar expressions as C++: a declaration for each operation, on vectors of lanes or on single elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..dtypes import ElementType
from ..program.expr import Expression, Opcode, Operation

UNROLLED = "MODELWHEEL_UNROLL for (int k = 0; k < Count; ++k)"
"""The head of a loop over the vectors of `LANES`."""


@dataclass(frozen=True)
class Vocabulary:
    """How operations are written. In texts, {0}, {1} and {2} are operands, {name} the result and {type} its C++ type."""

    operations: Mapping[Opcode, str]
    """The values of operations with operands."""
    declaration: str
    """The line that computes {value}."""
    reference: str
    """The result as an operand of others."""
    declares_conditions: bool
    """Otherwise conditions are repeated where they are operands."""


LANES = Vocabulary(
    operations={
        "add": "{0} + {1}",
        "subtract": "{0} - {1}",
        "multiply": "{0} * {1}",
        "divide": "{0} / {1}",
        "negate": "-{0}",
        "select": "chosen<Lanes>({0}, {1}, {2})",
        "tanh": "tanh_of<Lanes>({0})",
        "sigmoid": "sigmoid_of<Lanes>({0})",
        "gated_tanh": "gated_tanh_of<Lanes>({0}, {1})",
    },
    declaration=f"Floats<Lanes> {{name}}[Count]; {UNROLLED} {{name}}[k] = {{value}};",
    reference="{name}[k]",
    declares_conditions=False,
)
"""`Count` vectors of 32-bit floats at a time (`kernels/elementwise/elementwise.h`); conditions are those of a row."""

TYPED_LANES = replace(
    LANES,
    operations={
        **LANES.operations,
        "convert": "converted<{type}, Lanes>({0})",
        "maximum": "larger_lanes<Lanes>({0}, {1})",
        "minimum": "smaller_lanes<Lanes>({0}, {1})",
        "nearest": "nearest<Lanes>({0})",
        "round_even": "rounded_even<Lanes>({0})",
    },
    declaration=f"Vector<{{type}}, Lanes> {{name}}[Count]; {UNROLLED} {{name}}[k] = {{value}};",
)
"""Vectors of several types (`kernels/elementwise/typed.h`)."""

SCALARS = Vocabulary(
    operations={
        "add": "add_wrapped({0}, {1})",
        "subtract": "subtract_wrapped({0}, {1})",
        "multiply": "multiply_wrapped({0}, {1})",
        "negate": "negated({0})",
        "convert": "static_cast<{type}>({0})",
        "and": "{0} && {1}",
        "or": "{0} || {1}",
        "not": "!{0}",
        "select": "{0} ? {1} : {2}",
        "eq": "{0} == {1}",
        "ne": "{0} != {1}",
        "lt": "{0} < {1}",
        "le": "{0} <= {1}",
        "gt": "{0} > {1}",
        "ge": "{0} >= {1}",
    },
    declaration="const {type} {name} = {value};",
    reference="{name}",
    declares_conditions=True,
)
"""One element of any type at a time (`kernels/attention/mask.h`); integers wrap around."""


@dataclass(frozen=True)
class Code:
    """An expression as C++."""

    lines: tuple[str, ...]
    results: tuple[str, ...]
    """The values of the expression, as operands."""


def write_expression(
    expression: Expression, vocabulary: Vocabulary, leaf: Callable[[Operation], str]
) -> Code:
    """Writes an expression.

    Args:
        expression: The expression.
        vocabulary: How its operations are written.
        leaf: Returns the value of an operation without operands: what is read, an index or a constant.
    """
    lines: list[str] = []
    references: list[str] = []
    for operation in expression.operations:
        value = _value(operation, vocabulary, leaf, references)
        if operation.element_type == ElementType.BOOL and not vocabulary.declares_conditions:
            references.append(value)
            continue
        words = {"name": f"v{len(lines)}", "type": operation.element_type.kernel_type}
        lines.append(vocabulary.declaration.format(**words, value=value))
        references.append(vocabulary.reference.format(**words))
    return Code(tuple(lines), tuple(references[number] for number in expression.results))


def _value(
    operation: Operation,
    vocabulary: Vocabulary,
    leaf: Callable[[Operation], str],
    references: list[str],
) -> str:
    if not operation.operands:
        return leaf(operation)
    operands = [references[number] for number in operation.operands]
    form = vocabulary.operations[operation.opcode]
    return form.format(*operands, type=operation.element_type.kernel_type)
