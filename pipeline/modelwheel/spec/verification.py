"""The section `verify` of a spec: how a wheel is compared with TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, StrictFloat, StrictInt

from .batching import MAX_BATCH_SIZE
from .fields import GivenName, SamplesPath, Section, mistake

COMPARED_ROWS, FEW_ROWS = 16, 4
"""Rows that are compared by default, and of models whose rows take long."""

_Bound = Annotated[StrictFloat, Field(ge=0)]


class Tolerance(Section):
    """How far an output may be from TensorFlow's: |difference| <= atol + rtol * max |output|."""

    atol: _Bound = Field(default=0.0, description="Absolute part, in the unit of the output.")
    rtol: Annotated[_Bound, Field(lt=1)] = Field(
        default=1e-5, description="Part relative to the largest absolute value of the output."
    )


class OutputTolerance(Section):
    """The tolerance of one output; omitted parts are those of `tolerance`."""

    atol: _Bound | None = Field(
        default=None, description="Absolute part, in the unit of the output."
    )
    rtol: Annotated[_Bound, Field(lt=1)] | None = Field(
        default=None, description="Part relative to the largest absolute value of the output."
    )


def _check_range(bounds: tuple[float, float]) -> tuple[float, float]:
    if not bounds[0] < bounds[1]:
        raise mistake("the first bound must be less than the second", "Write [low, high]")
    return bounds


class VerifySection(Section):
    """How the wheel is compared with TensorFlow before it is accepted."""

    tolerance: Tolerance = Field(default_factory=Tolerance, description="Tolerance of all outputs.")
    outputs: Mapping[GivenName, OutputTolerance] = Field(
        default_factory=dict, description="Tolerances of single outputs, by name."
    )
    error_factor: Annotated[StrictFloat, Field(ge=1, le=100)] = Field(
        default=4.0,
        description="Errors up to this many times the framework's own are accepted too, where the model can be "
        "evaluated in float64.",
    )
    rows: Annotated[StrictInt, Field(ge=1, le=MAX_BATCH_SIZE)] | None = Field(
        default=None,
        description=f"Number of rows to compare. Omitted: {COMPARED_ROWS}, or {FEW_ROWS} where batch sizes are decided by the model "
        "and one row takes long.",
    )
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = Field(
        default=0, description="Seed of the random inputs."
    )
    ranges: Mapping[
        GivenName, Annotated[tuple[StrictFloat, StrictFloat], AfterValidator(_check_range)]
    ] = Field(
        default_factory=dict,
        description="[low, high] of random inputs, by name, or of some columns (`x[3]`, `x[4:6]`, along the last axis). "
        "Omitted: what follows from the model.",
    )
    samples: SamplesPath | None = Field(
        default=None,
        description="An .npz file with real rows, an array for each input, at a path of the source: used "
        "instead of random inputs.",
        examples=["samples.npz"],
    )

    def tolerance_of(self, output: str) -> Tolerance:
        """The tolerance of an output: its own where given, else the common one."""
        own = self.outputs.get(output)
        fields = own.model_dump(exclude_none=True) if own else {}
        return self.tolerance.model_copy(update=fields)
