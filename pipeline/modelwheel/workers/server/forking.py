"""The server of a worker: forks a child for each job, and keeps the pipes to the client out of its reach.

The server imports what jobs need, once, and runs nothing of a model. So it has one thread and can fork;
the child locks itself in before it reads its job, and leaves one answer in a pipe of its own.
Several children may run at once.
"""

from __future__ import annotations

import os
import resource
import selectors
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TextIO

from ...errors import EnvironmentProblemError
from ..protocol import MAX_ANSWER_BYTES, MAX_LOG_BYTES, Ending, Hello, Message, Reply, parse_answer
from . import child
from .streams import Lines, send
from .work import Work

_CHUNK = 1 << 16


@dataclass(eq=False)
class _Running:
    """A child and what has come from it."""

    message: Message
    pid: int
    answer_pipe: int
    log_pipe: int
    deadline: float
    answer: bytearray = field(default_factory=bytearray)
    log: bytearray = field(default_factory=bytearray)
    late: bool = False


class Server:
    """Runs each job in a child. See the module.

    Args:
        work: What jobs do.
        hello: From the client.
        problem: Why no job can be run.
        lines: The messages.
        replies: The replies.
    """

    def __init__(
        self, work: Work, hello: Hello, problem: Exception | None, lines: Lines, replies: TextIO
    ) -> None:
        self._work, self._hello, self._problem = work, hello, problem
        self._lines, self._replies = lines, replies
        self._running: list[_Running] = []
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Answers messages until there are no more; then ends every child."""
        self._selector.register(self._lines.descriptor, selectors.EVENT_READ)
        for line in self._lines.take_buffered():
            self._start(Message.model_validate_json(line))
        try:
            while self._turn():
                pass
        finally:
            # The client has ended or was killed: nobody waits for these jobs.
            for running in self._running:
                _kill(running.pid)

    def _turn(self) -> bool:
        """Waits for the next event and handles it; False once there are no more messages."""
        for key, _ in self._selector.select(self._patience()):
            if key.data is not None:
                key.data()
                continue
            lines = self._lines.read()
            if lines is None:
                return False
            for line in lines:
                self._start(Message.model_validate_json(line))
        now = time.monotonic()
        for running in [one for one in self._running if one.deadline <= now]:
            running.late = True
            self._finish(running)
        return True

    def _patience(self) -> float:
        """Seconds until the next job is late; an hour at most, as there is a largest number."""
        deadlines = [running.deadline - time.monotonic() for running in self._running]
        return min([3600.0, *(max(0.0, seconds) for seconds in deadlines)])

    def _start(self, message: Message) -> None:
        require_one_thread()
        answer_pipe, answer_end = os.pipe()
        log_pipe, log_end = os.pipe()
        server, pid = os.getpid(), os.fork()
        if pid == 0:
            child.run(
                *(self._work, self._hello, self._problem, message),
                *(server, answer_end, log_end),
            )
        os.close(answer_end)
        os.close(log_end)
        wall = message.limits.wall_seconds
        deadline = float("inf") if wall is None else time.monotonic() + wall
        running = _Running(message, pid, answer_pipe, log_pipe, deadline)
        self._running.append(running)
        os.set_blocking(log_pipe, False)
        for pipe, read in ((answer_pipe, self._read_answer), (log_pipe, self._read_log)):
            self._selector.register(pipe, selectors.EVENT_READ, partial(read, running))

    def _read_answer(self, running: _Running) -> None:
        if running not in self._running:  # finished by an event of the same turn
            return
        chunk = os.read(running.answer_pipe, _CHUNK)
        running.answer += chunk
        # The pipe ends with the process, or earlier if that does something unforeseen.
        if not chunk or len(running.answer) > MAX_ANSWER_BYTES:
            self._finish(running)

    def _read_log(self, running: _Running) -> None:
        if running in self._running and not _read_tail(running):
            self._selector.unregister(running.log_pipe)

    def _finish(self, running: _Running) -> None:
        """Ends what is left of a job, and replies."""
        self._running.remove(running)
        for pipe in (running.answer_pipe, running.log_pipe):
            if pipe in self._selector.get_map():
                self._selector.unregister(pipe)
        # A process that has begun to end keeps its exit code.
        _kill(running.pid)
        _, status, usage = os.wait4(running.pid, 0)
        for _ in range(MAX_LOG_BYTES // _CHUNK + 1):  # a process that escaped may write without end
            if not _read_tail(running):
                break
        os.close(running.answer_pipe)
        os.close(running.log_pipe)
        send(self._reply(running, status, usage), self._replies)

    def _reply(self, running: _Running, status: int, usage: resource.struct_rusage) -> Reply:
        answer = None if running.late else parse_answer(bytes(running.answer))
        ending: Ending = "answered"
        if answer is None:
            ending = "timeout" if running.late else "garbage" if running.answer else "ended"
        return Reply(
            nonce=self._hello.nonce,
            id=running.message.id,
            ending=ending,
            answer=answer,
            code=os.waitstatus_to_exitcode(status),
            log="" if answer else running.log.decode("utf-8", "replace"),
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            peak_bytes=_more_than_own(usage.ru_maxrss),
        )


def _read_tail(running: _Running) -> bool:
    """Reads what is there of the log; whether more may come."""
    try:
        chunk = os.read(running.log_pipe, _CHUNK)
    except BlockingIOError:
        return False
    running.log += chunk
    del running.log[:-MAX_LOG_BYTES]
    return bool(chunk)


def _more_than_own(kilobytes: int) -> int:
    """The bytes that a child had beyond what it was forked with."""
    return max(0, kilobytes - resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) << 10


def _kill(pid: int) -> None:
    """Kills a child with everything in its process group; it has not been waited for."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):  # it has no group yet, or has ended
            kill(pid, signal.SIGKILL)


def require_one_thread() -> None:
    """Raises RuntimeError if this process has several threads: a fork would copy their locks, held."""
    threads = list(_threads())
    if len(threads) > 1:
        raise RuntimeError(f"the worker has {len(threads)} threads and cannot fork")


def _threads() -> Iterator[str]:
    try:
        yield from os.listdir("/proc/self/task")  # noqa: PTH208 - only the number counts
    except FileNotFoundError as error:
        raise EnvironmentProblemError("workers need /proc; mount it") from error
