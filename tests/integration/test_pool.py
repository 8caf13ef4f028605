"""The pool and its processes, with the real server and jobs that need no TensorFlow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from modelwheel.errors import ModelwheelError, UnsupportedModelError
from modelwheel.levels import LEVELS
from modelwheel.platforms import PLATFORMS
from modelwheel.sandbox.choose import Sandbox, choose_sandbox
from modelwheel.sandbox.policy import Limits, Policy
from modelwheel.store.store import Store
from modelwheel.workers import client as worker_process
from modelwheel.workers.client import FORKS
from modelwheel.workers.endings import WorkerError
from modelwheel.workers.flags import Flags
from modelwheel.workers.jobs import CompileRequest, InspectRequest
from modelwheel.workers.pool import WorkerPool
from tests.support.toy_worker import COMMAND, ToyJobs
from tests.support.waiting import wait_until

_SECONDS = 30
_LIMITS = Limits(wall_seconds=2.0, memory_bytes=10**9)

needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="workers fork on Linux")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "workers"
    path.mkdir()
    return path


@pytest.fixture
def jobs(tmp_path: Path, directory: Path) -> Iterator[ToyJobs]:
    """One job at a time."""
    with WorkerPool(
        directory, 1, 10**12, COMMAND, sandbox=choose_sandbox(Policy.PREFERRED, _LIMITS)
    ) as pool:
        yield ToyJobs(tmp_path, pool)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToyJobs]:
    """The same for tests that leave the worker as it was."""
    directory = tmp_path_factory.mktemp("pool")
    (directory / "workers").mkdir()
    with WorkerPool(
        directory / "workers", 1, 10**12, COMMAND, sandbox=choose_sandbox(Policy.PREFERRED, _LIMITS)
    ) as pool:
        yield ToyJobs(directory, pool)


def _workers() -> set[psutil.Process]:
    """Every process of a worker: its server, in whichever sandbox, and the children of that."""
    found = set()
    for process in _running(recursive=True):
        with suppress(psutil.Error):
            if process.cmdline() == list(COMMAND):
                found.add(process)
    return found


def _running(*, recursive: bool = False) -> set[psutil.Process]:
    """Programs that this process has started and that have not ended, also between the list and the question."""
    found = set()
    for process in psutil.Process().children(recursive=recursive):
        with suppress(psutil.NoSuchProcess):
            if process.status() != "zombie":
                found.add(process)
    return found


# --- answers --------------------------------------------------------------------------------------


def test_a_job_that_is_done(shared: ToyJobs) -> None:
    assert shared.submit().result().seconds > 0
    assert [path.name for path in shared.out().iterdir()] == ["inspection.json"]


def test_what_a_job_refuses_is_raised_as_its_own_class(shared: ToyJobs) -> None:
    with pytest.raises(UnsupportedModelError, match=r"^no such signature$"):
        shared.submit("refuse no such signature").result()


def test_an_unexpected_failure_keeps_its_traceback(shared: ToyJobs) -> None:
    with pytest.raises(
        WorkerError, match="internal error of modelwheel, please report it: KeyError: 'x'"
    ) as caught:
        shared.submit("fail x").result()
    assert caught.value.detail.startswith("Traceback")


@needs_fork
@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("run import os; os.fork()", "PermissionError"),
        ("run import socket; socket.socket()", "PermissionError"),
        ("run import os; os.listdir(os.path.expanduser('~root'))", "PermissionError|FileNotFound"),
        ("exit 3", "the worker process ended with exit code 3"),
        ("crash F0000 00:00 1 a.cc:1] Check failed: x", "SIGABRT.*Check failed: x"),
        ("run import sys; sys.exit(3)", "the worker process ended with exit code 1"),
        ("say hello", "sent no valid answer"),
        ('say {"seconds": "x"}', "sent no valid answer"),
        ('say {"seconds": -1}', "sent no valid answer"),
        ('say {"seconds": 1, "id": 2}', "sent no valid answer"),
        (f"say {'[' * 100_000}", "sent no valid answer"),
        (f'say {{"seconds": {"1" * 9999}}}', "sent no valid answer"),
        (f'say {{"message": "{"x" * 300_000}"}}', "sent no valid answer"),
        ('say {"error": "annotations"}', "toy/inspect failed and gave no reason"),
        (
            'say {"error": "SpecError", "message": "a\\n::error::b\\u001b"}',
            r"^a\\x0a::error::b\\x1b$",
        ),
        ("forget inspection.json", "inspect did not write inspection.json"),
        (
            "sleep 600\nlayer a/b\nlayer c\u202e",
            r"took longer than 2 s .*layers 'a/b', 'c\\u202e'",
        ),
        ("allocate 3000000000", "needed more than the 1 GB of memory"),
    ],
)
def test_a_job_that_fails_costs_nothing_but_itself(
    shared: ToyJobs, behaviour: str, words: str
) -> None:
    shared.submit().result()
    wait_until(lambda: len(_workers()) == 1)
    worker = _workers()
    with pytest.raises(ModelwheelError, match=words) as caught:
        shared.submit(behaviour).result()
    assert "\n" not in str(caught.value)
    wait_until(lambda: _workers() == worker)
    shared.submit().result()


@needs_fork
def test_what_a_job_leaves_is_removed(shared: ToyJobs) -> None:
    shared.submit(
        "add core.dump", "run import os; os.makedirs('a/b', 0); os.mkdir('c', 0)"
    ).result()
    assert [path.name for path in shared.out().iterdir()] == ["inspection.json"]
    left = (shared.out().parent / "workers").glob("worker-*/*/[0-9]*")
    assert not list(left)


# --- forgery --------------------------------------------------------------------------------------

_FORGE = """
import os, sys
from modelwheel.workers.protocol import Answer, Hello, Reply
frame, nonces = sys._getframe(), set()
while frame:
    nonces |= {each.nonce for each in frame.f_locals.values() if isinstance(each, Hello)}
    frame = frame.f_back
forged = b"".join(
    Reply(nonce=nonce, id=number, ending="answered", answer=Answer()).model_dump_json().encode() + b"\\n"
    for nonce in nonces for number in range(9)
)
assert forged
written, answer_pipe = 0, []
for descriptor in range(3, 1024):
    try:
        os.fstat(descriptor)
    except OSError:
        continue
    answer_pipe.append(descriptor)
for process in {"self", str(os.getppid()), "1", *filter(str.isdigit, LISTED)}:
    for number in range(64):
        try:
            with open(f"/proc/{process}/fd/{number}", "wb", buffering=0) as pipe:
                pipe.write(forged)
        except OSError:
            pass
        else:
            written += process not in ("self", str(os.getpid()))
for descriptor in answer_pipe:
    os.write(descriptor, forged)
print(f"{len(answer_pipe)} open, {written} written", flush=True)
os._exit(3 if len(answer_pipe) == 1 and not written else 4)
"""
"""Looks for the nonce in its memory, and writes replies to every job into every descriptor."""


@needs_fork
@pytest.mark.parametrize("kind", ["best", "landlock"])
def test_a_job_cannot_answer_for_another(tmp_path: Path, directory: Path, kind: str) -> None:
    sandbox = choose_sandbox(Policy.REQUIRED) if kind == "best" else Sandbox("landlock", "")
    with WorkerPool(directory, 2, 10**12, COMMAND, sandbox=sandbox) as pool:
        jobs = ToyJobs(tmp_path, pool)
        begun = threading.Event()
        other = jobs.submit("sleep 3", started=begun.set)
        out = jobs.out()
        assert begun.wait(_SECONDS)
        listed = [process.pid for process in psutil.process_iter()]
        code = _FORGE.replace("LISTED", repr([str(pid) for pid in [*listed, *range(2, 32)]]))
        with pytest.raises(WorkerError, match="sent no valid answer") as caught:
            jobs.submit(f"run exec({code!r})").result()
        assert "1 open, 0 written" in caught.value.detail
        assert other.result().seconds >= 3
        assert (out / "inspection.json").stat().st_size


# --- processes ------------------------------------------------------------------------------------


def _request(*flags: str) -> CompileRequest:
    level, platform = LEVELS["x86-64-v3"], PLATFORMS["linux-x86_64"]
    return CompileRequest.at(platform, level, "mw::a", Flags(flags))


@needs_fork
def test_one_worker_runs_jobs_side_by_side_whatever_their_flags(
    tmp_path: Path, directory: Path
) -> None:
    before = _workers()
    show = "run import os; print(os.environ['XLA_FLAGS'], file=open('kernels.o', 'w'))"
    (tmp_path / "graph.pb").write_text(show)
    with WorkerPool(directory, 2, 10**12, COMMAND) as pool:
        jobs = ToyJobs(tmp_path, pool)
        futures = [jobs.submit("sleep 0.5") for _ in range(4)]
        wait_until(lambda: len(_workers() - before) == 3)
        assert [future.result().seconds > 0.5 for future in futures] == [True] * 4
        (worker,) = _workers() - before
        for number in range(2):
            out = tmp_path / str(number)
            out.mkdir()
            pool.submit(_request(f"--xla_a={number}").job(tmp_path, out)).result()
            assert (out / "kernels.o").read_text() == f"--xla_a={number}\n"
        assert _workers() - before == {worker}
    assert not _workers() - before


def test_without_fork_a_worker_sees_one_model_and_one_set_of_flags(
    tmp_path: Path, directory: Path
) -> None:
    before = _workers()
    (tmp_path / "compiled").mkdir()
    with WorkerPool(directory, 1, 10**12, COMMAND, forks=False) as pool:
        jobs = ToyJobs(tmp_path, pool)
        seen = []
        for submit in (
            jobs.submit,
            partial(jobs.submit, "refuse it"),
            partial(jobs.submit, step="other/inspect"),
            partial(pool.submit, _request("--xla_a=1").job(tmp_path, tmp_path / "compiled")),
            partial(jobs.submit, "exit 3"),
        ):
            submit().exception()
            seen.append(_workers() - before)
        # The last one has ended with its job.
        assert [len(workers) for workers in seen] == [1, 1, 1, 1, 0]
        assert seen[0] == seen[1]
        assert not seen[1] & seen[2]
        assert not seen[2] & seen[3]


def test_without_fork_a_job_that_takes_too_long_ends_its_worker(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _workers()
    monkeypatch.setattr(worker_process, "_PATIENCE_SECONDS", 2.0)
    sandbox = choose_sandbox(Policy.PREFERRED, Limits(wall_seconds=0.5))
    with WorkerPool(directory, 1, 10**12, COMMAND, forks=False, sandbox=sandbox) as pool:
        jobs = ToyJobs(tmp_path, pool)
        with pytest.raises(WorkerError, match=r"toy/inspect took longer than 0.5 s"):
            jobs.submit("sleep 600").result()
        assert not _workers() - before
        jobs.submit().result()


def test_reading_has_a_limit_of_its_own(tmp_path: Path, directory: Path) -> None:
    """Of the processor's time, and twice as long in all; a second more for each megabyte."""
    sandbox = choose_sandbox(Policy.PREFERRED, Limits(wall_seconds=600, reading_seconds=0.5))
    with WorkerPool(directory, 1, 10**12, COMMAND, sandbox=sandbox) as pool:
        jobs = ToyJobs(tmp_path, pool)
        for busy in ("sleep 600", "run while True: pass"):
            with pytest.raises(WorkerError, match=r"longer than 1 s .* raise `reading_seconds`"):
                jobs.submit(busy).result()
        jobs.submit("sleep 2", "layer " + 2_000_000 * "x").result()


def test_short_memory_allows_one_job_at_a_time(tmp_path: Path, directory: Path) -> None:
    events: list[str] = []
    with WorkerPool(directory, 4, 10**9, COMMAND) as pool:
        jobs = ToyJobs(tmp_path, pool)
        for _ in range(3):
            future = jobs.submit(started=partial(events.append, "starts"))
            future.add_done_callback(lambda _: events.append("ends"))
    assert events == ["starts", "ends"] * 3


def test_big_jobs_wait_for_memory(tmp_path: Path, directory: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    with (model / "weights").open("wb") as file:
        file.truncate(10**9)  # a hole: 21 GB are expected for a model of this size
    events: list[str] = []
    with WorkerPool(directory, 4, 30 * 10**9, COMMAND) as pool:
        for number in range(3):
            out = tmp_path / str(number)
            out.mkdir()
            job = InspectRequest().job(model, out)
            future = pool.submit(job, partial(events.append, "starts"))
            future.add_done_callback(lambda _: events.append("ends"))
    assert events == ["starts", "ends"] * 3


def test_started_is_called_when_a_worker_is_free(jobs: ToyJobs) -> None:
    events: list[str] = []
    for name in ("first", "second"):
        future = jobs.submit(started=partial(events.append, f"{name} starts"))
        future.add_done_callback(lambda _, name=name: events.append(f"{name} ends"))  # type: ignore[misc]
    wait_until(lambda: len(events) == 4)
    assert events == ["first starts", "first ends", "second starts", "second ends"]


def test_a_job_that_waits_can_be_cancelled(jobs: ToyJobs) -> None:
    begun = threading.Event()
    running = jobs.submit("sleep 0.3", started=begun.set)
    assert begun.wait(_SECONDS)
    waiting, last = jobs.submit("add never"), jobs.submit()
    assert waiting.cancel()
    assert running.result()
    assert last.result()
    with pytest.raises(CancelledError):
        waiting.result()


def test_a_worker_that_is_killed_costs_its_jobs_and_is_replaced(jobs: ToyJobs) -> None:
    before, others = _workers(), _running()
    job = jobs.submit("sleep 600")
    wait_until(lambda: len(_workers() - before) == (2 if FORKS else 1))
    worker = min(_workers() - before, key=lambda process: process.create_time())
    worker.kill()
    with pytest.raises(WorkerError, match=r"killed by signal 9 \(SIGKILL\).*memory"):
        job.result()
    jobs.submit().result()
    (idle,) = _workers() - before
    assert idle != worker
    idle.kill()
    idle.wait()
    wait_until(lambda: not _running() - others)  # also what holds a sandbox
    jobs.submit().result()  # one that was killed while it was idle costs nothing


# --- ends -----------------------------------------------------------------------------------------


def test_an_interrupt_ends_every_process_at_once(tmp_path: Path, directory: Path) -> None:
    before, start = set(psutil.Process().children(recursive=True)), time.monotonic()
    with suppress(KeyboardInterrupt), WorkerPool(directory, 2, 10**12, COMMAND) as pool:
        jobs = ToyJobs(tmp_path, pool)
        begun = [threading.Event() for _ in range(4)]
        futures = [jobs.submit("sleep 600", started=event.set) for event in begun]
        wait_until(lambda: begun[0].is_set() and begun[1].is_set())
        time.sleep(0.5)
        raise KeyboardInterrupt
    assert time.monotonic() - start < _SECONDS
    wait_until(lambda: not set(psutil.Process().children(recursive=True)) - before)
    for future in futures:
        with pytest.raises(WorkerError, match="stopped because the build ended"):
            future.result()
    with pytest.raises(RuntimeError, match="closed"):
        jobs.submit()


_POOL = """
import sys, time
from pathlib import Path
from modelwheel.workers.jobs import InspectRequest
from modelwheel.workers.pool import WorkerPool
from modelwheel.sandbox.choose import Sandbox, choose_sandbox
from modelwheel.sandbox.policy import Policy
from modelwheel.store.store import Store

store = Store(Path(sys.argv[1]))
model, out, kind = Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
sandbox = choose_sandbox(Policy.PREFERRED) if kind == "best" else Sandbox(kind, kind)
with store.scratch() as scratch:
    with WorkerPool(scratch, 1, None, sys.argv[5:], sandbox=sandbox) as pool:
        pool.submit(InspectRequest().job(model, out), lambda: print("started", flush=True)).result()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("best", "during a job"),
        ("landlock", "during a job"),
        ("none", "during a job"),
        ("best", "at start-up"),
    ],
)
def test_a_pool_that_is_killed_leaves_no_process_and_no_file(
    tmp_path: Path, kind: str, moment: str
) -> None:
    """Neither its own nor its workers'; the next process empties the store's scratch space."""
    for name in ("temporary", "model", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "model" / "behaviour").write_text("add begun\nsleep 600")
    names = ("TMPDIR", "TEMP", "TMP")
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", _POOL),
            *(tmp_path / name for name in ("store", "model", "out")),
            *(kind, *COMMAND),
        ],
        env={
            **os.environ,
            **dict.fromkeys(names, str(tmp_path / "temporary")),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    scratch = tmp_path / "store" / "tmp"
    if moment == "at start-up":
        wait_until(lambda: list(scratch.rglob("worker-1.log")))
        wait_until(lambda: psutil.Process(process.pid).children())
    else:
        wait_until(lambda: list(scratch.rglob("begun")))
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert not alive
    assert list((tmp_path / "temporary").iterdir()) == []
    assert [path.name for path in scratch.rglob("worker-1.log")] == ["worker-1.log"]
    store = Store(tmp_path / "store")
    with store.scratch():
        assert list(scratch.rglob("worker-1.log")) == []
    store.close()
