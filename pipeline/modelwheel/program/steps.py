"""Steps: operations with their operands in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from pydantic import model_validator

from ..util.records import JsonRecord, omitted
from .ops import AnyOp, Op, Role
from .view import View


class Step(JsonRecord):
    """An operation, the memory of its operands, and the sequences that it runs."""

    op: AnyOp
    inputs: Mapping[str, View] = omitted({})
    """By the name of the operand (`Op.INPUTS`)."""
    outputs: Mapping[str, View] = omitted({})
    """By the name of the operand (`Op.OUTPUTS`)."""
    regions: tuple[tuple[Step, ...], ...] = omitted(())
    """The steps of a loop's condition and body, or of branches."""
    operations: int = omitted(0)
    """Arithmetic operations of one run, without those of regions."""
    origin: str = omitted("")
    """The operation of the model that it comes from, as XLA names it: `StatefulPartitionedCall/model/dense/MatMul`."""

    @model_validator(mode="after")
    def _has_the_operands_of_its_operation(self) -> Step:
        mistake = operand_mistake(self)
        if mistake:
            raise ValueError(f"a step of {self.op.kind!r} {mistake}")
        return self

    def inputs_of(self, role: str) -> list[View]:
        """The inputs of a role that has several, by their numbers."""
        return _numbered(self.inputs, role)

    def outputs_of(self, role: str) -> list[View]:
        """The outputs of a role that has several, by their numbers."""
        return _numbered(self.outputs, role)

    @property
    def views(self) -> Iterator[View]:
        """All operands: first the inputs."""
        yield from self.inputs.values()
        yield from self.outputs.values()


def operand_mistake(step: Step) -> str:
    """The mistake in the names of a step's operands, as words after its name; empty if there is none."""
    op = type(step.op)
    return (
        _mistake("input", step.inputs, _names(op, "INPUTS"))
        or _mistake("output", step.outputs, _names(op, "OUTPUTS"))
        or _mistake_of_regions(op, len(step.regions))
    )


def role_of(name: str) -> str:
    """The role of an operand without its number: `argument3` is an `argument`."""
    return name.rstrip("0123456789")


def numbered(role: str, views: Sequence[View]) -> dict[str, View]:
    """Operands of a role that has several, by their names: `role0`, `role1`, ..."""
    return {f"{role}{number}": view for number, view in enumerate(views)}


def _numbered(operands: Mapping[str, View], role: str) -> list[View]:
    views: list[View] = []
    while (name := f"{role}{len(views)}") in operands:
        views.append(operands[name])
    return views


class _Names(NamedTuple):
    """Of the operands on one side of an operation."""

    single: frozenset[str]
    many: frozenset[str]
    """Without their numbers."""
    required: tuple[str, ...]


@cache
def _names(op: type[Op], side: str) -> _Names:
    roles: tuple[Role, ...] = getattr(op, side)
    single = [role for role in roles if not role.many]
    return _Names(
        frozenset(role.name for role in single),
        frozenset(role.name for role in roles if role.many),
        tuple(role.name for role in single if not role.optional),
    )


def _mistake(side: str, operands: Mapping[str, View], names: _Names) -> str:
    """The mistake in the names of some operands; empty if there is none."""
    for name in operands:
        role = role_of(name)
        if name not in names.single and (role == name or role not in names.many):
            return f"has no {side} {name!r}"
    for name in names.required:
        if name not in operands:
            return f"needs the {side} {name!r}"
    return ""


def _mistake_of_regions(op: type[Op], count: int) -> str:
    wanted = len(op.REGIONS)
    # Branches are one region, as often as there are some.
    if count == wanted or (wanted == 1 and count):
        return ""
    return f"has {count} regions instead of {wanted}"
