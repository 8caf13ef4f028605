"""Leases: a running process says that it reads a store, so that a collection leaves what it may need.

A lease is a file `leases/<id>.json`, which its process writes again from time to time. All times are those of the
server that holds the files: clocks of other machines may differ, and nobody compares them.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import platform
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass

from ..errors import StoreError
from .backends.base import Backend, Entry
from .backends.parallel import in_parallel

PREFIX = "leases/"

LIFETIME_SECONDS = 20 * 60.0
"""A lease that was not renewed for so long has expired: its process was killed, or has no network."""

RENEWAL_SECONDS = 5 * 60.0

_RETRY_SECONDS = 60.0
"""Between attempts while a lease cannot be written."""

TOLERANCE_SECONDS = 10 * 60.0
"""By how much times of one store may be wrong: file servers behind one name have clocks of their own."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holder:
    """A live lease, as a collection sees it."""

    name: str
    host: str
    process: int
    started: float
    """By the server's clock."""


class Lease:
    """The lease of this process in one store; any number of threads may use it at once.

    Args:
        backend: The store's files.
        renewal: Seconds between renewals.
    """

    def __init__(self, backend: Backend, renewal: float = RENEWAL_SECONDS) -> None:
        self._backend, self._renewal = backend, renewal
        self._guard = threading.Lock()
        self._ended = threading.Event()
        self._name = ""
        self._started: float | None = None
        self._owner = 0
        self._written = False

    def hold(self) -> None:
        """Takes the lease, unless this process has it; it lasts until `release`.

        In a store that may be read only, nothing is written: its owner must keep what others read.
        """
        if self._owner == os.getpid():
            return
        with self._guard:
            if self._owner == os.getpid():
                return
            # A forked child has neither its parent's thread nor the right to end its lease.
            self._name, self._started = f"{PREFIX}{uuid.uuid4().hex}.json", None
            self._ended = threading.Event()
            self._write(first=True)
            self._owner = os.getpid()
            thread = threading.Thread(target=self._renew, args=(self._ended,), daemon=True)
            thread.start()
            atexit.register(self.release)

    def release(self) -> None:
        """Ends the lease, if this process has one; a file that cannot be removed now expires."""
        self._end(self._ended)

    def abandon(self) -> None:
        """Lets the thread that renews the lease end it, and waits for nothing.

        Garbage may be collected in any thread, also in that of the object store's library, for which the others wait.
        """
        self._ended.set()

    def _end(self, ended: threading.Event) -> None:
        """Ends the lease, unless it is another one by now."""
        with self._guard:
            if self._owner != os.getpid() or self._ended is not ended:
                return
            self._owner = 0
            ended.set()
            atexit.unregister(self.release)
            with suppress(StoreError):
                self._backend.remove(self._name)

    def _renew(self, ended: threading.Event) -> None:
        while not ended.wait(self._renewal if self._written else _RETRY_SECONDS):
            with self._guard:
                if not ended.is_set():
                    self._write()
        self._end(ended)

    def _find_start(self) -> None:
        """Notes when the lease was written first, which only the server knows."""
        with suppress(StoreError):
            entry = self._backend.stat(self._name)
            self._started = None if entry is None else entry.modified

    def _write(self, *, first: bool = False) -> None:
        if not first and self._started is None:
            self._find_start()
        content = {"host": platform.node(), "process": os.getpid(), "started": self._started}
        try:
            self._backend.write(self._name, json.dumps(content).encode())
            self._written = True
        except StoreError as error:
            self._written = False
            _log.info("cannot write a lease of %s: %s", self._backend.address, error)


def live(backend: Backend) -> list[Holder]:
    """The leases that have not expired.

    A lease that cannot be read counts, too: it may be of another version, or being written just now.
    """
    now = backend.now()
    entries = [entry for entry in backend.list(PREFIX) if not is_expired(entry, now)]

    def read(entry: Entry) -> Holder | None:
        with suppress(FileNotFoundError):
            return _parse(entry, backend.read(entry.name))
        return None

    return [holder for holder in in_parallel(read, entries) if holder is not None]


def is_expired(entry: Entry, now: float) -> bool:
    """Whether a lease has not been renewed for too long, by the server's clock."""
    return now - entry.modified > LIFETIME_SECONDS + TOLERANCE_SECONDS


def _parse(entry: Entry, content: bytes) -> Holder:
    try:
        fields = json.loads(content)
        host, process, started = str(fields["host"]), int(fields["process"]), fields["started"]
        # Nobody has renewed it yet: it was written once, at its start.
        started = entry.modified if started is None else float(started)
    except (ValueError, KeyError, TypeError, RecursionError):
        return Holder(entry.name, "?", 0, 0.0)
    return Holder(entry.name, host, process, min(started, entry.modified))
