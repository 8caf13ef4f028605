"""How large a model may be, judged from its file before TensorFlow executes anything of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

MAX_CALL_DEPTH = 100
"""Calls nested more deeply are not analysed."""


class Limits(BaseModel):
    """The section `limits` of `modelwheel.toml`; the defaults suit models that run on CPUs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    graph_megabytes: PositiveInt = 1024
    """The size of saved_model.pb."""
    nodes: PositiveInt = 100_000
    """Of a signature after inlining its calls; the whole file may hold ten times as many."""
    functions: PositiveInt = 20_000
    """In the file."""
    call_depth: Annotated[int, Field(gt=0, le=MAX_CALL_DEPTH)] = 64
    """Functions that call functions."""
    tensor_elements: PositiveInt = 1 << 30
    """Of any tensor whose size follows from the file; axes of unknown extent count as 1."""
    loop_turns: PositiveInt = 1_000_000
    """Of a loop whose number of turns does not depend on the inputs."""
