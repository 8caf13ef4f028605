"""Keeps XLA's simplifier from misreading integers in the text of a StableHLO module; see `..integers`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_VALUE = r"%[\w$.-]+"
_RESULT = re.compile(
    rf"^(?P<indent> *)(?P<name>{_VALUE}) = (?P<op>stablehlo\.(?:multiply|abs|power|dot|dot_general|iota|reduce)\b)"
    r"(?P<text>.*) (?::|->) (?P<type>tensor<(?P<extents>(?:(?:\?|\d+)x)*)i(?P<bits>8|16|32|64)>)$",
    re.MULTILINE,
)
"""An operation that XLA takes for not negative, or makes one of, with a result of signed integers."""
_CONSTANT = re.compile(
    rf"^ *({_VALUE}) = stablehlo\.(constant|get_dimension_size|(?:broadcast_in_dim|convert|reshape) ({_VALUE}))\b",
    re.MULTILINE,
)
_OPERANDS = re.compile(rf"^ ({_VALUE}), ({_VALUE})\b")
_DYNAMIC = "tensor<?"


def keep_integers(text: str) -> str:
    """The module with `x | (x & -x)`, which is x, in the place of each such result x."""
    results = list(_RESULT.finditer(text))
    if not results:
        return text
    fixed = _Fixed(text)
    pieces, end = [], 0
    for number, match in enumerate(results):
        if not _may_wrap(match, fixed, dynamic=_DYNAMIC in text):
            continue
        pieces += [text[end : match.start()], *_hidden(match, number)]
        end = match.end()
    return "".join((*pieces, text[end:]))


class _Fixed:
    """Values that are constants; names are those of the operations before a place."""

    def __init__(self, text: str) -> None:
        self._found = _CONSTANT.finditer(text)
        self._next = next(self._found, None)
        self._names: dict[str, bool] = {}

    def before(self, place: int) -> dict[str, bool]:
        """Whether values that were named until a place are; places ascend."""
        while self._next is not None and self._next.start() < place:
            name, _, operand = self._next.groups()
            self._names[name] = operand is None or self._names.get(operand, False)
            self._next = next(self._found, None)
        return self._names


def _may_wrap(match: re.Match[str], fixed: _Fixed, *, dynamic: bool) -> bool:
    op, text, bits = match["op"].removeprefix("stablehlo."), match["text"], int(match["bits"])
    constant = fixed.before(match.start())
    if op == "iota":
        axis = int(re.findall(r"\d+", text)[-1])
        extent = match["extents"].split("x")[axis]
        return extent != "?" and int(extent) > 1 << (bits - 1)
    if op == "reduce" and " applies stablehlo.multiply " not in text:
        return False
    if dynamic and not match["extents"]:  # it may be the extent of a shape
        return False
    operands = _OPERANDS.match(text)
    if operands is None:
        return True
    if op.startswith("dot") and f"i{bits}>" not in text:  # products of narrower numbers do not wrap
        return False
    return op == "power" or not any(constant.get(name, False) for name in operands.groups())


def _hidden(match: re.Match[str], number: int) -> Iterator[str]:
    indent, name, kind = match["indent"], match["name"], match["type"]
    product, negative, lowest = (f"%wrapped_{number}_{part}" for part in range(3))
    yield match[0].replace(name, product, 1)
    yield f"\n{indent}{negative} = stablehlo.negate {product} : {kind}"
    yield f"\n{indent}{lowest} = stablehlo.and {product}, {negative} : {kind}"
    yield f"\n{indent}{name} = stablehlo.or {product}, {lowest} : {kind}"
