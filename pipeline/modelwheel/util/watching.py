"""The present activity of a command, for its display."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

_T = TypeVar("_T")


class Watcher(Protocol):
    """Receives the progress of a command. `modelwheel.cli.display.progress` shows it."""

    def planned(self, names: Sequence[str]) -> None:
        """These steps will run."""

    def started(self, name: str) -> None:
        """A step starts to run."""

    def progressed(self, name: str, text: str) -> None:
        """How far a running step is, in a few words."""

    def finished(self, name: str, seconds: float, *, cached: bool) -> None:
        """A step has ended."""


class _Nobody:
    """Shows nothing."""

    def planned(self, names: Sequence[str]) -> None:
        pass

    def started(self, name: str) -> None:
        pass

    def progressed(self, name: str, text: str) -> None:
        pass

    def finished(self, name: str, seconds: float, *, cached: bool) -> None:
        pass


NOBODY: Watcher = _Nobody()


@contextmanager
def step(name: str, watcher: Watcher) -> Iterator[None]:
    """One step, planned when it starts."""
    watcher.planned([name])
    with _running(name, watcher):
        yield


def each(items: Iterable[_T], name: Callable[[_T], str], watcher: Watcher) -> Iterator[_T]:
    """The items again; each is a step that lasts until the next one is asked for.

    All are planned before the first.
    """
    every = list(items)
    watcher.planned(list(map(name, every)))
    for item in every:
        with _running(name(item), watcher):
            yield item


@contextmanager
def _running(name: str, watcher: Watcher) -> Iterator[None]:
    start = time.monotonic()
    watcher.started(name)
    try:
        yield
    finally:
        watcher.finished(name, time.monotonic() - start, cached=False)
