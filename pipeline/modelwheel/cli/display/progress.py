"""The progress of a command.

A terminal gets a live display; anything else, such as a log file or CI, gets one plain line for each step of a
build, what happens to the workers of a cluster, and each minute how far the build is; and nothing of other
commands. Both go to standard error, because standard output is for results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from ...api.progress import ProgressDisplay, state_of
from ...errors import ModelwheelError
from ...util.words import count, time_text
from ..output import is_quiet
from .annotations import annotate, of_findings
from .console import ERR, plain, plain_lines

if TYPE_CHECKING:
    from ...model.findings import Finding

_SECONDS_BETWEEN_LINES = 60.0


class BuildDisplay(ProgressDisplay):
    """A `modelwheel.engine.reporting.Reporter` and a `modelwheel.util.watching.Watcher` for people.

    Warnings are shown even with `--quiet`.

    Args:
        console: Where it writes.
        results: Whether each step has a line when it ends; otherwise only a terminal shows what is running.
        clock: Seconds that never jump back.
    """

    def __init__(
        self,
        console: Console = ERR,
        *,
        results: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console, live=console.is_terminal and not is_quiet())
        self._told, self._results = not is_quiet(), results and not is_quiet()
        self._now, self._next_line = clock, clock() + _SECONDS_BETWEEN_LINES
        self._in_log = self._results and (console.is_dumb_terminal or not console.is_terminal)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Takes the display away while results are printed."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()

    def started(self, name: str, worker: str | None = None) -> None:
        super().started(name, worker)
        self._say_how_far()

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:
        super().finished(name, seconds, cached=cached, size=size)
        if self._results and not cached:
            self._line("[green]done[/]   ", f"{plain(name)} ({time_text(seconds)})")
        self._say_how_far()

    def failed(self, name: str, error: ModelwheelError) -> None:
        super().failed(name, error)
        if self._results:
            self._line("[red]failed[/] ", f"{plain(name)}: {plain_lines(error.shown())}")

    def findings(self, name: str, findings: Sequence[Finding]) -> None:
        warnings = [finding for finding in findings if finding.severity == "warning"]
        with self._drawing:
            for warning in warnings:
                self._console.print(f"[yellow]warning[/] {plain(name)}: {plain(warning)}")
            annotate(of_findings(name, warnings))

    def connected(self, address: str, dashboard: str | None) -> None:
        shown = "" if dashboard is None else f"; its dashboard is at {plain(dashboard)}"
        self._line("[cyan]cluster[/]", f"{plain(address)}{shown}")

    def worker_joined(self, name: str, slots: int) -> None:
        super().worker_joined(name, slots)
        if self._in_log:
            self._line(
                "[cyan]joined[/] ", f"{plain(name)}, which runs {count(slots, 'step')} at once"
            )

    def worker_lost(self, name: str, why: str) -> None:
        super().worker_lost(name, why)
        self._line("[yellow]lost[/]   ", f"{plain(name)}: {plain(why)}")

    def retried(self, step: str, worker: str, attempt: int) -> None:
        super().retried(step, worker, attempt)
        self._line("[yellow]again[/]  ", f"{plain(step)}: attempt {attempt}, after {plain(worker)}")

    def _line(self, head: str, text: str) -> None:
        if self._told:
            with self._drawing:
                self._console.print(f"{head} {text}")

    def _say_how_far(self) -> None:
        """In a log, now and then: a terminal shows it all the time."""
        if not self._in_log or self._now() < self._next_line:
            return
        with self._drawing:
            self._next_line = self._now() + _SECONDS_BETWEEN_LINES
            rest = f", {state}" if (state := state_of(self)) else ""
            self._line("[cyan]so far[/] ", f"{self.ended} of {count(self.total, 'step')}{rest}")
