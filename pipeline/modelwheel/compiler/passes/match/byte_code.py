"""Reads kernels behind products of 8-bit integers as straight-line code on their sums.

    scaled = f32[4,8] multiply(convert(sums), scale)
    ROOT bytes = s8[4,8] convert(clamp(-128, round-nearest-even(scaled), 127))

Values are those of rows and columns; constants for each column and single numbers are repeated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....dtypes import ElementType, integer_limits
from ....program.arrays import Slice
from ....program.expr import Expression, Opcode
from ....program.view import View
from ...ir.graph import INSIDE, Operand, Value
from ...ir.hlo import Instruction
from ...ir.match import row_major
from .elementwise_code import Code

_INT, _FLOAT = ElementType.INT32, ElementType.FLOAT32
_TYPES = (ElementType.INT8, ElementType.UINT8, _INT, _FLOAT)
_BINARY: Mapping[str, Opcode] = {
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "maximum": "maximum",
    "minimum": "minimum",
}


@dataclass
class ByteCode:
    """The code on sums, which grows by kernels that follow each other."""

    rows: int
    columns: int
    code: Code = field(default_factory=Code)
    known: dict[Value, int] = field(default_factory=dict)
    """The numbers of values that the code computes, all of each."""
    _bounds: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Between which numbers the elements of a value are."""

    def __post_init__(self) -> None:
        size = self.rows * self.columns * _INT.item_bytes
        part = Slice(allocation=INSIDE, offset=0, size=size)
        view = View.dense(part, _INT, (self.rows, self.columns))
        self._sums = Operand(Value(size), view)

    def sums(self) -> int:
        """The number of the sums, which are not in memory."""
        return self.code.number("read", read=self._sums, element=_INT)

    def add(self, expression: Expression, reads: Sequence[Operand]) -> int:
        """The number of the result of an expression as `finished` returns it."""
        sources = [self._sums, *reads]
        numbers: list[int] = []
        for one in expression.operations:
            numbers.append(
                self.code.number(
                    one.opcode,
                    *(numbers[operand] for operand in one.operands),
                    read=sources[one.input] if one.opcode == "read" else None,
                    constant=one.value,
                    element=one.element_type,
                )
            )
        return numbers[expression.results[0]]

    def finished(self, number: int) -> tuple[list[Operand], Expression] | None:
        """The operands of the code for a value besides the sums, and the code; None if it does not read the sums."""
        reads, code = self.code.finished([number])
        if self._sums not in reads:
            return None
        places = {read: place for place, read in enumerate(reads)}
        own = places.pop(self._sums)
        inputs = {own: 0, **{place: n for n, place in enumerate(places.values(), 1)}}
        operations = tuple(
            one.model_copy(update={"input": inputs[one.input]}) if one.opcode == "read" else one
            for one in code.operations
        )
        return list(places), code.model_copy(update={"operations": operations})

    def result_of(self, kernel: Instruction, arguments: Sequence[Operand]) -> int | None:
        """The number of what a kernel computes; None if it cannot be expressed."""
        if kernel.opcode != "fusion" or len(arguments) != len(kernel.operands):
            return None
        return _Reader(self, arguments).value(kernel.called_root, (self.rows, self.columns))

    # --- values ------------------------------------------------------------------------------------

    def read(self, operand: Operand, element: ElementType, extent: tuple[int, int]) -> int | None:
        """The number of an argument that has as many rows and columns, which are repeated."""
        part = operand.view.slice
        rows, columns = extent
        if operand.value in self.known:
            whole = (part.offset, part.size, part.step) == (0, operand.value.size, 0)
            return (
                self.known[operand.value] if whole and extent == (self.rows, self.columns) else None
            )
        if part.size != rows * columns * element.item_bytes:
            return None
        strides = (columns if rows == self.rows else 0, 1 if columns == self.columns else 0)
        if rows == 1:
            strides = (0, strides[1])
        view = View(
            slice=part, element_type=element, shape=(self.rows, self.columns), strides=strides
        )
        return self.code.number("read", read=Operand(operand.value, view), element=element)

    def converted(self, number: int, element: ElementType) -> int | None:
        """A value as another type; None of a float that may be out of its range."""
        source = self.code.values[number]
        if source.element == element:
            return number
        bounds = self._bounds.get(number)
        limits = integer_limits(element.dtype)
        fits = bounds is not None and limits is not None
        inside = (
            fits
            and bounds is not None
            and limits is not None
            and (limits[0] <= bounds[0] and bounds[1] <= limits[1])
        )
        if source.element == _FLOAT and not inside:
            return None
        if (
            source.opcode == "convert"
            and element == _INT
            and self._is_narrowed(source.operands[0], number)
        ):
            return source.operands[0]
        if source.element == _FLOAT:
            number = self.bounded(self._whole(number), bounds)
            if element == _INT:
                return number
        result = self.code.number("convert", number, element=element)
        return self.bounded(result, bounds if inside or limits is None else None)

    def _whole(self, number: int) -> int:
        """A float as a 32-bit integer. One that was rounded and clamped to integers is rounded by the conversion.

        clamp(round(x) + 136, 0, 255) is the integer nearest to clamp(x, -136, 119), plus 136.
        """
        limited = self._between(number)
        rounded = limited and self._rounded(limited[0])
        if not limited or not rounded:
            return self.code.number("convert", number, element=_INT)
        (_, *limits), (value, more) = limited, rounded
        low, high = (self.code.number("constant", constant=limit - more) for limit in limits)
        above = self.code.number("maximum", value, low)
        inside = self.code.number("minimum", above, high)
        return self.plus(self.code.number("nearest", inside, element=_INT), more)

    def _between(self, number: int) -> tuple[int, float, float] | None:
        """The value that was clamped to this one, with the limits, if these are integers."""
        below = self.code.values[number]
        if below.opcode != "minimum":
            return None
        above = self.code.values[below.operands[0]]
        if above.opcode != "maximum":
            return None
        limits = [self._integer(one.operands[1]) for one in (above, below)]
        if limits[0] is None or limits[1] is None:
            return None
        return above.operands[0], limits[0], limits[1]

    def _rounded(self, number: int) -> tuple[int, float] | None:
        """The value that was rounded to this one, and the integer that was added then."""
        value, more = self.code.values[number], 0.0
        if value.opcode == "add" and (added := self._integer(value.operands[1])) is not None:
            value, more = self.code.values[value.operands[0]], added
        return (value.operands[0], more) if value.opcode == "round_even" else None

    def _integer(self, number: int) -> float | None:
        """A constant that is an integer which floats can be added to without rounding."""
        constant = self.code.values[number].constant
        is_integer = constant is not None and constant.is_integer() and abs(constant) < 1 << 16
        return constant if is_integer else None

    def plus(self, number: int, more: float) -> int:
        """A 32-bit integer plus a constant."""
        value = self.code.values[number]
        if value.opcode == "add" and (added := self.code.values[value.operands[1]].constant):
            number, more = value.operands[0], more + added
        if not more:
            return number
        constant = self.code.number("constant", constant=more, element=_INT)
        return self.code.number("add", number, constant, element=_INT)

    def _is_narrowed(self, wide: int, narrow: int) -> bool:
        """Whether bytes are whole numbers of 32 bits that lost nothing."""
        return self.code.values[wide].element == _INT and narrow in self._bounds

    def clamped(self, low: int, number: int, high: int) -> int:
        """A value between two others."""
        element = self.code.values[number].element
        above = self.code.number("maximum", number, low, element=element)
        result = self.code.number("minimum", above, high, element=element)
        limits = [self.code.values[limit].constant for limit in (low, high)]
        if limits[0] is None or limits[1] is None:
            return result
        return self.bounded(result, (limits[0], limits[1]))

    def bounded(self, number: int, bounds: tuple[float, float] | None) -> int:
        """A value whose elements are known to be between two numbers."""
        if bounds is not None:
            self._bounds[number] = bounds
        return number


@dataclass
class _Reader:
    """The computation of one kernel."""

    target: ByteCode
    arguments: Sequence[Operand]
    _seen: dict[tuple[str, tuple[int, int]], int | None] = field(default_factory=dict)

    def value(self, node: Instruction, extent: tuple[int, int]) -> int | None:
        """The number of a value of so many rows and columns."""
        key = (node.name, extent)
        if key not in self._seen:
            self._seen[key] = self._value(node, extent)
        return self._seen[key]

    def _value(self, node: Instruction, extent: tuple[int, int]) -> int | None:
        shape, code = node.shape, self.target.code
        element = shape.element_type
        columns = shape.dimensions[-1] if shape.dimensions else 1
        flat = shape.elements == columns == extent[1]
        if element not in _TYPES or not row_major(shape, ignoring_unit_axes=True):
            return None
        if shape.elements != math.prod(extent) or not (
            columns == extent[1] or extent[0] == 1 or flat
        ):
            return None
        if node.opcode == "parameter":
            return self.target.read(self.arguments[node.parameter_number], element, extent)
        if node.opcode == "constant":
            if not isinstance(node.value, int | float) or not math.isfinite(node.value):
                return None
            return code.number("constant", constant=float(node.value), element=element)
        if node.opcode == "broadcast":
            return self._broadcast(node, extent)
        numbers = [self.value(operand, self._extent(operand, extent)) for operand in node.operands]
        known = [number for number in numbers if number is not None]
        if len(known) != len(numbers):
            return None
        return self._computed(node, element, known)

    def _extent(self, operand: Instruction, extent: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of an operand; the limits of a clamp may be single numbers."""
        return (1, 1) if operand.shape.elements == 1 else extent

    def _computed(self, node: Instruction, element: ElementType, numbers: list[int]) -> int | None:
        match node.opcode:
            case "bitcast":
                (operand,) = node.operands
                return numbers[0] if operand.shape.element_type == element else None
            case "convert":
                return self.target.converted(numbers[0], element)
            case "clamp":
                return self.target.clamped(*numbers)
            case "round-nearest-even":
                return self.target.code.number("round_even", *numbers)
            case "negate":
                return self.target.code.number("negate", *numbers, element=element)
            case opcode if opcode in _BINARY and element in (_INT, _FLOAT):
                if opcode == "divide" and element != _FLOAT:
                    return None
                if (opcode, element) == ("add", _INT) and (
                    more := self.target.code.values[numbers[1]].constant
                ):
                    return self.target.plus(numbers[0], more)
                return self.target.code.number(_BINARY[opcode], *numbers, element=element)
            case _:
                return None

    def _broadcast(self, node: Instruction, extent: tuple[int, int]) -> int | None:
        """A number everywhere, or a value for each column."""
        (operand,) = node.operands
        if operand.shape.elements == 1:
            return self.value(operand, (1, 1))
        axes = [
            axis
            for axis, n in zip(node.dimensions, operand.shape.dimensions, strict=True)
            if n != 1
        ]
        if axes != [node.shape.rank - 1] or node.shape.dimensions[-1] != extent[1]:
            return None
        return self.value(operand, (1, extent[1]))
