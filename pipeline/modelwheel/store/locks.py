"""Locks between processes: one at a time does the work of a key."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import StoreError

_log = logging.getLogger(__name__)

# Nothing wakes a waiting thread when a build is interrupted: it asks this often.
POLL_SECONDS = 0.5


def acquire(path: Path, what: str, given_up: Callable[[], bool]) -> FileLock:
    """Takes a lock; waits while another process holds it.

    The system releases the lock when its process ends, even if that is killed.

    Args:
        path: The lock's file; its directory exists.
        what: Named in the log while this waits.
        given_up: Called repeatedly while this waits.

    Raises:
        StoreError: `given_up` returned True.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _log.info("waiting for another build that does the same work (%s)", what)
        _wait(lock, given_up)
    return lock


def _wait(lock: FileLock, given_up: Callable[[], bool]) -> None:
    while not given_up():
        with suppress(Timeout):
            lock.acquire(timeout=POLL_SECONDS)
            return
    raise give_up()


def give_up() -> StoreError:
    """The error of whoever does not wait any longer."""
    return StoreError(
        "gave up waiting for another build that does the same work; run it again", code="MW701"
    )
