"""A job that meets a full disk says so, and not that TensorFlow failed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from modelwheel.errors import StoreError
from modelwheel.sandbox.policy import Limits
from modelwheel.workers.exchange import Exchange
from modelwheel.workers.jobs import InspectRequest, Job
from modelwheel.workers.protocol import Message
from modelwheel.workers.server.answering import answer_message


class _Full:
    """Work that fails as TensorFlow does: with a class of its own, and the system's words in its text."""

    def prepare(self) -> None: ...

    def name_layers(self, job: Job) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def run(self, job: Job) -> None:
        raise RuntimeError(f"{job.out}/variables; {os.strerror(errno.ENOSPC)} [Op:SaveV2]")


def test_in_a_worker(tmp_path: Path) -> None:
    job = InspectRequest().job(tmp_path, tmp_path).model_dump(mode="json")
    message = Message(id=1, job=job, inputs=tmp_path, scratch=tmp_path, limits=Limits())
    answer = answer_message(_Full(), None, message)
    assert answer.error == StoreError.__name__
    assert answer.message.startswith("the disk with the store is full: free some space, or set ")


def test_when_outputs_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("model", "out"):
        (tmp_path / name).mkdir()
    exchange = Exchange(tmp_path / "worker")
    job = InspectRequest().job(tmp_path / "model", tmp_path / "out")
    staged = exchange.stage(job, 1)
    for name in job.request.OUTPUTS:
        (staged.scratch / name).write_text("x")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("modelwheel.workers.exchange.copy_exactly", fail)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        exchange.take(job, staged, None)
