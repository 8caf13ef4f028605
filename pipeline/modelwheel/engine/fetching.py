"""Fetches the models of a build side by side: servers answer slowly, and each spec starts when its own is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

from ..util.processes.process import kill_all

_T = TypeVar("_T")

_AT_ONCE = 8
"""Models at once: a host of many models may refuse more from one machine."""

_PATIENCE_SECONDS = 5.0
"""How long an interrupted build waits for threads; what does not end by then ends with the process."""

Work: TypeAlias = Callable[[Callable[[], None]], _T]
"""Is called with a function that raises if the build has ended, to be called now and then."""


class _EndedError(BaseException):
    """Nobody wants the result any more. Not an Exception: code that fetches would take that for a failure."""


@contextmanager
def side_by_side(works: Sequence[Work[_T]]) -> Iterator[list[Future[_T]]]:
    """The results of some functions, which are called in threads, in their order; all threads end with the block."""
    ended = threading.Event()
    waiting: SimpleQueue[tuple[Future[_T], Work[_T]]] = SimpleQueue()
    futures: list[Future[_T]] = []
    for work in works:
        futures.append(Future())
        waiting.put((futures[-1], work))

    def check() -> None:
        if ended.is_set():
            raise _EndedError

    def run() -> None:
        while not ended.is_set():
            try:
                future, work = waiting.get_nowait()
            except Empty:
                return
            try:
                future.set_result(work(check))
            except BaseException as error:  # noqa: BLE001 - the future raises it
                future.set_exception(error)

    # Daemons: a server that says nothing must not keep the process from ending.
    threads = [
        threading.Thread(target=run, name="fetch", daemon=True)
        for _ in range(min(_AT_ONCE, len(works)))
    ]
    for thread in threads:
        thread.start()
    try:
        yield futures
    finally:
        ended.set()
        _join(threads)


def _join(threads: Sequence[threading.Thread]) -> None:
    """Waits for threads, and ends the programs that they have started, such as git."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while alive := [thread for thread in threads if thread.is_alive()]:
        if time.monotonic() > deadline:
            return
        kill_all({thread.ident for thread in alive if thread.ident is not None})
        alive[0].join(0.1)
