"""A file with a line of JSON for each event of a build, as `--json-events` writes it.

Every line is one write to the end of the file, so that several builds may share a file, and a build that is killed leaves
whole lines. A machine that stops, a full disk, or a kill while a very long line is written may leave a part of the last
one: the next build begins a line of its own, and readers leave such a part out.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from .. import __version__
from ..engine.reporting import SilentReporter, kind_of
from ..errors import ModelwheelError, UsageError

if TYPE_CHECKING:
    from typing_extensions import Self


class Event(BaseModel):
    """One line. Those that later versions write may have more fields, and other events."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    time: AwareDatetime = Field(description="When it happened: RFC 3339, UTC")
    build: str = Field(
        pattern="^[0-9a-f]{12}$", description="Which build it belongs to: a file may have several"
    )
    event: str = Field(description="What happened")
    step: str | None = Field(None, description="The name of the step")
    kind: str | None = Field(None, description="Its kind, such as `compile`")
    worker: str | None = Field(None, description="The worker of the cluster")
    seconds: float | None = Field(None, description="What the step, or the build, took")
    bytes: int | None = Field(None, description="The size of the result")
    text: str | None = Field(None, description="How far the step is")
    message: str | None = Field(None, description="Why the step failed")
    code: str | None = Field(None, description="The [code](codes.md) of that error")
    steps: tuple[str, ...] = Field((), description="The names of the steps that are planned")
    address: str | None = Field(None, description="Of the scheduler")
    dashboard: str | None = Field(None, description="The address of its dashboard")
    slots: int | None = Field(None, description="Steps that the worker runs at once")
    why: str | None = Field(None, description="Why the worker is gone")
    attempt: int | None = Field(None, description="2 for the first repetition")
    result: str | None = Field(None, description="`done`, `failed` or `interrupted`")
    version: str | None = Field(None, description="Of modelwheel")
    host: str | None = Field(None, description="The machine that the command runs on")


FIELDS = {
    "began": ("version", "host"),
    "planned": ("steps",),
    "started": ("step", "kind", "worker"),
    "progressed": ("step", "kind", "text"),
    "finished": ("step", "kind", "worker", "seconds", "bytes"),
    "cached": ("step", "kind", "worker", "seconds", "bytes"),
    "failed": ("step", "kind", "worker", "message", "code"),
    "connected": ("address", "dashboard"),
    "worker_joined": ("worker", "slots"),
    "worker_lost": ("worker", "why"),
    "retried": ("step", "kind", "worker", "attempt"),
    "ended": ("result", "seconds"),
}
"""Every event with its fields, without `time`, `build` and `event`, which all have. What has no value is left out."""


_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)


class EventsFile(SilentReporter):
    """Adds the events of one build to a file.

    Args:
        path: The file. Its directory must be there.
        warn: Called once with a sentence if the file cannot be written any more: the build goes on.

    Raises:
        UsageError: The file cannot be opened.
    """

    def __init__(self, path: Path, warn: Callable[[str], object]) -> None:
        self._path, self._warn = path, warn
        self._build, self._start = uuid.uuid4().hex[:12], time.monotonic()
        self._guard = threading.Lock()
        self._workers: dict[str, str] = {}
        self._result = "done"
        try:
            self._file: int | None = os.open(path, _FLAGS, 0o644)
            if not _ends_with_line(self._file):
                os.write(self._file, b"\n")
        except OSError as error:
            raise UsageError(
                f"cannot write to {path}: {error.strerror or error}", code="MW203"
            ) from None
        self._add("began", version=__version__, host=platform.node())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._result = "failed" if issubclass(kind, Exception) else "interrupted"
        self._add("ended", result=self._result, seconds=self._since())
        with self._guard:
            self._close()

    def planned(self, names: Sequence[str]) -> None:
        self._add("planned", steps=list(names))

    def started(self, name: str, worker: str | None = None) -> None:
        with self._guard:
            if worker is not None:
                self._workers[name] = worker
        self._add_step("started", name)

    def progressed(self, name: str, text: str) -> None:
        self._add("progressed", step=name, kind=kind_of(name), text=text)

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:
        event = "cached" if cached else "finished"
        self._add_step(event, name, seconds=round(seconds, 3), bytes=size)

    def failed(self, name: str, error: ModelwheelError) -> None:
        self._result = "failed"
        self._add_step("failed", name, message=str(error), code=error.code)

    def connected(self, address: str, dashboard: str | None) -> None:
        self._add("connected", address=address, dashboard=dashboard)

    def worker_joined(self, name: str, slots: int) -> None:
        self._add("worker_joined", worker=name, slots=slots)

    def worker_lost(self, name: str, why: str) -> None:
        self._add("worker_lost", worker=name, why=why)

    def retried(self, step: str, worker: str, attempt: int) -> None:
        self._add("retried", step=step, kind=kind_of(step), worker=worker, attempt=attempt)

    def _since(self) -> float:
        return round(time.monotonic() - self._start, 3)

    def _add_step(self, event: str, name: str, **fields: object) -> None:
        worker = self._workers.get(name)
        self._add(event, step=name, kind=kind_of(name), worker=worker, **fields)

    def _add(self, event: str, **fields: object) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": now.replace("+00:00", "Z"), "build": self._build}
        line |= {"event": event, **{k: v for k, v in fields.items() if v is not None}}
        content = memoryview(json.dumps(line).encode() + b"\n")
        with self._guard:
            try:
                while content and self._file is not None:
                    content = content[os.write(self._file, content) :]
            except OSError as error:
                self._close()
                self._warn(f"no more events are written to {self._path}: {error.strerror or error}")

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _ends_with_line(file: int) -> bool:
    """Whether nothing, or a whole line, is at the end of a file; also if it is none with an end, such as a pipe."""
    try:
        size = os.lseek(file, 0, os.SEEK_END)
        os.lseek(file, max(size - 1, 0), os.SEEK_SET)
        return size == 0 or os.read(file, 1) == b"\n"
    except OSError:
        return True


def read_events(path: Path) -> Iterator[Event]:
    """The events in a file, in its order. Parts of lines that a build left when its machine stopped are left out.

    Raises:
        UsageError: The file cannot be read, or has no event at all.
    """
    found = False
    try:
        with path.open("rb") as lines:
            for line in lines:
                event = _parse(line)
                if event is not None:
                    found = True
                    yield event
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}", code="MW203") from None
    if not found:
        raise UsageError(f"{path} has no events of a build; name a file that --json-events wrote")


def _parse(line: bytes) -> Event | None:
    try:
        return Event.model_validate_json(line) if line.endswith(b"\n") else None
    except ValidationError:
        return None
