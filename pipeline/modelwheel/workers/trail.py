"""Where a job is: nodes that it logs before it runs them, so that a crash can be named."""

from __future__ import annotations

import os
import re

from .jobs import FreezeJob, Job, ReferenceJob, SizingJob

_MARK = "modelwheel is at: "
_MAX = 300
_state = {"follows": False}


def is_followed(job: Job) -> bool:
    """Whether a job notes its nodes: those on ONNX models do, but for reading them."""
    if not isinstance(job, FreezeJob | SizingJob | ReferenceJob):
        return False
    return job.request.reading.format == "onnx"


def follow() -> None:
    """Has `note` log from now on; a job that is run for its result does not."""
    _state["follows"] = True


def follows() -> bool:
    """Whether `note` logs."""
    return _state["follows"]


def note(place: str) -> None:
    """Logs where the job is, if it is followed."""
    if _state["follows"]:
        # To the descriptor: a crash would lose what is buffered.
        os.write(2, f"\n{_MARK}{place[:_MAX]!a}\n".encode())


def last_place(log: str) -> str:
    """Where a job was last, from its log; empty if it does not say."""
    places = re.findall(rf"^{_MARK}(.*)$", log, re.MULTILINE)
    return places[-1][1:-1].replace("\\'", "'")[:_MAX] if places else ""
