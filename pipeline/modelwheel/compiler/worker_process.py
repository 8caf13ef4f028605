"""One worker process as its client sees it: started with its flags, given jobs, and its end explained."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import modelwheel

from .. import errors
from ..errors import CompileError, ModelwheelError
from ..util.groups import CREATION_FLAGS, kill_group
from .jobs import Flags, Job, JobResult

_LOG_LINES = 30

_OURS = {
    "TF_ENABLE_ONEDNN_OPTS": "0",  # references are those of TensorFlow's own kernels
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "CUDA_VISIBLE_DEVICES": "-1",
    "PYTHONHASHSEED": "0",
}


class WorkerError(CompileError):
    """A job failed in a way that its stage did not foresee.

    Attributes:
        detail: A traceback, or the end of what the worker said: for a report of the fault.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


def worker_environment(flags: Flags, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a worker: nothing that steers TensorFlow is inherited."""
    environment = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(("TF_", "XLA_", "PYTHONPATH"))
    }
    environment |= _OURS
    environment["XLA_FLAGS"] = " ".join(flags.xla)
    environment["TF_XLA_FLAGS"] = " ".join(flags.tf_xla)
    environment["PYTHONPATH"] = str(Path(modelwheel.__file__).parents[1])
    return environment


class WorkerProcess:
    """A running worker. One thread at a time may call `run`; any thread may call `kill`.

    Args:
        flags: The compiler flags that it reads once.
        directory: Its working directory, which holds nothing that Python could import.
        number: Tells its log from those of others in the same directory.
    """

    def __init__(self, flags: Flags, directory: Path, number: int) -> None:
        self.flags = flags
        self._log = directory / f"worker-{number}.log"
        self._jobs = 0
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "modelwheel.compiler.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env=worker_environment(flags, os.environ),
                encoding="utf-8",
                # Ctrl-C in a terminal is for the client, which then kills the whole group.
                start_new_session=True,
                creationflags=CREATION_FLAGS,
            )

    def run(self, job: Job) -> JobResult:
        """Does one job.

        Raises:
            ModelwheelError: What the job raised.
            WorkerError: The job failed unexpectedly, or the process died of it.
        """
        self._jobs += 1
        answer = self._ask(json.dumps(job.message(self._jobs)))
        if answer["ok"]:
            return JobResult(answer["seconds"], answer["peak_bytes"])
        if "detail" in answer:
            raise WorkerError(answer["message"], answer["detail"])
        kind = getattr(errors, answer["error"], CompileError)
        error: ModelwheelError = kind(answer["message"])
        raise error

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(line, file=self._process.stdin, flush=True)
            reply = self._process.stdout.readline()
        except (OSError, ValueError):  # a broken pipe, or one that `kill` closed
            reply = ""
        if not reply.endswith("\n"):
            self.kill()
            lines = self._log.read_text("utf-8", errors="replace").splitlines()
            reason = explain_end(self._process.wait(), lines)
            raise WorkerError(reason, "\n".join(lines[-_LOG_LINES:]))
        answer: dict[str, Any] = json.loads(reply)
        return answer

    @property
    def is_alive(self) -> bool:
        """Whether it can take another job."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process and all that it started, at once; it has nothing to tidy up."""
        kill_group(self._process)

    def close(self) -> None:
        """Kills the process and frees what it held here."""
        self.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not sent any more cannot be flushed
                    pipe.close()


def explain_end(code: int, log: list[str]) -> str:
    """Why a worker died in the middle of a job, in one sentence.

    Args:
        code: Its exit code, negative for a signal.
        log: What it wrote to standard error.
    """
    fatal = next(filter(None, map(_fatal_message, reversed(log))), "")
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
    if code == -9:  # SIGKILL, which Windows does not name
        return (
            f"the worker process was killed by {name}, most likely because memory ran out; "
            "free some, or let fewer steps run at once"
        )
    return f"the worker process crashed with {name}{last}"


def _fatal_message(line: str) -> str:
    """What a fatal line of the log says (abseil's format, or LLVM's), or nothing."""
    match = re.match(r"F\d{4} [^\]]*\] (.*)|(LLVM ERROR: .*)|(Fatal Python error: .*)", line)
    return next(filter(None, match.groups()), "") if match else ""
