"""Takes the weights out of the text of a StableHLO module: they become arguments of `main`.

As text they are twice as large, and every pass of MLIR would parse and print them again.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .mlir_text import split_closing

Array = np.ndarray[Any, Any]

_LARGE = 1 << 12
"""Characters of a constant that is taken out."""
_VALUE = re.compile(
    rf'dense<"0x(?P<digits>[0-9A-Fa-f]{{{_LARGE},}})"> : '
    r"(?P<type>tensor<(?P<shape>(?:\d+x)*)(?P<element>[^<>]+(?:<\w+>)?)>)"
)
_MARK = re.compile(r'dense<"weights (\d+)">')
_NAME = r'@(?:"[^"]*"|[\w$.-]+)'
_FUNCTION = re.compile(
    rf"^  func\.func (?:\w+ )?(?P<name>{_NAME})\((?P<rest>.*?)^  \}}$", re.MULTILINE | re.DOTALL
)
# Not in loops and branches, which are indented further: what they read is passed to them.
_DEFINITION = re.compile(
    r'^ {4}(?P<name>%[\w$.-]+) = stablehlo\.constant dense<"weights (?P<number>\d+)"> : (?P<type>tensor<.*>)\n',
    re.MULTILINE,
)
_MAIN = "@main"


@dataclass(frozen=True)
class Lean:
    """A text without its large constants."""

    text: str
    """With numbers in their place, for those who look at operations."""
    values: tuple[str, ...]
    """What was there, as hexadecimal digits."""
    elements: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and element type of each."""

    def with_text(self, text: str) -> Lean:
        """Another text with the same constants."""
        return replace(self, text=text)


def take_out(text: str) -> Lean:
    """The text of a module, as MLIR prints it, without its large constants."""
    values: list[str] = []
    elements: list[tuple[tuple[int, ...], str]] = []

    def number(match: re.Match[str]) -> str:
        values.append(match["digits"])
        shape = tuple(map(int, match["shape"].split("x")[:-1]))
        elements.append((shape, match["element"]))
        return f'dense<"weights {len(values) - 1}"> : {match["type"]}'

    return Lean(_VALUE.sub(number, text), tuple(values), tuple(elements))


def put_back(lean: Lean) -> str:
    """The text as it was."""
    return _MARK.sub(lambda match: f'dense<"0x{lean.values[int(match[1])]}">', lean.text)


def as_arguments(lean: Lean, dtypes: Mapping[str, Any]) -> tuple[str, tuple[Array, ...]]:
    """A text whose `main` takes its weights behind its other arguments, and these.

    Args:
        lean: The module; constants of other types, and those of functions with several callers, stay in its text.
        dtypes: NumPy's type of each element type that an argument may have.
    """
    functions = {match["name"]: match for match in _FUNCTION.finditer(lean.text)}
    lift = _Lift(lean, dtypes, {name: match["rest"] for name, match in functions.items()})
    for name in list(functions):
        lift.run(name)
    text, end = [], 0
    for name, match in functions.items():
        text += [lean.text[end : match.start("rest")], lift.bodies[name]]
        end = match.end("rest")
    whole = lean.with_text("".join((*text, lean.text[end:])))
    return put_back(whole), tuple(lift.weights)


class _Lift:
    """Moves constants from functions into the arguments of `main`."""

    def __init__(self, lean: Lean, dtypes: Mapping[str, Any], bodies: dict[str, str]) -> None:
        self.bodies = bodies
        """What follows the opening bracket of the arguments of each function."""
        self.weights: list[Array] = []
        self._lean, self._dtypes = lean, dtypes
        mentions = Counter(re.findall(_NAME, lean.text))
        self._once = {name for name, count in mentions.items() if count == 2}

    def run(self, name: str) -> None:
        """Moves those of one function, if a single chain of calls leads to it."""
        if _MARK.search(self.bodies[name]) is None:
            return
        callers = self._callers(name)
        if callers is None:
            return
        added: list[tuple[str, str]] = []

        def take(match: re.Match[str]) -> str:
            array = self._array(int(match["number"]))
            if array is None:
                return match[0]
            added.append((match["name"], match["type"]))
            self.weights.append(array)
            return ""

        body = _DEFINITION.sub(take, self.bodies[name])
        self.bodies[name] = _with_parameters(body, added)
        passed = [f"%weights_{len(self.weights) - n - 1}" for n in reversed(range(len(added)))]
        operands = [(new, kind) for new, (_, kind) in zip(passed, added, strict=True)]
        for called, caller in zip((name, *callers), callers, strict=False):
            self.bodies[caller] = _with_parameters(
                _with_operands(self.bodies[caller], called, operands), operands
            )

    def _callers(self, name: str) -> list[str] | None:
        """Who calls a function, and who calls that, up to `main`; None if it is not one call each."""
        callers: list[str] = []
        while name != _MAIN:
            if name not in self._once or len(callers) == len(self.bodies):
                return None
            call = _call(name)
            callers += [caller for caller, body in self.bodies.items() if call.search(body)][:1]
            if not callers or callers[-1] == name:
                return None
            name = callers[-1]
        return callers

    def _array(self, number: int) -> Array | None:
        shape, element = self._lean.elements[number]
        if element not in self._dtypes:
            return None
        dtype = np.dtype(self._dtypes[element])
        content = bytes.fromhex(self._lean.values[number])
        return (
            np.frombuffer(content, dtype).reshape(shape)
            if len(content) == dtype.itemsize * math.prod(shape)
            else None
        )


def _call(name: str) -> re.Pattern[str]:
    """A call of a function outside of loops and branches."""
    return re.compile(
        rf"^(?P<before> {{4}}(?:%[^\n]* = )?(?:func\.)?call {re.escape(name)}\()(?P<operands>[^()\n]*)"
        r"(?P<between>\)[^()\n]* : \()(?P<types>[^()\n]*)\)",
        re.MULTILINE,
    )


def _with_operands(body: str, called: str, added: Sequence[tuple[str, str]]) -> str:
    def add(match: re.Match[str]) -> str:
        operands = ", ".join(filter(None, (match["operands"], *(name for name, _ in added))))
        types = ", ".join(filter(None, (match["types"], *(kind for _, kind in added))))
        return f"{match['before']}{operands}{match['between']}{types})"

    return _call(called).sub(add, body)


def _with_parameters(body: str, added: Sequence[tuple[str, str]]) -> str:
    arguments, _, rest = split_closing(body)
    new = (f"{name}: {kind}" for name, kind in added)
    return f"{', '.join(filter(None, (arguments, *new)))}){rest}"
