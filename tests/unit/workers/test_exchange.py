"""What goes to a worker, and what is taken from the directory that a model could write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.levels import LEVELS
from modelwheel.platforms import PLATFORMS
from modelwheel.workers.endings import WorkerError
from modelwheel.workers.exchange import Exchange
from modelwheel.workers.jobs import CompileRequest, InspectRequest, Job
from tests.support.portability import IS_WINDOWS

NAME = "inspection.json"

needs_posix = pytest.mark.skipif(IS_WINDOWS, reason="links and pipes as on POSIX")


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    return Exchange(tmp_path / "worker-1")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """The inspection of a model of two files."""
    (tmp_path / "model" / "variables").mkdir(parents=True)
    (tmp_path / "model" / "saved_model.pb").write_text("graph")
    (tmp_path / "model" / "variables" / "data").write_text("weights")
    (tmp_path / "out").mkdir()
    return InspectRequest().job(tmp_path / "model", tmp_path / "out")


def test_a_job_sees_its_inputs_and_nothing_else(exchange: Exchange, job: Job) -> None:
    staged = exchange.stage(job, 7)
    (model,) = dict(staged.job.inputs).values()
    files = {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()}
    assert files == {"saved_model.pb", "variables/data"}
    assert staged.job.out == staged.scratch == exchange.scratch / "7"
    assert model.is_relative_to(staged.inputs)
    assert not staged.inputs.is_relative_to(exchange.scratch)
    assert list(staged.inputs.iterdir()) == [model]
    exchange.remove(7)
    assert not list(exchange.inputs.iterdir())
    assert not list(exchange.scratch.iterdir())
    assert (job.inputs.model / "saved_model.pb").exists()  # type: ignore[union-attr]


def test_a_missing_input_is_for_the_job_to_report(exchange: Exchange, tmp_path: Path) -> None:
    (tmp_path / "graph.pb").write_text("graph")
    level = LEVELS["x86-64-v3"]
    request = CompileRequest.at(PLATFORMS["linux-x86_64"], level, "mw::a", {})  # type: ignore[arg-type]
    staged = exchange.stage(request.job(tmp_path, tmp_path), 1)
    seen = dict(staged.job.inputs)
    assert seen["graph"].read_text() == "graph"
    assert not seen["config"].exists()


@needs_posix
def test_a_model_with_a_link_is_refused(exchange: Exchange, job: Job, tmp_path: Path) -> None:
    (tmp_path / "model" / "link").symlink_to("/etc/passwd")
    with pytest.raises(UnsupportedModelError, match="'link' is a symbolic link"):
        exchange.stage(job, 1)


def test_what_a_job_declares_is_taken(exchange: Exchange, job: Job, tmp_path: Path) -> None:
    staged = exchange.stage(job, 1)
    (staged.scratch / NAME).write_text("{}")
    (staged.scratch / "core.dump").write_text("")
    exchange.take(job, staged, 2)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [NAME]
    assert (tmp_path / "out" / NAME).read_text() == "{}"


def _exchange_for_link(scratch: Path, secret: Path) -> None:
    scratch.rmdir()
    scratch.symlink_to(secret.parent)


@needs_posix
@pytest.mark.parametrize(
    ("leave", "words"),
    [
        (lambda *_: None, f"did not write {NAME}"),
        (lambda scratch, secret: (scratch / NAME).symlink_to(secret), "is a symbolic link"),
        (lambda scratch, secret: (scratch / NAME).hardlink_to(secret), "has other names"),
        (lambda scratch, _: os.mkfifo(scratch / NAME), "is a named pipe"),
        (lambda scratch, _: (scratch / NAME).mkdir(), "is a directory"),
        (lambda scratch, _: (scratch / NAME).write_text("xxx"), "has 3 bytes, more than the 2"),
        (_exchange_for_link, "Not a directory"),
    ],
)
def test_nothing_else_is_taken(
    exchange: Exchange,
    job: Job,
    tmp_path: Path,
    leave: Callable[[Path, Path], object],
    words: str,
) -> None:
    (tmp_path / "home").mkdir()
    secret = tmp_path / "home" / NAME
    secret.write_text("!")
    staged = exchange.stage(job, 1)
    leave(staged.scratch, secret)
    with pytest.raises(WorkerError, match=words):
        exchange.take(job, staged, 2)
    assert not list((tmp_path / "out").iterdir())
    exchange.remove(1)
    assert not os.path.lexists(staged.scratch)
    assert secret.read_text() == "!"
