"""The child that runs one job: gives up everything but its job's files, and then reads the job."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from typing import NoReturn

from ...errors import EnvironmentProblemError
from ...sandbox.confine import confine
from ...sandbox.kernel import end_with_parent
from ...sandbox.policy import Access, SandboxError
from ..protocol import Answer, Hello, Message
from .answering import answer_message
from .work import Work


def run(
    work: Work,
    hello: Hello,
    problem: Exception | None,
    message: Message,
    server: int,
    answer_pipe: int,
    log_pipe: int,
) -> NoReturn:
    """Runs a job in the process that was forked for it, and ends that process.

    Args:
        work: What jobs do.
        hello: From the client.
        problem: Why no job can be run.
        message: The job.
        server: The process that forked this one.
        answer_pipe: Receives the answer.
        log_pipe: Becomes standard output and error.
    """
    code = 1
    try:
        _leave_server(server, answer_pipe, log_pipe)
        content = _answer(work, hello, problem, message).model_dump_json().encode()
        with os.fdopen(answer_pipe, "wb") as pipe:
            pipe.write(content)
        code = 0
    except BaseException:  # noqa: BLE001 - even SystemExit must not return into the server's loop
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        # Nothing is cleaned up: that would take time, and TensorFlow's threads may be at work.
        os._exit(code)


def _leave_server(server: int, answer_pipe: int, log_pipe: int) -> None:
    """Leaves the server's process group and closes its pipes, above all those to the client."""
    end_with_parent(server)
    os.setsid()
    os.dup2(log_pipe, 1)
    os.dup2(log_pipe, 2)
    os.closerange(3, answer_pipe)
    os.closerange(answer_pipe + 1, os.sysconf("SC_OPEN_MAX"))


def _answer(work: Work, hello: Hello, problem: Exception | None, message: Message) -> Answer:
    scratch = message.scratch
    names = ("TMPDIR", "TEMP", "TMP", "HOME")
    os.environ.update(dict.fromkeys(names, str(scratch)))
    tempfile.tempdir = str(scratch)
    os.chdir(scratch)
    try:
        if hello.locks_in:
            confine(Access(read=(message.inputs,), write=scratch), message.limits)
    except SandboxError as error:
        return Answer.failure(EnvironmentProblemError.__name__, str(error))
    return answer_message(work, problem, message)
