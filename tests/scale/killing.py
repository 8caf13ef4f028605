"""Kills random workers of a cluster, and says what that did to the steps of a build."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass
class Killer:
    """Kills one worker every few seconds (SIGKILL), while it is open.

    Args:
        roots: The processes that start workers, and start them again.
        seconds: Between two kills.
        seed: Of the choice.
    """

    roots: Iterable[int]
    seconds: float
    seed: int = 1
    kills: list[tuple[float, int]] = field(default_factory=list)
    """When, in seconds since the epoch, and which process."""

    def __enter__(self) -> Self:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer")
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        chosen = random.Random(self.seed)
        while not self._ended.wait(self.seconds):
            pid = kill_one(self.roots, chosen)
            if pid is not None:
                self.kills.append((time.time(), pid))


def kill_one(roots: Iterable[int], chosen: random.Random) -> int | None:
    """Kills a worker and nothing that it has started; the process, None if there was none."""
    workers = worker_processes(roots)
    with suppress(IndexError, psutil.NoSuchProcess):
        victim = chosen.choice(workers)
        victim.kill()
        return victim.pid
    return None


def worker_processes(roots: Iterable[int]) -> list[psutil.Process]:
    """The processes below some others in which Dask runs steps; not those that watch over them, or TensorFlow's."""
    found = []
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(root).children(recursive=True):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    if any("spawn_main" in word for word in child.cmdline()):
                        found.append(child)
    return sorted(found, key=lambda one: one.pid)


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of a build."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def count_results(events: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """How often each step has ended with a result of its own: more than once would be lost work."""
    return Counter(event["step"] for event in events if event["event"] == "finished")
