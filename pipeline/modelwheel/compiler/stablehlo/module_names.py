"""Names of layers in the text of a StableHLO module: what its locations say, for `modelwheel profile`.

Whatever reads such a text wants it without locations. Only ends of lines are added here, and none where integers are
looked at again (`module_integers`) or constants are taken out (`module_weights`).
"""

from __future__ import annotations

import re

LAYER = "layer:"
"""What the file of a location begins with that stands for a layer; other files are those of Python code."""

_STRING = r'"((?:[^"\\]|\\.)*)"'
_DEFINITION = re.compile(r"^#(\w+) = loc\((.*)\)$", re.MULTILINE)
_NAME = re.compile(rf"{_STRING}(?:\((#\w+|unknown)\))?")
_FILE = re.compile(rf"{_STRING}:\d+:\d+(?: to \d*:\d+)?")
_CALL = re.compile(r"callsite\((#\w+|unknown) at (#\w+|unknown)\)")
_FUSED = re.compile(r"fused(?:<.*>)?\[(#\w+)(?:, #\w+)*\]")
_END = re.compile(r" loc\(#(\w+)\)")
_ADDED = re.compile(rf" loc\({_STRING}\)$", re.MULTILINE)
_LEFT = re.compile(r"i\d+>$|= \"?stablehlo\.constant\b|^ *(?:func\.)?return\b")
"""Results of integers, constants, and what computes nothing. Calls pass their names on when they are inlined."""
_DEEPEST = 32
_LONGEST = 400


def with_names(plain: str, located: str) -> str:
    """A text with the name of its location at the end of each line that is an operation.

    Args:
        plain: As MLIR prints it without locations.
        located: The same module as MLIR prints it with them.
    """
    body = (line for line in located.split("\n") if not line.startswith("#"))
    known = dict(_DEFINITION.findall(located))
    names: dict[str, str] = {}
    written = []
    for line in plain.split("\n"):
        other = next(body, "")
        end = _END.fullmatch(other, len(line)) if other.startswith(line) else None
        name = "" if end is None or _LEFT.search(line) else _resolve(end[1], known, names)
        written.append(f'{line} loc("{name}")' if name else line)
    return "\n".join(written)


def without_names(text: str) -> str:
    """A text that `with_names` returned, as it was."""
    return _ADDED.sub("", text)


def _resolve(alias: str, known: dict[str, str], names: dict[str, str], depth: int = 0) -> str:
    """The name of a location, as it is between quotation marks; empty if it has none."""
    if alias in names or depth > _DEEPEST:
        return names.get(alias, "")
    text = known.get(alias, "")

    def of(other: str) -> str:
        return _resolve(other[1:], known, names, depth + 1) if other.startswith("#") else ""

    found = ""
    if name := _NAME.fullmatch(text):
        found = name[1]
    elif file := _FILE.fullmatch(text):
        found = file[1].removeprefix(LAYER) if file[1].startswith(LAYER) else ""
    elif call := _CALL.fullmatch(text):
        inner, outer = of(call[1]), of(call[2])
        found = "/".join(filter(None, (outer, inner)))
    elif fused := _FUSED.fullmatch(text):
        found = of(fused[1])
    names[alias] = found if len(found) <= _LONGEST else ""
    return names[alias]
