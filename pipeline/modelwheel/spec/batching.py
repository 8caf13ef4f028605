"""How a batch is split into compiled batch sizes: by rules, or by a strategy.

Rules have the form and the meaning of CMSSW's `tfaot::BatchRule` (PhysicsTools/TensorFlowAOT).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
)

from .fields import Mistake, Section, find_repeats, mistake, mistakes

MAX_BATCH_SIZE = 65536
RULE_PATTERN = r"^ *[0-9]+ *:( *[0-9]+ *,)* *[0-9]+ *$"
# Also keeps every number below the 4300 digits that CPython's int() accepts.
_MAX_RULE_LENGTH = 4096


@dataclass(frozen=True)
class BatchRule:
    """`batch` rows are computed in runs of compiled `sizes`; the last run is padded if needed."""

    batch: int
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.batch < 1 or not self.sizes or min(self.sizes) < 1:
            raise ValueError(f"'{self}': a batch and its sizes must be positive")
        if max(self.batch, *self.sizes) > MAX_BATCH_SIZE:
            raise ValueError(f"'{self}': no batch may be larger than {MAX_BATCH_SIZE}")
        if self.padding < 0:
            raise ValueError(f"'{self}': the sizes add up to {sum(self.sizes)} only. Add another")
        if self.padding >= self.sizes[-1]:
            raise ValueError(f"'{self}': the last size would be padding only. Remove it")

    @property
    def padding(self) -> int:
        """Rows of the last run that are padding."""
        return sum(self.sizes) - self.batch

    @classmethod
    def parse(cls, text: str) -> BatchRule:
        """The rule written as `5:2,2,2`: five rows by three runs of two, the last padded by one.

        Raises:
            ValueError: It is not of this form, or does not cover the batch.
        """
        if len(text) > _MAX_RULE_LENGTH or not re.fullmatch(RULE_PATTERN, text):
            raise ValueError("a rule has the form `rows:size,size,...`, such as `5:2,2,2`")
        batch, _, sizes = text.partition(":")
        return cls(int(batch), tuple(int(size) for size in sizes.split(",")))

    def __str__(self) -> str:
        return f"{self.batch}:{','.join(map(str, self.sizes))}"


def _parse_rule(value: Any) -> BatchRule:
    if isinstance(value, BatchRule):
        return value
    if not isinstance(value, str):
        raise mistake("a rule must be text", 'Write it in quotation marks, such as "5:2,2,2"')
    try:
        return BatchRule.parse(value)
    except ValueError as error:
        raise mistake(str(error)) from None


def _one_rule_each(rules: tuple[BatchRule, ...]) -> tuple[BatchRule, ...]:
    if repeats := find_repeats((rule.batch for rule in rules), "a second rule for {} rows"):
        raise mistakes(repeats)
    return rules


_Rule = Annotated[
    BatchRule,
    PlainValidator(_parse_rule),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": RULE_PATTERN}),
]


class Batching(Section):
    """How batch sizes that have not been compiled are computed."""

    rules: Annotated[tuple[_Rule, ...], Field(max_length=1024), AfterValidator(_one_rule_each)] = (
        Field(
            default=(),
            description="Sizes of the runs for a given number of rows, such as `5:2,2,2` (CMS form).",
            examples=[["5:2,2,2"]],
        )
    )
    strategy: Literal["cheapest", "smallest"] = Field(
        default="cheapest",
        description="Without a rule: the runs of least total cost, or the CMS default "
        "(`smallest`: the size itself if compiled, else the smallest size repeated).",
    )
    emulate: StrictBool = Field(
        default=True,
        description="Accept other batch sizes and split them; false refuses them at run time.",
    )

    def find_uncompiled(self, batch_sizes: Collection[int]) -> list[Mistake]:
        """A mistake for each rule that uses a size that is not compiled."""
        compiled = ", ".join(map(str, sorted(batch_sizes)))
        uncompiled = []
        for index, rule in enumerate(self.rules):
            missing = sorted(set(rule.sizes) - set(batch_sizes))
            if missing:
                sizes = ", ".join(map(str, missing))
                wrong = f"'{rule}' uses {sizes}, but only {compiled} will be compiled"
                hint = "Use those, or extend compilation.batch_sizes"
                uncompiled.append(Mistake(wrong, hint, ("rules", index)))
        return uncompiled
