"""Names of operations in the text of a StableHLO module: what its locations say, for `modelwheel profile`.

Whatever reads such a text wants it without locations. Only ends of lines are added here, and none where integers are
looked at again (`module_integers`) or constants are taken out (`module_weights`). A name is a path (`program/op_names.py`):

    func.func public @main(...)
      %0 = call @block(%arg0) loc("encoder/block")
      %1 = stablehlo.tanh %0                               tanh_1: it has no name
    func.func private @block(...)
      %0 = stablehlo.dot_general %arg0, ... loc("mm")      encoder/block/mm
"""

from __future__ import annotations

import re
from collections import Counter

from ...program.op_names import common_layer, join_names, names_of, nested_name

LAYER = "layer:"
"""What the file of a location begins with that stands for a layer; other files are those of Python code."""

_STRING = r'"((?:[^"\\]|\\.)*)"'
_DEFINITION = re.compile(r"^#(\w+) = loc\((.*)\)$", re.MULTILINE)
_NAME = re.compile(rf"{_STRING}(?:\((#\w+|unknown)\))?")
_FILE = re.compile(rf"{_STRING}:\d+:\d+(?: to \d*:\d+)?")
_CALLSITE = re.compile(r"callsite\((#\w+|unknown) at (#\w+|unknown)\)")
_FUSED = re.compile(r"fused(?:<.*>)?\[((?:#\w+|unknown)(?:, (?:#\w+|unknown))*)\]")
_END = re.compile(r" loc\(#(\w+)\)")
_ADDED = re.compile(rf" loc\({_STRING}\)$", re.MULTILINE)
_UNNAMED = re.compile(
    r"^(?!.* stablehlo\.(?:dot_general|convolution)\b).*i\d+>$|= \"?stablehlo\.constant\b|^ *(?:func\.)?return\b"
)
"""Results of integers but for products, constants, and what computes nothing. Calls pass their names on when they are inlined."""
_OPERATION = re.compile(r"= \"?\w+\.(\w+)")
_FUNCTION = re.compile(r" *func\.func .*?@([\w.$-]+|\"[^\"]*\")\(")
_CALL = re.compile(r"= (?:func\.)?call @([\w.$-]+|\"[^\"]*\")\(")
_DEEPEST = 32
_LONGEST = 400


def with_names(plain: str, located: str) -> str:
    """A text with a name at the end of each line that is an operation.

    That is the name of its location, behind that of the only call of its function, or what all calls have in common. An
    operation without one is named by its kind and number: `dot_general_2`.

    Args:
        plain: As MLIR prints it without locations.
        located: The same module as MLIR prints it with them.
    """
    body = (line for line in located.split("\n") if not line.startswith("#"))
    locations = _Locations(dict(_DEFINITION.findall(located)))
    numbers: Counter[str] = Counter()
    calls = _Calls()
    written = []
    for line in plain.split("\n"):
        other = next(body, "")
        end = _END.fullmatch(other, len(line)) if other.startswith(line) else None
        is_named = end is not None and not _UNNAMED.search(line)
        own = locations.name(end[1]) if end is not None and is_named else ""
        calls.read(line, own)
        if is_named and not own and (operation := _OPERATION.search(line)):
            numbers[operation[1]] += 1
            own = f"{operation[1]}_{numbers[operation[1]]}"
        written.append((line, calls.function, own))
    return "\n".join(
        f'{line} loc("{name}")' if (name := calls.inside(function, own)) else line
        for line, function, own in written
    )


def without_names(text: str) -> str:
    """A text that `with_names` returned, as it was."""
    return _ADDED.sub("", text)


class _Calls:
    """The functions of a text that is read line by line, and the names of their calls."""

    def __init__(self) -> None:
        self.function = ""
        """Of the line that was read last."""
        self._calls: dict[str, list[tuple[str, str]]] = {}
        """By function: where each call of it is, and its name."""
        self._names: dict[str, str] = {}

    def read(self, line: str, name: str) -> None:
        """Notes what a line with this name says about functions."""
        if function := _FUNCTION.match(line):
            self.function = function[1]
        elif call := _CALL.search(line):
            self._calls.setdefault(call[1], []).append((self.function, name))

    def inside(self, function: str, name: str) -> str:
        """The names of an operation of a function, each behind that of the function's calls; empty if it has none."""
        outer = self._name(function, 0) if name else ""
        nested = join_names(*(nested_name(outer, own) for own in names_of(name))) if outer else name
        return nested if len(nested) <= _LONGEST else name

    def _name(self, function: str, depth: int) -> str:
        """The common part of the names of a function's calls; then the function, unless its only call has a name."""
        if function not in self._names:
            self._names[function] = ""  # it may call itself
            calls = self._calls.get(function, []) if depth < _DEEPEST else []
            names = [nested_name(self._name(caller, depth + 1), name) for caller, name in calls]
            if len(calls) == 1 and calls[0][1]:
                self._names[function] = names[0]
            elif calls:
                self._names[function] = nested_name(common_layer(names), function.strip('"'))
        return self._names[function]


class _Locations:
    """The locations that a text defines."""

    def __init__(self, definitions: dict[str, str]) -> None:
        self._definitions = definitions
        self._names: dict[str, str] = {}

    def name(self, alias: str, depth: int = 0) -> str:
        """The name of a location, as it is between quotation marks; empty if it has none."""
        if alias in self._names or depth > _DEEPEST:
            return self._names.get(alias, "")
        name = self._read(self._definitions.get(alias, ""), depth + 1)
        self._names[alias] = name if len(name) <= _LONGEST else ""
        return self._names[alias]

    def _read(self, text: str, depth: int) -> str:
        def of(other: str) -> str:
            return self.name(other[1:], depth) if other.startswith("#") else ""

        if name := _NAME.fullmatch(text):
            return name[1]
        if file := _FILE.fullmatch(text):
            return file[1].removeprefix(LAYER) if file[1].startswith(LAYER) else ""
        if call := _CALLSITE.fullmatch(text):
            inner, (outer, *_) = of(call[1]), names_of(of(call[2])) or ("",)
            return join_names(*(nested_name(outer, name) for name in names_of(inner))) or outer
        if fused := _FUSED.fullmatch(text):
            return join_names(*map(of, fused[1].split(", ")))
        return ""
