"""Sizes in files of `torch.export.save`: arithmetic, parsed by a grammar of its own and written again.

PyTorch gives these texts to SymPy, which evaluates them as Python. SymPy writes them as `srepr` does:
`Add(Integer(1), Symbol('s77', positive=True))`; older files have `s77 + 1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_TOKEN = re.compile(r" *(?:(\d+)|([A-Za-z]\w*)|'([su]\d+)'|(\*\*|//|[-+*/(),=]))", re.ASCII)
_SYMBOL = re.compile(r"[su]\d{1,9}", re.ASCII)
_MAX_LENGTH = 4096
_MAX_DEPTH = 32
_MAX_DIGITS = 19
"""Of a 64-bit number."""
_MAX_EXPONENT = 16
_MAX_BITS = 4096
"""Of any part, if every symbol has 64 bits: SymPy computes with numbers of any length."""
_ASSUMPTIONS = ("positive", "nonnegative", "integer")
_ANY_NUMBER, _TWO = ("Add", "Mul", "Max", "Min"), ("FloorDiv", "CleanDiv", "Mod", "PythonMod")


class NotArithmeticError(ValueError):
    """A text is not what PyTorch writes for a size."""


@dataclass(frozen=True)
class _Part:
    text: str
    bits: int
    number: int | None = None
    """The value of a literal."""

    def __post_init__(self) -> None:
        if self.bits > _MAX_BITS:
            raise NotArithmeticError("a number has too many digits")


def write_size(text: str) -> str:
    """Writes the arithmetic from what was parsed: equal sizes become equal texts.

    Raises:
        NotArithmeticError: It is anything else, or computes with very large numbers.
    """
    if len(text) > _MAX_LENGTH:
        raise NotArithmeticError("it is too long")
    parser = _Parser(text)
    part = parser.sum(0)
    if parser.tokens:
        raise NotArithmeticError("something follows")
    return part.text


def first_symbol(text: str) -> str | None:
    """The first symbol of a size."""
    match = re.search(rf"\b{_SYMBOL.pattern}\b", text, re.ASCII)
    return match[0] if match else None


def is_symbol(text: str) -> bool:
    """Whether a text is the name of a symbol."""
    return _SYMBOL.fullmatch(text) is not None


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        """Kind and text, the next one last."""
        position, end = 0, len(text.rstrip(" "))
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise NotArithmeticError("it has other characters")
            kinds = ("number", "name", "quoted", match[4] or "")
            self.tokens.append((kinds[(match.lastindex or 0) - 1], match[match.lastindex or 0]))
            position = match.end()
        self.tokens.reverse()

    def sum(self, depth: int) -> _Part:
        """`a + b - c`."""
        return self._chain(("+", "-"), self._product, depth)

    def _product(self, depth: int) -> _Part:
        return self._chain(("*", "/", "//"), self._signed, depth)

    def _chain(
        self, operators: tuple[str, ...], parse: Callable[[int], _Part], depth: int
    ) -> _Part:
        part = parse(depth)
        written, bits = [part.text], part.bits
        while self._next() in operators:
            operator = self._take()
            right = parse(depth)
            written += [operator, right.text]
            # Checked at each step by what `_Part` allows.
            bits = bits + right.bits if operator == "*" else max(bits, right.bits) + 1
            part = _Part("", bits)
        return part if len(written) == 1 else _Part(f"({' '.join(written)})", bits)

    def _signed(self, depth: int) -> _Part:
        if depth > _MAX_DEPTH:
            raise NotArithmeticError("it is nested too deeply")
        if self._next() in ("+", "-"):
            sign, part = self._take(), self._signed(depth + 1)
            number = part.number if sign == "+" or part.number is None else -part.number
            return part if sign == "+" else _Part(f"(-{part.text})", part.bits, number)
        base = self._atom(depth)
        if self._next() != "**":
            return base
        self._take()
        return _power(base, self._signed(depth + 1), "({} ** {})")

    def _atom(self, depth: int) -> _Part:
        kind = self._next()
        text = self._take()
        if kind == "number":
            return _number(text)
        if kind == "(":
            part = self.sum(depth + 1)
            self._take(")")
            return part
        if kind != "name":
            raise NotArithmeticError("a number is missing")
        if is_symbol(text):
            return _Part(text, 64)
        self._take("(")
        return self._symbol() if text == "Symbol" else self._call(text, depth)

    def _call(self, function: str, depth: int) -> _Part:
        arguments = [self.sum(depth + 1)]
        while self._next() == ",":
            self._take()
            arguments.append(self.sum(depth + 1))
        self._take(")")
        shown = f"{function}({', '.join(part.text for part in arguments)})"
        count, bits = len(arguments), [part.bits for part in arguments]
        if function == "Integer" and count == 1 and arguments[0].number is not None:
            return _Part(shown, bits[0], arguments[0].number)
        if function == "Pow" and count == 2:
            return _power(arguments[0], arguments[1], "Pow({}, {})")
        if function in _ANY_NUMBER or (function in _TWO and count == 2):
            return _Part(shown, sum(bits) if function == "Mul" else max(bits) + count)
        raise NotArithmeticError(f"{function} is not known for {count} arguments")

    def _symbol(self) -> _Part:
        """The symbol whose arguments follow `Symbol(`."""
        if self._next() != "quoted":
            raise NotArithmeticError("a symbol has no name")
        written = [repr(self._take())]
        while self._next() == ",":
            self._take()
            assumption = self._take("name")
            self._take("=")
            truth = self._take("name")
            if assumption not in _ASSUMPTIONS or truth not in ("True", "False"):
                raise NotArithmeticError("a symbol has another property")
            written.append(f"{assumption}={truth}")
        self._take(")")
        return _Part(f"Symbol({', '.join(written)})", 64)

    def _next(self) -> str:
        return self.tokens[-1][0] if self.tokens else ""

    def _take(self, kind: str = "") -> str:
        """The next token, which must be of a kind if one is given."""
        if not self.tokens or kind not in ("", self.tokens[-1][0]):
            raise NotArithmeticError(f"{kind or 'something'} is missing")
        return self.tokens.pop()[1]


def _number(digits: str) -> _Part:
    if len(digits) > _MAX_DIGITS:
        raise NotArithmeticError("a number has too many digits")
    number = int(digits)
    return _Part(str(number), number.bit_length(), number)


def _power(base: _Part, exponent: _Part, form: str) -> _Part:
    if exponent.number is None or abs(exponent.number) > _MAX_EXPONENT:
        raise NotArithmeticError("an exponent is not a small number")
    bits = max(1, base.bits) * max(1, abs(exponent.number))
    return _Part(form.format(base.text, exponent.text), bits)
