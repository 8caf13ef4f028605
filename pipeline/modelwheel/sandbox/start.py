"""Starts `launch` and waits until it has executed the program."""

from __future__ import annotations

import marshal
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import modelwheel

from ..util.processes.groups import CREATION_FLAGS, kill_group
from .layout import library_paths
from .messages import READY
from .policy import Access, Limits, SandboxError, with_home

if TYPE_CHECKING:
    from typing_extensions import Self

    from .messages import Request

Stream: TypeAlias = int | IO[Any] | None

_LAUNCH = "import sys; sys.path.insert(0, sys.argv[1]); from modelwheel.sandbox.launch import main; main()"
_PATIENCE = 30.0
"""Seconds until the launcher has answered; it takes some hundredths."""

_starter: list[ThreadPoolExecutor] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_starter.clear)  # its thread stays in the parent


def _start_thread() -> ThreadPoolExecutor:
    # The kernel ends a program with the *thread* that started it (prctl(2), PR_SET_PDEATHSIG), so that
    # must not be a caller's thread, which may end before the program.
    if not _starter:
        _starter.append(ThreadPoolExecutor(1, thread_name_prefix="sandbox"))
    return _starter[0]


def start_launched(
    outer: Sequence[str],
    argv: Sequence[str | Path],
    access: Access,
    limits: Limits,
    variables: Mapping[str, str],
    *,
    stdin: Stream,
    stdout: Stream,
    stderr: Stream,
    confined: bool = True,
) -> subprocess.Popen[bytes]:
    """Starts a program through `launch`.

    Args:
        outer: A program that starts the launcher, such as bubblewrap with its options.
        argv: The program, with an absolute path, and its arguments.
        access: Its files.
        limits: Its limits.
        variables: Its environment, to which the home and the place for temporary files are added.
        stdin: As `subprocess.Popen` takes it.
        stdout: The same.
        stderr: The same.
        confined: Whether to restrict it.

    Raises:
        SandboxError: It cannot be started.
    """
    directory = access.write.absolute()
    request: Request = {
        "argv": [os.fspath(part) for part in argv],
        "directory": str(directory),
        "parent": None if outer else os.getpid(),
        "confined": confined,
        "limits": asdict(limits),
        "readable": [str(p.absolute()) for p in (*library_paths(), *access.read)],
    }
    with _Pipe() as requests, _Pipe() as answers:
        options: dict[str, Any] = {
            "stdin": stdin,
            "stdout": stdout,
            "stderr": stderr,
            "cwd": directory,
            "env": with_home(variables, directory),
            "pass_fds": [requests.read_end, answers.write_end],
            "start_new_session": True,
            "creationflags": CREATION_FLAGS,
        }
        command = [*outer, *_launcher(), *map(str, options["pass_fds"])]
        process = _popen(command, options)
        try:
            requests.close_read_end()
            answers.close_write_end()
            _await_ready(process, request, requests.write_end, answers.read_end)
        except BaseException:
            _end(process)
            raise
    return process


class _Pipe:
    """A pipe whose ends are closed at the end of a `with` block."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self._open = {self.read_end, self.write_end}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_read_end()
        self.close_write_end()

    def close_read_end(self) -> None:
        self._close(self.read_end)

    def close_write_end(self) -> None:
        self._close(self.write_end)

    def _close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            os.close(descriptor)


def _launcher() -> list[str]:
    # -I and -S: nothing but the standard library and modelwheel can be imported.
    return [sys.executable, "-I", "-S", "-c", _LAUNCH, str(Path(modelwheel.__file__).parents[1])]


def _popen(command: Sequence[str], options: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    future: Future[subprocess.Popen[bytes]] = _start_thread().submit(
        lambda: subprocess.Popen(command, **options)
    )
    try:
        return future.result()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SandboxError(f"cannot start {command[0]}: {reason}") from error
    except BaseException:  # Ctrl-C: nobody will hear of the process
        future.add_done_callback(_end_started)
        raise


def _end_started(future: Future[subprocess.Popen[bytes]]) -> None:
    if future.exception() is None:
        _end(future.result())


def _await_ready(
    process: subprocess.Popen[bytes], request: Request, requests: int, answers: int
) -> None:
    content = marshal.dumps(dict(request))
    # If the launcher has ended, it has left no answer, which is reported below.
    with suppress(BrokenPipeError), open(requests, "wb", closefd=False) as channel:
        channel.write(len(content).to_bytes(8, "little") + content)
    answer, deadline = b"", time.monotonic() + _PATIENCE
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([answers], [], [], left)[0]:
            raise SandboxError(f"the sandbox was not ready after {_PATIENCE:g} s")
        part = os.read(answers, 4096)
        if not part:
            break
        answer += part
    if answer == READY:
        return
    reason = answer.removeprefix(READY).decode(errors="replace")
    what = f"cannot run {request['argv'][0]} in the sandbox"
    if reason:
        raise SandboxError(f"{what}: {reason}")
    raise SandboxError(f"{what}: the sandbox ended with exit code {process.wait()}")


def _end(process: subprocess.Popen[bytes]) -> None:
    kill_group(process)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
