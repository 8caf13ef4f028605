"""Composites of StableHLO modules (https://openxla.org/stablehlo/spec#composite): operations that name a function which
computes the same, as `jax.lax.composite` and PyTorch's exporter write them for those who know a better implementation.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...model.fusions.registry import AttributeValue, composite_name
from .mlir_text import Block, Function, Op, TensorType, tensor_types

_COMPOSITE = re.compile(
    r"stablehlo\.composite \"(?P<name>[^\"]*)\" (?P<operands>[^{\n]*?) ?"
    r"\{(?P<attributes>.*)\} : (?P<types>\((?P<taken>.*)\) -> (?P<returned>.*))$",
    re.MULTILINE,
)
_DECOMPOSITION = re.compile(r"\bdecomposition = (@(?:\"[^\"]*\"|[\w$.-]+))(?=[,}]|$)")
_VERSION = re.compile(r"\bversion = (\d+) : i32")
_ATTRIBUTES = re.compile(r"\bcomposite_attributes = \{")
_STRING = r'"(?:[^"\\]|\\.)*"'
_ATTRIBUTE = re.compile(rf"(?P<name>{_STRING}|[\w$.-]+)(?: = (?P<value>.*))?", re.DOTALL)
_BRACKETS = {"(": 1, "<": 1, "{": 1, "[": 1, ")": -1, ">": -1, "}": -1, "]": -1}
_PIECE = re.compile(rf"{_STRING}|->|[^\"]")


@dataclass(frozen=True)
class Composite:
    """One of these operations."""

    name: str
    """With its version, as fusions are registered for it."""
    attributes: Mapping[str, AttributeValue | None]
    """By name; None for a value of another kind than attributes of fusions have."""
    operands: str
    types: str
    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]

    @property
    def is_static(self) -> bool:
        """Whether all extents are known."""
        return all(None not in tensor.shape for tensor in (*self.arguments, *self.results))


def decompose(text: str, keep: Collection[str] = ()) -> str:
    """The text of a module with a call in place of each composite but those of these names; what has another form is judged as it is."""

    def call(match: re.Match[str]) -> str:
        named = _DECOMPOSITION.findall(match["attributes"])
        if len(named) != 1 or _read(match).name in keep:
            return match[0]
        return f"func.call {named[0]}({match['operands']}) : {match['types']}"

    return _COMPOSITE.sub(call, text)


def count_composites(text: str, functions: Mapping[str, Function]) -> dict[str, int]:
    """How many composites `main` runs, by their names.

    Args:
        text: A module.
        functions: The functions in it.
    """
    if "stablehlo.composite " not in text:
        return {}
    lines = text.split("\n")
    return dict(Counter(composite.name for _, composite in reached_composites(lines, functions)))


def reached_composites(
    lines: Sequence[str], functions: Mapping[str, Function], left: Collection[int] = ()
) -> Iterator[tuple[Op, Composite]]:
    """The composites in `main` and in what it calls.

    Args:
        lines: The text of the module.
        functions: The functions in it.
        left: Lines of composites that are replaced: what only these call is not reached. May grow meanwhile.
    """
    waiting = [name for name in ("main",) if name in functions]
    for name in waiting:  # grows while it is walked
        for op in _walk(functions[name].body):
            match = _COMPOSITE.search(lines[op.line]) if op.name.endswith(".composite") else None
            if match is not None:
                yield op, _read(match)
            if op.line not in left:
                waiting += [n for n in op.symbols if n in functions and n not in waiting]


def _walk(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from _walk(region)


def _read(match: re.Match[str]) -> Composite:
    version = _VERSION.search(match["attributes"])
    return Composite(
        composite_name(match["name"], int(version[1]) if version else 0),
        dict(_attributes(match["attributes"])),
        match["operands"],
        match["types"],
        tuple(tensor_types(match["taken"])),
        tuple(tensor_types(match["returned"])),
    )


def _attributes(text: str) -> Iterator[tuple[str, AttributeValue | None]]:
    start = _ATTRIBUTES.search(text)
    if start is None:
        return
    for part in _split(text[start.end() :]):
        match = _ATTRIBUTE.fullmatch(part.strip())
        if match is not None:
            name = match["name"]
            value = True if match["value"] is None else _value(match["value"])
            yield json.loads(name) if name.startswith('"') else name, value


def _split(text: str) -> Iterator[str]:
    """The parts of a dictionary up to the bracket that closes it."""
    depth, start = 0, 0
    for piece in _PIECE.finditer(text):
        if piece[0] == "}" and not depth:
            yield text[start : piece.start()]
            return
        depth += _BRACKETS.get(piece[0], 0)
        if piece[0] == "," and not depth:
            yield text[start : piece.start()]
            start = piece.end()


def _value(text: str) -> AttributeValue | None:
    """The value of an attribute: `true`, `1 : i64`, `1.0e-5 : f32`, `"text"`."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(_STRING, text):
        return _text(text[1:-1])
    number, _, kind = text.rpartition(" : ")
    if re.fullmatch(r"-?\d+", number) and re.fullmatch(r"[su]?i\d+", kind):
        return int(number)
    if re.fullmatch(r"-?\d+\.\d*([eE][-+]?\d+)?", number) and re.fullmatch(
        r"f(16|32|64)|bf16", kind
    ):
        return float(number)
    return None


def _text(written: str) -> str:
    """A string of MLIR, which has backslashes before quotes and before the hexadecimal digits of other bytes."""
    plain = re.sub(
        rb"\\([0-9A-Fa-f]{2}|.)",
        lambda m: bytes.fromhex(m[1].decode()) if len(m[1]) == 2 else m[1],
        written.encode(),
    )
    return plain.decode("utf-8", "replace")
