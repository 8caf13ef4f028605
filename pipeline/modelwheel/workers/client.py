"""The client of one worker: starts it, sends it jobs, believes no more of its replies than it must."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

import modelwheel

from .. import errors
from ..errors import CompileError, ModelwheelError
from ..sandbox.choose import Sandbox, choose_sandbox
from ..sandbox.policy import Access, Limits, Policy, environment
from ..util.processes.groups import kill_group
from ..util.text import one_line, safe_lines
from ..versions import TENSORFLOW_VARIABLE, TENSORFLOW_VERSION
from .endings import (
    WorkerError,
    end_of,
    explain_end,
    is_out_of_time,
    ran_out_of_memory,
    too_large,
    too_long,
)
from .exchange import Exchange, Staged
from .flags import Flags
from .jobs import Job, JobResult
from .protocol import MAX_REPLY_BYTES, Answer, Hello, Message, Reply, Task
from .trail import is_followed, last_place

COMMAND = (sys.executable, "-m", "modelwheel.compiler")
"""Starts a worker."""

FORKS = sys.platform == "linux"
"""Whether a worker runs each job in a child. Windows has no fork; on macOS, system libraries that
TensorFlow has loaded do not survive one (https://bugs.python.org/issue33725)."""

_PATIENCE_SECONDS = 300.0
"""How much longer than its limit a job may take, with TensorFlow's import, until all of its worker
is ended: the worker itself ends jobs in time."""

_ENDING_SECONDS = 5.0
"""How long a worker that says nothing more may take to end with its own exit code."""

_NAMING_SECONDS = 30.0
"""How long a worker may look for the layers that an error names."""

_SIGNALS = 128
"""As shells do, bubblewrap ends with this and the number of the signal that ended the program."""

_CHECKS = ("MODELWHEEL_VERIFY",)
"""Inherited: graphs are checked after each pass, which changes no result."""

_OURS = {
    "TF_ENABLE_ONEDNN_OPTS": "0",  # references come from TensorFlow's own kernels
    # Errors and fatal errors: the log is read for the reason if the worker dies.
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # Otherwise glibc keeps what is freed in pieces, and evaluations of large values need more memory one after the other.
    "MALLOC_MMAP_THRESHOLD_": "1048576",
    # References do not depend on whether the machine has a GPU.
    "CUDA_VISIBLE_DEVICES": "-1",
    # NumPy's library would start threads when it is imported, and a process with threads cannot fork.
    "OPENBLAS_NUM_THREADS": "1",
    # Sets of names are walked in the same order in every worker.
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONSAFEPATH": "1",
}


@dataclass(frozen=True)
class WorkerSettings:
    """How workers are started."""

    command: Sequence[str] = COMMAND
    sandbox: Sandbox | None = None
    """By default the best one that this machine has, which is found out when one is needed."""
    forks: bool = FORKS


def worker_environment(flags: Flags) -> dict[str, str]:
    """The environment variables of a worker: nothing that steers TensorFlow is inherited.

    Args:
        flags: The compiler flags, for a worker that does not fork.
    """
    # The worker imports the modelwheel of its client, wherever that runs from.
    package = {"PYTHONPATH": str(Path(modelwheel.__file__).parents[1])}
    # It compares the TensorFlow that it finds with the one in the keys of its client.
    version = {TENSORFLOW_VARIABLE: TENSORFLOW_VERSION}
    checks = {name: os.environ[name] for name in _CHECKS if name in os.environ}
    return environment({**_OURS, **flags.environment(), **package, **version, **checks})


@dataclass(frozen=True)
class Started:
    """A worker that has been started, and what its client needs to know of it."""

    process: subprocess.Popen[bytes]
    sandbox: Sandbox
    exchange: Exchange
    log: Path
    nonce: str
    """Every reply of the worker has it."""
    limits: Limits
    """Of the worker itself."""


def start(
    settings: WorkerSettings,
    flags: Flags,
    directory: Path,
    number: int,
    limits: Limits | None = None,
) -> Started:
    """Starts a worker, which begins to import TensorFlow.

    Args:
        settings: How to start it.
        flags: Its compiler flags, if it does not fork: it reads them once.
        directory: For its log and its files, none of which is anything that Python could import.
        number: Makes their names unique in the directory.
        limits: Of the worker itself.
    """
    path, limits = directory / f"worker-{number}.log", limits or Limits()
    exchange = Exchange(directory / f"worker-{number}")
    sandbox = settings.sandbox or choose_sandbox(Policy.PREFERRED)
    with path.open("wb") as log:
        process = sandbox.start(
            settings.command,
            Access(read=(exchange.inputs,), write=exchange.scratch),
            limits,
            worker_environment(flags),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Not a pipe: nobody would read it, and a full one would block the worker.
            stderr=log,
        )
    started = Started(process, sandbox, exchange, path, secrets.token_hex(16), limits)
    hello = Hello(nonce=started.nonce, forks=settings.forks, locks_in=sandbox.confines)
    with suppress(OSError, ValueError):  # who reads its replies finds out why it has ended
        _write(process, hello.model_dump_json())
    return started


def _write(process: subprocess.Popen[bytes], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n".encode())
    process.stdin.flush()


class WorkerProcess:
    """A running worker. Any thread may call any method.

    Args:
        started: The worker, of which nobody else is a client.
    """

    def __init__(self, started: Started) -> None:
        self._process, self._sandbox = started.process, started.sandbox
        self._exchange, self._log = started.exchange, started.log
        self._nonce, self._limits = started.nonce, started.limits
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Reply]] = {}
        self._lock = threading.Lock()
        # Its own: a full pipe must not keep replies from being read.
        self._writing = threading.Lock()
        self._ended: WorkerError | None = None
        self._reader = threading.Thread(target=self._receive, daemon=True)
        self._reader.start()

    def run(self, job: Job, limits: Limits, step: str = "") -> JobResult:
        """Runs one job; its outputs are in its directory afterwards, or nothing is.

        Args:
            job: The job.
            limits: What it may use.
            step: What to call it in messages.

        Raises:
            ModelwheelError: What the job raised.
            WorkerError: The job failed unexpectedly or reached a limit, or its process died.
        """
        number = next(self._numbers)
        try:
            staged = self._exchange.stage(job, number)
            reply = self._ask(number, staged, limits)
            if reply.answer is None or reply.answer.error is not None:
                raise self._failure(reply, staged, limits, step or f"the step {job.kind}")
            self._exchange.take(job, staged, limits.file_bytes)
            # A worker that does not fork measures neither.
            return JobResult(
                reply.answer.seconds, reply.cpu_seconds or None, reply.peak_bytes or None
            )
        finally:
            self._exchange.remove(number)

    def _failure(self, reply: Reply, staged: Staged, limits: Limits, step: str) -> ModelwheelError:
        """The error of a job that has no result."""
        answer = reply.answer or Answer()
        code, log = reply.code or 0, reply.log
        if reply.ending == "timeout" or is_out_of_time(code):
            return too_long(step, limits, self._name_layers(staged, limits), staged.job)
        if limits.memory_bytes is not None and (
            answer.error == MemoryError.__name__
            or ran_out_of_memory(code, log, reply.peak_bytes / limits.memory_bytes)
        ):
            layers = self._name_layers(staged, limits)
            detail = safe_lines(answer.detail) or end_of(log)
            return too_large(step, limits, layers, detail, staged.job)
        if reply.ending == "garbage":
            return WorkerError("the process of the job sent no valid answer", end_of(log))
        if reply.ending == "ended":
            place = self._find_crash(staged, limits) if is_followed(staged.job) else ""
            sentence = explain_end(code, log.splitlines(), staged.job, place)
            return WorkerError(sentence, end_of(log))
        message = one_line(answer.message) or f"{step} failed and gave no reason"
        if answer.detail:
            return WorkerError(message, safe_lines(answer.detail))
        return _error_class(answer.error)(message, code=_known_code(answer.code))

    def _name_layers(self, staged: Staged, limits: Limits) -> tuple[str, ...]:
        """The layers that most likely make a step hard; empty if they cannot be found soon."""
        soon = replace(limits, wall_seconds=_NAMING_SECONDS)
        number = next(self._numbers)
        with suppress(WorkerError):
            reply = self._ask(number, staged, soon, Task.NAME_LAYERS)
            return reply.answer.layers if reply.answer is not None else ()
        return ()

    def _find_crash(self, staged: Staged, limits: Limits) -> str:
        """The node at which a job crashes again; empty if its steps are not known, or it does not."""
        soon = replace(limits, wall_seconds=_NAMING_SECONDS)
        number = next(self._numbers)
        with suppress(WorkerError):
            reply = self._ask(number, staged, soon, Task.FOLLOW)
            return last_place(reply.log) if reply.ending == "ended" else ""
        return ""

    def _ask(self, number: int, staged: Staged, limits: Limits, task: Task = Task.RUN) -> Reply:
        message = Message(
            id=number,
            job=staged.job.model_dump(mode="json"),
            task=task,
            inputs=staged.inputs,
            scratch=staged.scratch,
            limits=limits,
        )
        future: Future[Reply] = Future()
        with self._lock:
            if self._ended is not None:
                raise self._ended
            self._waiting[number] = future
        # If it has ended, the reader finds out why.
        with suppress(OSError, ValueError), self._writing:
            _write(self._process, message.model_dump_json())
        wall = limits.wall_seconds
        try:
            return future.result(None if wall is None else wall + _PATIENCE_SECONDS)
        except FutureTimeoutError:
            # It does not fork, or something keeps it from ending the job itself.
            self.kill()
            return Reply(nonce=self._nonce, id=number, ending="timeout")

    # --- replies, in a thread of its own ----------------------------------------------------------

    def _receive(self) -> None:
        problem: WorkerError | None = None
        assert self._process.stdout is not None
        with suppress(OSError, ValueError):  # a pipe that broke
            while problem is None:
                line = self._process.stdout.readline(MAX_REPLY_BYTES)
                # A line without its end is what a worker wrote before it died.
                if not line.endswith(b"\n") and len(line) < MAX_REPLY_BYTES:
                    break
                problem = self._settle(line)
        if problem is None:
            with suppress(subprocess.TimeoutExpired):  # it closes its pipe, then it ends
                self._process.wait(_ENDING_SECONDS)
        self.kill()
        code = self._process.wait()
        if code > _SIGNALS and self._sandbox.kind == "bubblewrap":
            code = _SIGNALS - code
        if problem is None:
            log = self._log.read_text("utf-8", errors="replace")
            if self._limits.memory_bytes is not None and ran_out_of_memory(code, log):
                problem = too_large("the step", self._limits, (), end_of(log))
            else:
                problem = WorkerError(explain_end(code, log.splitlines()), end_of(log))
        with self._lock:
            self._ended, waiting = problem, dict(self._waiting)
            self._waiting.clear()
        for future in waiting.values():
            future.set_exception(problem)

    def _settle(self, line: bytes) -> WorkerError | None:
        """Passes a reply on; returns why this worker cannot be used any more."""
        try:
            reply = Reply.model_validate_json(line)
        except ValidationError as error:
            return WorkerError("internal error: the worker sent no valid reply", str(error))
        if not secrets.compare_digest(reply.nonce.encode(), self._nonce.encode()):
            return WorkerError("a reply does not come from the worker; it was killed")
        with self._lock:
            future = self._waiting.pop(reply.id, None)
        if future is None:
            return WorkerError(
                f"internal error: the worker answered {reply.id}, which is not asked"
            )
        future.set_result(reply)
        return None

    # --- its end ----------------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Whether it can take another job."""
        return self._ended is None and self._process.poll() is None

    def kill(self) -> None:
        """Ends the process and everything that it started, at once; it has nothing to clean up."""
        kill_group(self._process)

    def close(self) -> None:
        """Kills the process and closes its pipes."""
        self.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # input that was not sent cannot be flushed
                    pipe.close()


def _known_code(code: str) -> str:
    """A code that a job gave, which may be anything; empty if it has the form of none."""
    return code if re.fullmatch(r"MW[0-9]{3}", code) else ""


def _error_class(name: str | None) -> type[ModelwheelError]:
    """The class of errors that a job named, which may be anything."""
    classes: Mapping[str, object] = vars(errors)
    kind = classes.get(name or "")
    known = isinstance(kind, type) and issubclass(kind, ModelwheelError)
    return kind if known else CompileError  # type: ignore[return-value]
