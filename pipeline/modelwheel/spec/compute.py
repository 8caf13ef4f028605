"""The section `package.compute` of a spec: whether layers compute with narrower numbers than the model's."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StrictFloat

from .fields import SamplesPath, Section

Narrow: TypeAlias = Literal["int8", "bf16"]
"""Numbers that layers can have in place of float32."""

_Part = Annotated[StrictFloat, Field(gt=0, le=1)]


class Budget(Section):
    """The most that narrower numbers may change; a build that cannot stay below it fails."""

    changed_decisions: _Part = Field(
        default=0.001,
        description="Part of the rows whose decision may change: the largest of several scores, or the side of the "
        "middle of a single one.",
    )
    error: _Part = Field(
        default=0.01,
        description="Root mean square of the change of an output, over the range of its values.",
    )


class ComputeSection(Section):
    """Layers that compute with narrower numbers; which ones, and their scales, follow from real rows."""

    type: Narrow = Field(
        default="int8",
        description="`int8`: products and convolutions by constants are of 8-bit integers, with a scale for each feature. "
        "`bf16`: weights of products are bfloat16 numbers, of two bytes each; data and sums stay float32.",
    )
    samples: SamplesPath = Field(
        description="An .npz file with real rows, an array for each input, at a path of the source. Half of them decide the "
        "scales of integers, the others measure the error; of bfloat16, all do.",
        examples=["samples.npz"],
    )
    budget: Budget = Field(default_factory=Budget, description="What it may change.")
