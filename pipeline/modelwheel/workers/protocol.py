"""Messages between client and worker, as lines of JSON on the worker's standard input and output.

The client says `Hello` once, then a `Message` for each job; the worker replies to each with a `Reply`,
in any order. A reply is believed only if it has the nonce of the hello and the `id` of a message that
is waiting. A process in which a model runs has neither pipe: it leaves one `Answer` with the worker.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ..sandbox.policy import Limits
from ..util.records import JsonRecord

MAX_ANSWER_BYTES = 1 << 18
"""Of what a job answers: an error with its traceback at most."""
MAX_LOG_BYTES = 1 << 16
"""Of the end of what a job writes to standard error."""
MAX_REPLY_BYTES = 16 * (MAX_ANSWER_BYTES + MAX_LOG_BYTES)
"""JSON writes a byte as up to six."""


class Hello(JsonRecord):
    """The first line that a client sends."""

    nonce: str
    """Random; every reply carries it."""
    forks: bool
    """Whether each job runs in a child of its own."""
    locks_in: bool = False
    """Whether that child locks itself in before it reads anything of the job."""


class Task(str, Enum):
    """A job as it is asked for."""

    RUN = "run"
    NAME_LAYERS = "name layers"
    """Which layers of its model are the likely reason that it takes too long, or too much."""
    FOLLOW = "follow"
    """Run it again after a crash, and log each node before it is run."""


class Message(JsonRecord):
    """A message of the client. The job is validated separately, so that a refusal can carry the `id`."""

    id: int
    job: Mapping[str, Any]
    task: Task = Task.RUN
    inputs: Path
    """What the job may read."""
    scratch: Path
    """What it may write."""
    limits: Limits


class Answer(JsonRecord):
    """The answer of a job when it ends."""

    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    error: str | None = None
    """The name of the error's class in `modelwheel.errors`; None if all outputs were written."""
    code: str = ""
    """Of the error: see `ModelwheelError.code`."""
    message: str = ""
    detail: str = ""
    """The traceback of an unexpected error."""
    layers: tuple[str, ...] = ()
    """For `Task.NAME_LAYERS`."""

    @classmethod
    def failure(cls, error: str, message: str, detail: str = "", *, code: str = "") -> Answer:
        """An error, cut to what an answer may have."""
        half = MAX_ANSWER_BYTES // 16  # JSON writes a character as up to six bytes
        return cls(error=error, code=code, message=message[:half], detail=detail[-half:])


Ending = Literal["answered", "ended", "garbage", "timeout"]


class Reply(JsonRecord):
    """A reply of the worker."""

    nonce: str
    id: int
    """Of the message."""
    ending: Ending
    """How the job ended: with an answer, without one, with something that is none, or too late."""
    answer: Answer | None = None
    code: int | None = None
    """The exit code of the job's process, negative for a signal."""
    log: str = ""
    """The end of what it wrote to standard error, if there is no answer."""
    cpu_seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Processor time of its process; 0 if that is not known."""
    peak_bytes: int = Field(default=0, ge=0)
    """The most memory that its process had beyond the worker's own; 0 if that is not known."""


def parse_answer(content: bytes) -> Answer | None:
    """The answer of a job, which may say anything; None if it is not one."""
    if len(content) > MAX_ANSWER_BYTES:
        return None
    try:
        return Answer.model_validate(json.loads(content))
    # Beside ValidationError, a ValueError: deep nesting, and numbers of thousands of digits.
    except (ValueError, RecursionError):
        return None
