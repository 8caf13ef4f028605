"""Reads the text of a StableHLO module as TensorFlow's MLIR prints it: functions, operations, regions.

MLIR has no Python bindings in TensorFlow's wheel, only functions from text to text. What they print is
regular: one operation or bracket on a line, no locations, no line breaks in strings. Whatever does not
look so is refused, because an operation that was overlooked would not be judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ...errors import UnsupportedModelError

# Strings may hold anything; only those that name an operation, and symbols, are kept.
_STRING = re.compile(r'(@?)"([^"\\]*(?:\\.[^"\\]*)*)"')
_NAME = re.compile(r"[\w.$-]+")
_OP = re.compile(r'(?:(%[\w$.:-]+(?:, *%[\w$.:-]+)*) = )?(?:"([\w.$-]+)"|([a-z_][\w.$-]*))(.*)')
_VALUE = re.compile(r"%([\w$.-]+)(?:#(\d+))?")
_SYMBOL = re.compile(r'@(?:"([^"]*)"|([\w$.-]+))')
_FUNCTION = re.compile(
    r'func\.func (?:(?:public|private|nested) )?@(?:"([^"]*)"|([\w$.-]+))\((.*)\{'
)
_TENSOR = re.compile(r"tensor<((?:(?:\?|\d+)x)*)([^<>,\s]+(?:<[^<>]*>)?)")
_ARGUMENT = re.compile(r"%([\w$.-]+): ")


@dataclass
class Block:
    """The operations of one region."""

    arguments: list[str] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass
class Op:
    """One operation."""

    name: str
    """With its dialect: `stablehlo.add`."""
    results: list[tuple[str, int]]
    """Names, each with the number of values."""
    text: str
    """What follows its name, without its regions and without the contents of strings."""
    regions: list[Block] = field(default_factory=list)
    line: int = -1
    """Where it begins in the text of the module, from 0."""

    @cached_property
    def operands(self) -> list[tuple[str, int]]:
        """The values that it reads, as names with their number."""
        text = self.text
        if self.name == "stablehlo.while":  # %name = %value, ...
            text = re.sub(r"%[\w$.-]+ = ", "", text)
        return [(name, int(index or 0)) for name, index in _VALUE.findall(text)]

    @property
    def symbols(self) -> list[str]:
        """The symbols that it names: functions that it calls, or what a custom call wants."""
        return [quoted or plain for quoted, plain in _SYMBOL.findall(self.text)]


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor."""

    shape: tuple[int | None, ...]
    """None for an extent that is not known before the module is compiled."""
    element: str
    """As MLIR writes it: `f32`, `complex<f32>`."""


@dataclass
class Function:
    """A function of a module."""

    name: str
    arguments: list[TensorType | str]
    """A text for what is not a tensor."""
    results: list[TensorType | str]
    body: Block


def read_functions(text: str) -> dict[str, Function]:
    """The functions of a module, by name.

    Raises:
        UnsupportedModelError: The text has a form that is not known.
    """
    functions: dict[str, Function] = {}
    lines = _Lines(_STRING.sub(_shorten, text.split("\n{-#", 1)[0]).splitlines())
    for line in lines:
        words = line.strip()
        if not words or words == "}" or re.fullmatch(r"module(\W.*)?\{", words):
            continue
        start = _FUNCTION.fullmatch(words)
        if start is None:
            raise _unknown(words)
        name = start[1] or start[2]
        arguments, _, rest = split_closing(start[3])
        names = _ARGUMENT.findall(arguments)
        functions[name] = Function(
            name,
            [_read_type(part) for part in re.split(r"%[\w$.-]+: ", arguments)[1:]],
            _read_results(rest),
            _read_block(lines, Block(names)),
        )
    return functions


class _Lines(Iterator[str]):
    """The lines of a text, and the number of the last one that was read."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = iter(lines)
        self.number = -1

    def __next__(self) -> str:
        self.number += 1
        return next(self._lines)


def tensor_types(text: str) -> Iterator[TensorType]:
    """All types of tensors in a text."""
    for extents, element in _TENSOR.findall(text):
        yield TensorType(_extents(extents), element)


def result_types(op: Op) -> list[TensorType]:
    """The types of an operation's results: what its text ends with."""
    _, arrow, after = op.text.rpartition(" -> ")
    if not arrow:
        after = op.text.rpartition(" : ")[2]
    return list(tensor_types(after))


def _shorten(match: re.Match[str]) -> str:
    if match[1]:
        return match[0]
    return match[0] if len(match[2]) < 200 and _NAME.fullmatch(match[2]) else '""'


def _read_block(lines: _Lines, block: Block) -> Block:
    """Reads operations up to the bracket that closes the function."""
    blocks = [block]
    owners: list[Op] = []
    for line in lines:
        words = line.strip()
        if words == "}" or words.startswith("}) "):
            if not owners:
                return block
            _close(words, blocks, owners)
        elif words in ("}, {", "} do {") and owners:
            blocks[-1] = Block()
            owners[-1].regions.append(blocks[-1])
        elif words.startswith("^bb0("):
            blocks[-1].arguments = _ARGUMENT.findall(words)
        elif words == "cond {" or re.fullmatch(r"reducer\(.*\{", words):
            owner = _last(blocks[-1], words)
            owner.regions.append(Block(_ARGUMENT.findall(words) or _loop_names(owner)))
            owners.append(owner)
            blocks.append(owner.regions[-1])
        else:
            op = _read_op(words)
            op.line = lines.number
            blocks[-1].ops.append(op)
            if words.endswith("({"):
                op.regions.append(Block())
                owners.append(op)
                blocks.append(op.regions[-1])
            elif words.endswith("{"):
                raise _unknown(words)
    raise _unknown("the end of the text")


def _close(words: str, blocks: list[Block], owners: list[Op]) -> None:
    """Ends the last region of an operation."""
    blocks.pop()
    owner = owners.pop()
    if owner.name == "stablehlo.while":
        for region in owner.regions:
            region.arguments = region.arguments or _loop_names(owner)
    if words != "}":
        owner.text = f"{owner.text} {words}"


def _loop_names(op: Op) -> list[str]:
    return re.findall(r"%([\w$.-]+) = ", op.text)


def _last(block: Block, words: str) -> Op:
    if not block.ops:
        raise _unknown(words)
    return block.ops[-1]


def _read_op(words: str) -> Op:
    match = _OP.fullmatch(words)
    if match is None:
        raise _unknown(words)
    results = []
    for name in (match[1] or "").split(","):
        if name:
            plain, _, count = name.strip(" %").partition(":")
            results.append((plain, int(count or 1)))
    name = match[2] or match[3]
    # The dialect `func` is left out in its functions.
    return Op(f"func.{name}" if name in ("call", "return") else name, results, match[4])


def _read_results(text: str) -> list[TensorType | str]:
    """The types behind the arrow of a function."""
    _, arrow, after = text.partition("->")
    after = after.strip()
    if not arrow:
        return []
    if not after.startswith("("):
        return [_read_type(after)]
    inner, _, _ = split_closing(after[1:])
    return [_read_type(part) for part in _split_list(inner)]


def _read_type(text: str) -> TensorType | str:
    match = _TENSOR.match(text.strip())
    return (
        TensorType(_extents(match[1]), match[2])
        if match
        else text.split(" ", maxsplit=1)[0].strip(", ")
    )


def _extents(text: str) -> tuple[int | None, ...]:
    return tuple(None if e == "?" else int(e) for e in text.split("x") if e)


def split_closing(text: str) -> tuple[str, str, str]:
    """A text up to the bracket that closes it, and what follows."""
    depth = 1
    for bracket in re.finditer(r"[()]", text):
        depth += 1 if bracket[0] == "(" else -1
        if not depth:
            return text[: bracket.start()], ")", text[bracket.end() :]
    raise _unknown(text)


def _split_list(text: str) -> Iterable[str]:
    depth, start = 0, 0
    for position, character in enumerate(text):
        depth += {"(": 1, "<": 1, "{": 1, "[": 1, ")": -1, ">": -1, "}": -1, "]": -1}.get(
            character, 0
        )
        if character == "," and not depth:
            yield text[start:position]
            start = position + 1
    if text[start:].strip():
        yield text[start:]


def _unknown(words: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the StableHLO module cannot be judged: {words[:80]!r} is not in a form that modelwheel knows; "
        "please report it"
    )
