"""Locks between machines: one at a time does the work of a key.

A claim is an object `claims/KEY.NUMBER` that nobody overwrites. Its process writes it again from time to time; one that
was not is taken over by creating that with the next number, which only one process can. Nothing is lost if its holder
lives after all: what is finished twice is published once.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...errors import StoreError
from ..backends.base import Backend, Entry
from ..locks import POLL_SECONDS, give_up
from ..names import CLAIMS

_log = logging.getLogger(__name__)

_RENEWED_SECONDS = 30.0
_EXPIRED_SECONDS = 150.0
_ASKED_SECONDS = 3.0
"""How often a waiting process asks."""


class Claims:
    """The claims of this process in one object store; any number of threads may use it at once.

    Args:
        backend: The object store. All times are those of its clock.
        machine: The file with the name of this machine's directory, whose locks are taken before claims: so a claim that
            has this name was left by a process that has ended.
    """

    def __init__(self, backend: Backend, machine: Path) -> None:
        self._backend = backend
        self._machine = machine
        self._guard = threading.Lock()
        self._held: dict[str, bytes] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def claim(self, key: str, given_up: Callable[[], bool]) -> Iterator[None]:
        """Holds the claim of `key` until exit; waits while a process of another machine holds it.

        Raises:
            StoreError: `given_up` returned True, or the store cannot be used.
        """
        name = self._acquire(key, given_up)
        try:
            yield
        finally:
            self._release(name)

    def _acquire(self, key: str, given_up: Callable[[], bool]) -> str:
        number, told = 1, False
        while True:
            name = f"{CLAIMS}{key}.{number}"
            content = self._content()
            # False also if the answer that it was created was lost on the way.
            if self._backend.create(name, content) or self._read(name) == content:
                self._hold(name, content)
                return name
            last = self._last(key)
            if last is None:
                # Released just now, or a listing that does not know it yet.
                number = 1
                self._wait(0.0, given_up)
                continue
            if self._is_left(last):
                number = _number(last.name) + 1
                continue
            if not told:
                _log.info("waiting for another machine that does the same work (%s)", key[:12])
                told = True
            self._wait(_ASKED_SECONDS, given_up)

    def _wait(self, seconds: float, given_up: Callable[[], bool]) -> None:
        end = time.monotonic() + seconds
        while True:
            if given_up():
                raise give_up()
            time.sleep(POLL_SECONDS)
            if time.monotonic() >= end:
                return

    def _last(self, key: str) -> Entry | None:
        """The claim with the highest number."""
        return max(
            self._backend.list(f"{CLAIMS}{key}."),
            key=lambda entry: _number(entry.name),
            default=None,
        )

    def _is_left(self, entry: Entry) -> bool:
        """Whether nobody holds a claim any more."""
        if self._backend.now() - entry.modified > _EXPIRED_SECONDS:
            return True
        try:
            claim = json.loads(self._read(entry.name) or b"")
            return bool(claim["machine"] == self._name())
        except (ValueError, KeyError, TypeError, RecursionError):
            return False

    def _read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return self._backend.read(name)
        return None

    def _hold(self, name: str, content: bytes) -> None:
        with self._guard:
            self._held[name] = content
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._renew, daemon=True, name="claims")
                self._thread.start()

    def _release(self, name: str) -> None:
        with self._guard:
            self._held.pop(name, None)
        # What cannot be removed now expires.
        with suppress(StoreError):
            self._backend.remove(name)
            stem, _, number = name.rpartition(".")
            for lower in range(1, int(number)):
                self._backend.remove(f"{stem}.{lower}")

    def _renew(self) -> None:
        while True:
            time.sleep(_RENEWED_SECONDS)
            with self._guard:
                if not self._held:
                    self._thread = None
                    return
                held = dict(self._held)
            for name, content in held.items():
                with self._guard:
                    if name not in self._held:
                        continue
                    try:
                        self._backend.write(name, content)
                    except StoreError as error:
                        _log.info("cannot renew the claim %s: %s", name, error)

    def _content(self) -> bytes:
        owner = {"machine": self._name(), "host": platform.node(), "process": os.getpid()}
        return json.dumps({**owner, "id": uuid.uuid4().hex}).encode()

    def _name(self) -> str:
        """The name of this machine's directory, which nobody else has."""
        path = self._machine
        with suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="ascii") as file:
                file.write(uuid.uuid4().hex)
        # Another process may be writing it just now.
        for _ in range(100):
            if name := path.read_text(encoding="ascii", errors="replace"):
                return name
            time.sleep(0.01)
        return uuid.uuid4().hex


def _number(name: str) -> int:
    last = name.rpartition(".")[2]
    return int(last) if last.isdecimal() and len(last) < 10 else 0
