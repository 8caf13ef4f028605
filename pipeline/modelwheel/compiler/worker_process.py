"""The client of one worker process: starts it with its flags, sends it jobs, explains why it died."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

import modelwheel

from .. import errors
from ..errors import CompileError, ModelwheelError
from ..util.groups import CREATION_FLAGS, kill_group
from ..util.words import first_few
from .flags import Flags
from .jobs import Answer, Job, JobResult, Message

COMMAND = (sys.executable, "-m", "modelwheel.compiler.worker")
"""Starts a worker."""

_LOG_LINES = 30
"""The end of a log that goes into the report of an unexpected error."""

_KILLED = -9
"""The exit code after SIGKILL, a signal that Windows does not have."""

_OURS = {
    "TF_ENABLE_ONEDNN_OPTS": "0",  # references come from TensorFlow's own kernels
    # Errors and fatal errors: the log is read for the reason if the worker dies.
    "TF_CPP_MIN_LOG_LEVEL": "2",
    # References do not depend on whether the machine has a GPU.
    "CUDA_VISIBLE_DEVICES": "-1",
    # Sets of names are walked in the same order in every worker.
    "PYTHONHASHSEED": "0",
}


class WorkerError(CompileError):
    """A job failed in a way that its code did not expect.

    Attributes:
        detail: A traceback, or the end of the worker's log: for a bug report.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


def worker_environment(
    flags: Flags, inherited: Mapping[str, str], temporary: Path
) -> dict[str, str]:
    """The environment variables of a worker: nothing that steers TensorFlow is inherited.

    Args:
        flags: The compiler flags.
        inherited: The variables of this process.
        temporary: The directory for temporary files.
    """
    environment = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(("TF_", "XLA_", "PYTHONPATH"))
    }
    environment |= _OURS
    # The variables that `tempfile` reads. The directory is removed by its owner, so that a worker
    # that is killed leaves no files behind.
    environment |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    environment["XLA_FLAGS"] = " ".join(flags.xla)
    environment["TF_XLA_FLAGS"] = " ".join(flags.tf_xla)
    # The worker imports the modelwheel of its client, wherever that runs from.
    environment["PYTHONPATH"] = str(Path(modelwheel.__file__).parents[1])
    return environment


class WorkerProcess:
    """A running worker. One thread at a time may call `run`; any thread may call `kill`.

    Args:
        flags: The compiler flags, which it reads once.
        directory: Its working directory and place for temporary files, which holds nothing that
            Python could import.
        number: Makes the name of its log unique in the directory.
        command: What to start.
    """

    def __init__(
        self, flags: Flags, directory: Path, number: int, command: Sequence[str] = COMMAND
    ) -> None:
        self.flags = flags
        self._log = directory / f"worker-{number}.log"
        self._jobs = 0
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Not a pipe: nobody reads it during a job, and a full one would block the worker.
                stderr=log,
                cwd=directory,
                env=worker_environment(flags, os.environ, directory),
                encoding="utf-8",
                # Ctrl-C in a terminal is for the client, which then kills the whole group.
                start_new_session=True,
                creationflags=CREATION_FLAGS,
            )

    def run(self, job: Job) -> JobResult:
        """Runs one job.

        Raises:
            ModelwheelError: What the job raised.
            WorkerError: The job failed unexpectedly, or the process died.
        """
        self._jobs += 1
        answer = self._ask(Message(id=self._jobs, job=job.model_dump(mode="json")))
        if answer.error is None:
            _require_outputs(job)
            return JobResult(answer.seconds)
        if answer.detail:
            raise WorkerError(answer.message, answer.detail)
        kind = getattr(errors, answer.error, CompileError)
        error: ModelwheelError = kind(answer.message)
        raise error

    def _ask(self, message: Message) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(message.model_dump_json(), file=self._process.stdin, flush=True)
            reply = self._process.stdout.readline()
        except (OSError, ValueError):  # a broken pipe, or one that `kill` closed
            reply = ""
        # A line without its end is what a worker wrote before it died.
        if not reply.endswith("\n"):
            self.kill()
            lines = self._log.read_text("utf-8", errors="replace").splitlines()
            reason = explain_end(self._process.wait(), lines)
            raise WorkerError(reason, "\n".join(lines[-_LOG_LINES:]))
        return self._parse(reply, message.id)

    def _parse(self, reply: str, expected: int) -> Answer:
        """The answer to a message; a worker that replies anything else cannot be used any more."""
        try:
            answer = Answer.model_validate_json(reply)
        except ValidationError as error:
            self._kill_and_wait()
            raise WorkerError(
                "internal error: the worker sent no valid answer", str(error)
            ) from None
        if answer.id != expected:
            self._kill_and_wait()
            raise WorkerError(f"internal error: the worker answered {answer.id}, not {expected}")
        return answer

    @property
    def is_alive(self) -> bool:
        """Whether it can take another job."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process and everything that it started, at once; it has nothing to clean up."""
        kill_group(self._process)

    def _kill_and_wait(self) -> None:
        """Kills the process; afterwards it is not alive."""
        self.kill()
        self._process.wait()

    def close(self) -> None:
        """Kills the process and closes its pipes."""
        self._kill_and_wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # input that was not sent cannot be flushed
                    pipe.close()


def _require_outputs(job: Job) -> None:
    """Raises WorkerError unless the job wrote exactly the files that its request declares."""
    found, expected = {path.name for path in job.out.iterdir()}, set(job.request.OUTPUTS)
    if missing := expected - found:
        raise WorkerError(f"internal error: {job.kind} did not write {first_few(sorted(missing))}")
    if extra := found - expected:
        raise WorkerError(f"internal error: {job.kind} also wrote {first_few(sorted(extra))}")


def explain_end(code: int, log: list[str]) -> str:
    """Why a worker died during a job, in one sentence.

    Args:
        code: Its exit code, negative for a signal.
        log: The lines that it wrote to standard error.
    """
    fatal = next(filter(None, map(_fatal_message, reversed(log))), "")
    # XLA ends the process at a flag that it does not know (xla/parse_flags_from_env.cc).
    unknown = re.search(r"Unknown flags? in (\w+): (.*)", fatal)
    if unknown:
        return f"{unknown[1]}: the compiler has no flag {unknown[2]}; remove it from the spec"
    last = f": {fatal}" if fatal else ""
    if code >= 0:
        return f"the worker process ended with exit code {code}{last}"
    try:
        name = f"signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        name = f"signal {-code}"
    if code == _KILLED:
        return (
            f"the worker process was killed by {name}, most likely because memory ran out; "
            "free some memory, or run fewer steps at once (--jobs)"
        )
    return f"the worker process crashed with {name}{last}"


def _fatal_message(line: str) -> str:
    """The message of a fatal line of the log (abseil's format, LLVM's or Python's), or nothing."""
    match = re.match(r"F\d{4} [^\]]*\] (.*)|(LLVM ERROR: .*)|(Fatal Python error: .*)", line)
    return next(filter(None, match.groups()), "") if match else ""
