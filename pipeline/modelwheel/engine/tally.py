"""How far a build is: its steps, its workers, and the time that is left."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import ModelwheelError
from .reporting import SilentReporter, kind_of


@dataclass
class _Running:
    since: float
    text: str = ""


class Tally(SilentReporter):
    """Counts what a build reports. May be asked from any thread.

    Args:
        clock: Seconds that never jump back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._guard = threading.Lock()
        self._clock = clock
        self._expected: Mapping[str, float] = {}
        self._queued: Counter[str] = Counter()
        self._running: dict[str, _Running] = {}
        self._slots: dict[str, int] = {}
        self._most_at_once = 1
        self._ended: Counter[str] = Counter()
        self._seconds: dict[str, float] = defaultdict(float)
        self._ran = 0
        self.total = 0
        """Steps that were planned."""
        self.failures = 0
        self.losses = 0
        """Workers that were lost."""

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Takes what a step of each kind takes, as earlier builds measured it."""
        with self._guard:
            self._expected = seconds

    def planned(self, names: Sequence[str]) -> None:
        with self._guard:
            self.total += len(names)
            self._queued.update(map(kind_of, names))

    def started(self, name: str, worker: str | None = None) -> None:  # noqa: ARG002 - one name for all
        with self._guard:
            if name not in self._running:  # else it starts again, elsewhere
                self._take(name)
            self._running[name] = _Running(self._clock())
            self._most_at_once = max(self._most_at_once, len(self._running))

    def progressed(self, name: str, text: str) -> None:
        with self._guard:
            if name in self._running:
                self._running[name].text = text

    def finished(
        self,
        name: str,
        seconds: float,
        *,
        cached: bool,
        size: int | None = None,  # noqa: ARG002 - it counts steps
    ) -> None:
        with self._guard:
            self._end(name)
            self._ended[kind_of(name)] += 1
            if not cached:
                self._ran += 1
                self._seconds[kind_of(name)] += seconds

    def failed(self, name: str, error: ModelwheelError) -> None:  # noqa: ARG002 - that it failed
        with self._guard:
            self._end(name)
            self.failures += 1

    def worker_joined(self, name: str, slots: int) -> None:
        with self._guard:
            self._slots[name] = slots

    def worker_lost(self, name: str, why: str) -> None:  # noqa: ARG002 - that it is lost
        with self._guard:
            self._slots.pop(name, None)
            self.losses += 1

    def _take(self, name: str) -> None:
        """Takes a step out of the queue. A command may have a step that it did not plan."""
        kind = kind_of(name)
        if self._queued[kind] > 0:
            self._queued[kind] -= 1

    def _end(self, name: str) -> None:
        if self._running.pop(name, None) is None:  # a cached step ends without having been started
            self._take(name)

    @property
    def ended(self) -> int:
        """Steps that have a result, or failed."""
        return self._ended.total() + self.failures

    @property
    def queue(self) -> int:
        """Steps that have not started. Those that will be left out after a failure are among them."""
        return self._queued.total()

    @property
    def workers(self) -> int:
        """Workers of the cluster; 0 without one."""
        return len(self._slots)

    def running(self) -> list[tuple[str, str]]:
        """The names of the running steps, and how far each is in a few words, in the order in which they started."""
        with self._guard:
            return [(name, state.text) for name, state in self._running.items()]

    def seconds_left(self) -> float | None:
        """An estimate of the seconds until the end; None as long as nothing is known.

        A step takes what steps of its kind took in this build, results from the store included as no time; before there
        is one, what earlier builds measured. All places for steps are taken to be in use.
        """
        with self._guard:
            if not self._ran and not self._expected:
                return None
            now = self._clock()
            left = [
                max(self._mean(kind_of(name)) - (now - state.since), 0.0)
                for name, state in self._running.items()
            ]
            work = sum(number * self._mean(kind) for kind, number in self._queued.items())
            places = max(sum(self._slots.values()), self._most_at_once)
            return max((work + sum(left)) / places, max(left, default=0.0))

    def _mean(self, kind: str) -> float:
        if self._ended[kind]:
            return self._seconds[kind] / self._ended[kind]
        if kind in self._expected:
            return self._expected[kind]
        ended = self._ended.total()
        return sum(self._seconds.values()) / ended if ended else 0.0
