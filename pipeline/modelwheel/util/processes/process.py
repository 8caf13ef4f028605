"""Runs subprocesses: captured or streamed, killed as a group."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from ...errors import ModelwheelError
from ..urls import redact
from ..words import time_text
from . import guard
from .groups import CREATION_FLAGS, interrupt_group, kill_group

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_MAX_SAID = 1 << 20
"""Bytes that are read of what a program wrote to standard error."""

_TAIL_LINES = 20
_REAP_SECONDS = 5
_TIDY_SECONDS = 60
"""For an interrupted program to remove what it started, such as a container."""

_alive: dict[subprocess.Popen[bytes], int] = {}
"""The programs that run, with the threads that started them."""
_alive_lock = threading.Lock()


class ProcessError(ModelwheelError):
    """A program could not be started, failed, or took too long.

    Attributes:
        returncode: The exit code, negative for a signal; None if it never started or timed out.
        output: All of its standard error, then its standard output unless that was redirected.
    """

    exit_code = 12
    code = "MW740"

    def __init__(
        self, message: str, *, returncode: int | None = None, output: str = "", code: str = ""
    ) -> None:
        super().__init__(message, code=code)
        self.returncode = returncode
        self.output = output


class ProcessTimeoutError(ProcessError):
    """A program exceeded its time limit and was stopped."""

    exit_code = 13
    code = "MW741"


@dataclass(frozen=True)
class Ceiling:
    """The limits of a program and each program that it starts; only Linux enforces them here."""

    memory_bytes: int
    """Of data; mapped files do not count."""
    file_bytes: int
    """Of each file that is written."""


@dataclass(frozen=True)
class Completed:
    """A program that ran to its end."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    """Empty if standard output was redirected to a file."""
    stderr: bytes

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.stdout.decode(errors="replace")


def run(
    argv: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes | None = None,  # noqa: A002 - as subprocess.run names it
    timeout: float | None = None,
    stdout: BinaryIO | None = None,
    check: bool = True,
    ceiling: Ceiling | None = None,
) -> Completed:
    """Runs a program to its end, without a shell, and captures what it writes.

    The program leads its own process group, which is killed if it takes longer than `timeout`
    seconds or if the caller is interrupted.

    Args:
        argv: The program and its arguments.
        cwd: The directory to run it in.
        env: Its whole environment; the caller's by default.
        input: Its standard input; empty by default.
        timeout: Seconds.
        stdout: A binary file that receives standard output in place of `Completed.stdout`.
        check: Whether an exit code other than 0 is an error.
        ceiling: What it may use.

    Raises:
        ProcessError: It could not be started, or `check` is set and it failed.
        ProcessTimeoutError: It took longer than `timeout`.
    """
    command = tuple(map(str, argv))
    shown = _pasteable(command, cwd)
    _log.debug("$ %s", shown)
    out, err, returncode = _communicate(command, shown, cwd, env, input, timeout, stdout, ceiling)
    if check and returncode != 0:
        raise _failure(shown, returncode, out, err)
    return Completed(command, returncode, out, err)


def stream(
    argv: Sequence[str | Path],
    on_line: Callable[[str], None],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """Runs a program that takes minutes, and passes on each line of its output at once.

    If the caller is interrupted, so is the program's process group; it has a minute to clean up.

    Args:
        argv: The program and its arguments.
        on_line: Called with each line of standard output and error, without credentials.
        cwd: The directory to run it in.
        env: Its whole environment; the caller's by default.

    Returns:
        The result, whatever the exit code; `stdout` has the lines of both streams.

    Raises:
        ProcessError: It could not be started.
    """
    command = tuple(map(str, argv))
    shown = _pasteable(command, cwd)
    _log.debug("$ %s", shown)
    # Both streams in one pipe: lines keep their order, and no second pipe can fill up unread.
    process = _start(command, shown, cwd, env, subprocess.PIPE, subprocess.STDOUT)
    assert process.stdout is not None
    lines: list[str] = []
    try:
        for raw in process.stdout:
            lines.append(redact(raw.decode(errors="replace").rstrip()))
            on_line(lines[-1])
        process.wait()
    except BaseException:
        _interrupt(process)
        raise
    finally:
        process.stdout.close()
        _remove(process)
    return Completed(command, process.returncode, "\n".join(lines).encode(), b"")


def read_output(
    argv: Sequence[str | Path],
    use: Callable[[BinaryIO], _T],
    *,
    env: Mapping[str, str] | None = None,
    timeout: float,
    ceiling: Ceiling | None = None,
) -> _T:
    """Runs a program whose output may be endless; it is killed when `use` returns or raises.

    Args:
        argv: The program and its arguments.
        use: Called with standard output; what it returns is the result.
        env: Its whole environment; the caller's by default.
        timeout: Seconds.
        ceiling: What it may use.

    Raises:
        ProcessError: It could not be started, or it failed and `use` read its output to the end.
        ProcessTimeoutError: It took longer than `timeout`.
    """
    command = tuple(map(str, argv))
    shown = _pasteable(command, None)
    _log.debug("$ %s", shown)
    with tempfile.TemporaryFile() as errors:
        process = _start(
            command, shown, None, env, subprocess.PIPE, errors.fileno(), ceiling=ceiling
        )
        assert process.stdout is not None
        late = threading.Event()

        def stop() -> None:
            late.set()
            kill_group(process)

        timer = threading.Timer(timeout, stop)
        timer.start()
        try:
            result = use(cast("BinaryIO", process.stdout))
            ended = not process.stdout.read(1)
            if ended:
                process.wait()
        finally:
            timer.cancel()
            kill_group(process)
            process.stdout.close()
            process.wait()
            _remove(process)
        errors.seek(0)
        tail = errors.read(_MAX_SAID)
    if late.is_set():
        message = f"`{shown}` took longer than {time_text(timeout or 0.0)} and was stopped"
        raise ProcessTimeoutError(_with_tail(message, b"", tail), output=_text(tail))
    if ended and process.returncode != 0:
        raise _failure(shown, process.returncode, b"", tail)
    return result


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Asks it to stop, as Ctrl-C does; kills it if it does not in time."""
    interrupt_group(process)
    try:
        process.communicate(timeout=_TIDY_SECONDS)
    except subprocess.TimeoutExpired:
        _kill_and_reap(process)


def kill_all(threads: Collection[int] | None = None) -> None:
    """Kills every program started by `run` that is still running, with all its children.

    For the thread that receives Ctrl-C while others wait in `run`: their calls fail at once.

    Args:
        threads: Only the programs that these threads have started; by default all.
    """
    with _alive_lock:
        processes = [
            child for child, owner in _alive.items() if threads is None or owner in threads
        ]
    for process in processes:
        kill_group(process)


@contextmanager
def known_to_kill_all(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Lets `kill_all` also kill a process that was started elsewhere, as leader of its group."""
    with _alive_lock:
        _add(process)
    try:
        yield
    finally:
        _remove(process)


def _communicate(
    command: tuple[str, ...],
    shown: str,
    cwd: Path | None,
    env: Mapping[str, str] | None,
    content: bytes | None,
    timeout: float | None,
    stdout: BinaryIO | None,
    ceiling: Ceiling | None,
) -> tuple[bytes, bytes, int]:
    process = _start(
        command,
        shown,
        cwd,
        env,
        subprocess.PIPE if stdout is None else stdout,
        subprocess.PIPE,
        has_input=content is not None,
        ceiling=ceiling,
    )
    try:
        out, err = process.communicate(content, timeout)
    except subprocess.TimeoutExpired:
        out, err = _kill_and_reap(process)
        message = f"`{shown}` took longer than {time_text(timeout or 0.0)} and was stopped"
        raise ProcessTimeoutError(_with_tail(message, out, err), output=_text(err, out)) from None
    except BaseException:  # above all KeyboardInterrupt
        _kill_and_reap(process)
        raise
    finally:
        _remove(process)
    return out or b"", err, process.returncode


def _start(
    command: tuple[str, ...],
    shown: str,
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stdout: BinaryIO | int,
    stderr: int,
    *,
    has_input: bool = False,
    ceiling: Ceiling | None = None,
) -> subprocess.Popen[bytes]:
    # Started under the lock: `kill_all` must not miss a program that starts meanwhile.
    with _alive_lock:
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=env,
                # Never our own: a program that asks a question must fail, not wait for an answer.
                stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                # A group of its own, to be killed as a whole; Ctrl-C reaches modelwheel alone.
                start_new_session=True,
                creationflags=CREATION_FLAGS,
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise ProcessError(
                f"cannot start `{shown}`: {reason}; install {command[0]!r} or put it on PATH"
            ) from error
        _add(process)
    _lower(process, ceiling)
    return process


def _add(process: subprocess.Popen[bytes]) -> None:
    """Called with the lock held."""
    _alive[process] = threading.get_ident()
    guard.watch(process.pid)


def _remove(process: subprocess.Popen[bytes]) -> None:
    """Of a process that has ended."""
    with _alive_lock:
        _alive.pop(process, None)
        guard.forget(process.pid)


def _lower(process: subprocess.Popen[bytes], ceiling: Ceiling | None) -> None:
    """Sets the limits of a program that has just started, before it starts others."""
    try:
        import resource
    except ImportError:  # Windows
        return
    # Not a function to run before exec: Python must not run in a fork of a process with threads.
    if ceiling is None or not hasattr(resource, "prlimit"):
        return
    for kind, limit in (
        (resource.RLIMIT_DATA, ceiling.memory_bytes),
        (resource.RLIMIT_FSIZE, ceiling.file_bytes),
    ):
        # It may have ended, or have a lower limit already.
        with suppress(OSError, ValueError):
            resource.prlimit(process.pid, kind, (limit, limit))


def _kill_and_reap(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Kills the group; returns the rest of its standard output and error."""
    kill_group(process)
    try:
        # Also closes the pipes and takes the exit status, so that no zombie is left.
        out, err = process.communicate(timeout=_REAP_SECONDS)
    except subprocess.TimeoutExpired:  # a child that left the group still holds the pipes
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        return b"", b""
    return out or b"", err


def _failure(shown: str, returncode: int, out: bytes, err: bytes) -> ProcessError:
    if returncode < 0:
        message = f"`{shown}` was killed by {signal_name(-returncode)}"
    else:
        message = f"`{shown}` failed with exit code {returncode}"
    return ProcessError(
        _with_tail(message, out, err), returncode=returncode, output=_text(err, out)
    )


def signal_name(number: int) -> str:
    """Such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _with_tail(message: str, out: bytes | None, err: bytes) -> str:
    """Adds the last lines of standard error or, if that is empty, of standard output."""
    lines = [line for line in _text(err if err.strip() else out).splitlines() if line.strip()]
    return "\n".join([f"{message}:" if lines else message, *lines[-_TAIL_LINES:]])


def _text(*parts: bytes | None) -> str:
    return redact("".join((part or b"").decode(errors="replace") for part in parts))


def _pasteable(command: tuple[str, ...], cwd: Path | None) -> str:
    parts = tuple(map(redact, command))
    line = _quote(parts)
    return line if cwd is None else f"cd {_quote((str(cwd),))} && {line}"


def _quote(parts: tuple[str, ...]) -> str:
    """As the shell of this system reads them."""
    return subprocess.list2cmdline(parts) if os.name == "nt" else shlex.join(parts)
