"""The times of steps in earlier builds, for the estimate of the time that a build still takes."""

from __future__ import annotations

import threading
from collections import defaultdict
from statistics import fmean

from ...errors import ModelwheelError
from ...store.history import History
from ...store.store import Store
from ..notes import noted_seconds
from ..reporting import SilentReporter, kind_of
from ..tally import Tally

_SAMPLES = 200
"""Records that are read for it, the newest."""


def seconds_by_kind(store: Store) -> dict[str, float]:
    """The mean time of the newest steps of each kind, as their records say.

    Raises:
        ModelwheelError: The store cannot be read.
    """
    by_kind: dict[str, list[float]] = defaultdict(list)
    for record in History(store).newest(_SAMPLES):
        seconds, kind = noted_seconds(record), record.note.get("kind")
        if seconds is not None and isinstance(kind, str):
            by_kind[kind].append(seconds)
    return {kind: fmean(times) for kind, times in by_kind.items()}


class Forecast(SilentReporter):
    """Tells a tally what steps took in earlier builds, once this one runs a step: a build with nothing to do asks nothing.

    It reads the store in a thread, because the store may be far away. What cannot be read makes no estimate.
    """

    def __init__(self, tally: Tally, store: Store) -> None:
        self._tally, self._store = tally, store
        self._guard = threading.Lock()
        self._asked = False

    def started(self, name: str, worker: str | None = None) -> None:  # noqa: ARG002 - any of them
        with self._guard:
            if self._asked or kind_of(name) == "fetch":
                return
            self._asked = True
        threading.Thread(target=self._ask, name="forecast", daemon=True).start()

    def _ask(self) -> None:
        try:
            self._tally.expect(seconds_by_kind(self._store))
        except (ModelwheelError, OSError):
            return
