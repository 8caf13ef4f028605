"""Who is told what happens in a build: a display, a file of events, metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..errors import ModelwheelError
from ..model.findings import Finding


class Reporter(Protocol):
    """Receives the progress of a build. `started` and `progressed` are called from several threads, the rest from one.

    It is a `modelwheel.util.watching.Watcher`, too.
    """

    def planned(self, names: Sequence[str]) -> None:
        """These steps will run, or be taken from the store."""

    def started(self, name: str, worker: str | None = None) -> None:
        """A step starts to run, on this worker of a cluster."""

    def progressed(self, name: str, text: str) -> None:
        """How far a running step is, in a few words."""

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:
        """A step has its result, of so many bytes."""

    def failed(self, name: str, error: ModelwheelError) -> None:
        """A step failed; the steps that need it are left out."""

    def findings(self, name: str, findings: Sequence[Finding]) -> None:
        """The findings of the check of a model."""

    def connected(self, address: str, dashboard: str | None) -> None:
        """The build has reached a cluster, which shows itself at the address of its dashboard."""

    def worker_joined(self, name: str, slots: int) -> None:
        """A worker of the cluster takes part; it runs so many steps at once."""

    def worker_lost(self, name: str, why: str) -> None:
        """A worker of the cluster is gone."""

    def retried(self, step: str, worker: str, attempt: int) -> None:
        """A step starts again, for the second time or a later one, because it was lost with its worker."""


class SilentReporter:
    """A reporter that says nothing: for tests, and for those that need a part of it."""

    def planned(self, names: Sequence[str]) -> None:
        pass

    def started(self, name: str, worker: str | None = None) -> None:
        pass

    def progressed(self, name: str, text: str) -> None:
        pass

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:
        pass

    def failed(self, name: str, error: ModelwheelError) -> None:
        pass

    def findings(self, name: str, findings: Sequence[Finding]) -> None:
        pass

    def connected(self, address: str, dashboard: str | None) -> None:
        pass

    def worker_joined(self, name: str, slots: int) -> None:
        pass

    def worker_lost(self, name: str, why: str) -> None:
        pass

    def retried(self, step: str, worker: str, attempt: int) -> None:
        pass


class Several:
    """Tells several reporters, in their order."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def planned(self, names: Sequence[str]) -> None:
        for reporter in self._reporters:
            reporter.planned(names)

    def started(self, name: str, worker: str | None = None) -> None:
        for reporter in self._reporters:
            reporter.started(name, worker)

    def progressed(self, name: str, text: str) -> None:
        for reporter in self._reporters:
            reporter.progressed(name, text)

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:
        for reporter in self._reporters:
            reporter.finished(name, seconds, cached=cached, size=size)

    def failed(self, name: str, error: ModelwheelError) -> None:
        for reporter in self._reporters:
            reporter.failed(name, error)

    def findings(self, name: str, findings: Sequence[Finding]) -> None:
        for reporter in self._reporters:
            reporter.findings(name, findings)

    def connected(self, address: str, dashboard: str | None) -> None:
        for reporter in self._reporters:
            reporter.connected(address, dashboard)

    def worker_joined(self, name: str, slots: int) -> None:
        for reporter in self._reporters:
            reporter.worker_joined(name, slots)

    def worker_lost(self, name: str, why: str) -> None:
        for reporter in self._reporters:
            reporter.worker_lost(name, why)

    def retried(self, step: str, worker: str, attempt: int) -> None:
        for reporter in self._reporters:
            reporter.retried(step, worker, attempt)


def kind_of(name: str) -> str:
    """The kind of a step, by its name.

    >>> kind_of("net-1.0.0/freeze/b1"), kind_of("net-1.0.0/linux-x86_64/x86-64-v3/b1"), kind_of("asking")
    ('freeze', 'compile', 'other')
    """
    parts = name.split("/")
    return "other" if len(parts) == 1 else "compile" if len(parts) == 4 else parts[1]
