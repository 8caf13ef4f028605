"""How large and how deep a module of MLIR becomes when it is read, found before that.

MLIR keeps each attribute and each type once, however often others name it, but prints it in full each time: thirty
lines, each of which names the one before twice, become 2^30. And it reads what is nested by functions that call
themselves, until its stack ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ...errors import UnsupportedModelError
from .mlir_bytecode import Part, is_bytecode, read_parts

MAX_BRACKETS = 500
"""Nested brackets. MLIR's stack ends at some thousands; a region has two."""
MAX_DEPTH = 2000
"""Attributes and types that name each other in a row. MLIR's stack ends at some ten thousand."""
_MAX_BYTES, _MAX_RATIO = 64 << 20, 16
"""Of what is printed because it is named; the ratio is to the file."""
_CHUNK = 1 << 24
_ENOUGH = 1 << 62
_EXPORT = "export it again, from a model without"

# Strings may hold anything; an arrow and a comparison are no brackets.
_LEFT_OUT = re.compile(rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|//[^\n]*|->|>=')
_ALIAS = re.compile(rb"([#!][\w$.-]+)\s*=\s*")
_NAME = re.compile(rb"[#!][\w$.-]+")
_GOES_ON = (b"", b"=", b":", b",")
"""How a line ends behind which an attribute or type goes on."""
_MARK = 256
"""Bytes of a string for which one quotation mark is left."""
_OPENING, _CLOSING = b"([{<", b")]}>"
_NOT_OPENING, _NOT_CLOSING, _NO_BRACKETS = (
    bytes(b for b in range(256) if b not in kept)
    for kept in (_OPENING, _CLOSING, _OPENING + _CLOSING)
)
_STEPS = np.zeros(256, np.int8)
_STEPS[list(_OPENING)], _STEPS[list(_CLOSING)] = 1, -1


def refuse_bomb(content: bytes, name: str) -> None:
    """Refuses a module that would not be read in time, or not at all.

    Args:
        content: Text or bytecode. What is no module passes: its reader says what is wrong.
        name: What errors call it.

    Raises:
        UnsupportedModelError: It is nested too deeply, or too large in full.
    """
    if is_bytecode(content):
        parts = read_parts(content)
        uses = [1] * len(parts)  # how often operations name each is not known here
    else:
        lean = _LEFT_OUT.sub(_shortened, content)
        if _bracket_depth(lean) > MAX_BRACKETS:
            raise UnsupportedModelError(
                f"{name} nests brackets more than {MAX_BRACKETS} deep, which MLIR cannot read; {_EXPORT} so "
                "deeply nested branches, loops, types, attributes or locations"
            )
        parts, uses = _aliases(lean)
    sizes, depth = measure(parts)
    if depth > MAX_DEPTH:
        raise UnsupportedModelError(
            f"{name} has attributes, types or locations that contain each other more than {MAX_DEPTH} deep, which "
            f"MLIR cannot read; {_EXPORT} so deeply nested ones"
        )
    total = sum(size * count for size, count in zip(sizes, uses, strict=True))
    largest = max(_MAX_BYTES, _MAX_RATIO * len(content))
    if total > largest:
        raise UnsupportedModelError(
            f"{name} has {len(content)} bytes, but its attributes and types would take more than "
            f"{largest >> 20} MiB where each is written in full; {_EXPORT} attributes and types that contain others "
            "many times"
        )


def measure(parts: Sequence[Part]) -> tuple[list[int], int]:
    """The bytes of each part in full, and how deep they contain each other.

    Parts that contain themselves count once: MLIR refuses them.
    """
    sizes, depths = [0] * len(parts), [0] * len(parts)
    entered = [False] * len(parts)
    for root in range(len(parts)):
        waiting = [root]
        while waiting:
            number = waiting[-1]
            inner = [n for n in parts[number].named if n < len(parts)]
            if not entered[number]:
                entered[number] = True
                waiting += [n for n in dict.fromkeys(inner) if not entered[n]]
                continue
            waiting.pop()
            if depths[number]:
                continue
            depths[number] = 1 + max((depths[n] for n in inner), default=0)
            if parts[number].is_printed:
                sizes[number] = min(parts[number].size + sum(sizes[n] for n in inner), _ENOUGH)
    return sizes, max(depths, default=0)


def _shortened(match: re.Match[bytes]) -> bytes:
    """A string as its quotation marks, with as many marks as show that it is long; nothing else."""
    quoted = match[0]
    return b'"' * (2 + len(quoted) // _MARK) if quoted.startswith(b'"') else b""


def _bracket_depth(lean: bytes) -> int:
    """Nested brackets of any kind in a text without strings."""
    brackets = lean.translate(None, _NO_BRACKETS)
    depth = lowest = deepest = 0
    for start in range(0, len(brackets), _CHUNK):
        steps = _STEPS[np.frombuffer(brackets, np.uint8, min(_CHUNK, len(brackets) - start), start)]
        depths = depth + np.cumsum(steps, dtype=np.int32)
        # From the lowest place before: brackets that close what nothing has opened hide no others.
        floors = np.minimum(np.minimum.accumulate(depths), lowest)
        deepest = max(deepest, int((depths - floors).max()))
        depth, lowest = int(depths[-1]), int(floors[-1])
    return deepest


def _aliases(lean: bytes) -> tuple[list[Part], list[int]]:
    """The aliases that a text defines, and how often what is no definition names each."""
    aliases = list(_ALIAS.finditer(lean))
    if not aliases:
        return [], []
    numbers = {match[1]: number for number, match in enumerate(aliases)}
    parts, outside, after = list[Part](), list[bytes](), 0
    ends = [*(match.start() for match in aliases[1:]), len(lean)]
    for match, limit in zip(aliases, ends, strict=True):
        outside.append(lean[after : match.start()])
        after = _end_of_definition(lean, match.end(), limit)
        body = lean[match.end() : after]
        named = [numbers[name] for name in _NAME.findall(body) if name in numbers]
        size = len(body) + _MARK * body.count(b'"')
        parts.append(Part(size, named, is_printed=not body.startswith(b"loc(")))
    outside.append(lean[after:])
    uses = [0] * len(parts)
    for text in outside:
        for name in _NAME.findall(text):
            if name in numbers:
                uses[numbers[name]] += 1
    return parts, uses


def _end_of_definition(lean: bytes, start: int, limit: int) -> int:
    """Where an attribute or type ends that begins at `start`: with its line, if all brackets are closed."""
    place = start
    depth = 0
    while place < limit:
        end = lean.find(b"\n", place, limit)
        if end < 0:
            return limit
        line = lean[place:end]
        depth += len(line.translate(None, _NOT_OPENING)) - len(line.translate(None, _NOT_CLOSING))
        if depth <= 0 and line.rstrip()[-1:] not in _GOES_ON:
            return end
        place = end + 1
    return limit
