"""The operations of the model that the instructions of a module come from: `modelwheel profile` shows them for each step.

    fusion = f32[4,16] fusion(p), calls=c                        XLA names one instruction of it, or none
    c:  a = f32[4,16] add(p, p), op_name="encoder/add"
        t = f32[4,16] tanh(a), op_name="encoder/tanh"            encoder/tanh;encoder/add
    copy = f32[4,16] copy(fusion)                                encoder/tanh: that of its operand

A fusion has the names of all that it computes, that with the most arithmetic first. What has no name, such as the copies of a
loop's state, takes that of its operands or of its users.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from ...program.op_names import clean_name, join_names, names_of
from .hlo import Instruction, Module
from .operations import operations_of

_MOST_LOOKED_AT = 64
"""Instructions, for one without a name."""


def origin_of(module: Module, instructions: Iterable[Instruction]) -> str:
    """The origin (`program/op_names.py`) of what computes some instructions.

    Empty if neither they nor others in their computation have a name.
    """
    known = list(instructions)
    names = _names(known)
    return join_names(*names) or next(filter(None, (_near(module, i) for i in known)), "")


def _names(instructions: Iterable[Instruction]) -> list[str]:
    """The names of what instructions compute, that with the most arithmetic first; of what has none, if there is nothing else."""
    work: Counter[str] = Counter()
    for instruction in instructions:
        for name, operations in _named(instruction):
            work[name] += operations
    return [name for name, operations in work.most_common() if operations] or list(work)


def _named(instruction: Instruction) -> Iterator[tuple[str, int]]:
    """The names of what an instruction computes, each with its arithmetic operations."""
    if instruction.opcode in ("fusion", "call"):
        inside = [i for computation in instruction.called for i in computation.instructions]
        if names := [named for inner in inside for named in _named(inner)]:
            yield from names
            return
    for name in map(clean_name, names_of(instruction.op_name)):
        if name:
            yield name, operations_of(instruction)


def _near(module: Module, instruction: Instruction) -> str:
    """The name of the nearest instruction with one: of those before it, or else of those after it."""
    for neighbours in (lambda i: i.operands, module.users):
        waiting, seen = deque([instruction]), {instruction}
        while waiting and len(seen) < _MOST_LOOKED_AT:
            for other in neighbours(waiting.popleft()):
                if other in seen or other.opcode in ("constant", "parameter"):
                    continue
                if names := _names([other]):
                    return names[0]
                seen.add(other)
                waiting.append(other)
    return ""
