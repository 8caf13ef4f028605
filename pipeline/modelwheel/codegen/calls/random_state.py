"""Random states."""

from __future__ import annotations

from collections.abc import Iterator

from ...program.ops import RandomState
from ...program.steps import Step
from ..cpp import pointer
from ..memory import RANDOM_STATE_BYTES
from ..writer import StepWriter


def write(writer: StepWriter, step: Step, op: RandomState) -> Iterator[str]:
    """A call of `get_and_update_state`."""
    # Every step has a state of its own, as in XLA, where it is a member of the thunk
    # (RngGetAndUpdateStateThunk). They are at the start of the arena.
    offset = writer.random_states * RANDOM_STATE_BYTES
    writer.random_states += 1
    writer.headers.add("base/rng.h")
    target = pointer(step.outputs["state"].slice)
    yield f"get_and_update_state(arena + {offset}, {op.delta}, {target});"
