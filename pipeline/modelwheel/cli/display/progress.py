"""The progress of a command.

A terminal gets a live display; anything else, such as a log file or CI, gets one plain line for each step of a
build, and nothing of other commands. Both go to standard error, because standard output is for results.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from ...engine.reporting import SilentReporter
from ...errors import ModelwheelError
from ...util.words import time_text
from ..output import is_quiet
from .annotations import annotate, of_findings
from .console import ERR, plain, plain_lines

if TYPE_CHECKING:
    from typing_extensions import Self

    from ...compiler.findings import Finding

_BAR_WIDTH = 20


class Running:
    """The first of the running steps and the number of the others, in as many columns as there are."""

    def __init__(self, names: Sequence[str]) -> None:
        self._first = names[0] if names else ""
        self._others = f" (+{len(names) - 1})" if len(names) > 1 else ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        first = Text(self._first)
        first.truncate(max(options.max_width - len(self._others), 1), overflow="ellipsis")
        yield Text.assemble(first, self._others, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, max(len(self._first) + len(self._others), 1))


class _RunningColumn(ProgressColumn):
    """Takes the width that bar, count and time leave over."""

    def __init__(self) -> None:
        super().__init__(Column(ratio=1, no_wrap=True))

    def render(self, task: Task) -> Running:
        running: Running = task.fields["running"]
        return running


class BuildDisplay(SilentReporter):
    """A `modelwheel.engine.reporting.Reporter` and a `modelwheel.util.watching.Watcher` for people.

    Warnings are shown even with `--quiet`.

    Args:
        console: Where it writes.
        results: Whether each step has a line when it ends; otherwise only a terminal shows what is running.
    """

    def __init__(self, console: Console = ERR, *, results: bool = True) -> None:
        self._results = results and not is_quiet()
        # `started` is called from several threads.
        self._guard = threading.Lock()
        self._console = console
        self._running: list[str] = []
        self._progressed: dict[str, str] = {}
        self._models: set[str] = set()
        self._progress = Progress(
            BarColumn(_BAR_WIDTH),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _RunningColumn(),
            console=console,
            expand=True,
            transient=True,
            refresh_per_second=4,  # `bench` and `profile` measure meanwhile
            redirect_stdout=False,  # it would go to standard error
            disable=is_quiet() or not console.is_terminal,
        )
        self._task = self._progress.add_task("steps", total=0, running=Running([]))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Takes the display away while results are printed."""
        self._progress.stop()
        try:
            yield
        finally:
            self._progress.start()

    def planned(self, names: Sequence[str]) -> None:
        with self._guard:
            self._models.update(name.partition("/")[0] for name in names)
            total = self._progress.tasks[0].total or 0
            self._progress.update(self._task, total=total + len(names))

    def started(self, name: str, worker: str | None = None) -> None:  # noqa: ARG002
        with self._guard:
            self._running.append(name)
            self._show()

    def progressed(self, name: str, text: str) -> None:
        with self._guard:
            if name in self._running:
                self._progressed[name] = text
                self._show()

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:  # noqa: ARG002
        with self._guard:
            self._done(name)
            if self._results and not cached:
                self._console.print(f"[green]done[/]    {plain(name)} ({time_text(seconds)})")

    def failed(self, name: str, error: ModelwheelError) -> None:
        with self._guard:
            self._done(name)
            if self._results:
                self._console.print(f"[red]failed[/]  {plain(name)}: {plain_lines(error.shown())}")

    def findings(self, name: str, findings: Sequence[Finding]) -> None:
        warnings = [finding for finding in findings if finding.severity == "warning"]
        with self._guard:
            for warning in warnings:
                self._console.print(f"[yellow]warning[/] {plain(name)}: {plain(warning)}")
            annotate(of_findings(name, warnings))

    def _done(self, name: str) -> None:
        # A cached step ends without having been started.
        if name in self._running:
            self._running.remove(name)
            self._progressed.pop(name, None)
        self._progress.advance(self._task)
        self._show()

    def _show(self) -> None:
        only = len(self._models) == 1  # every name begins with the same model: leave it out
        names = [
            f"{(name.partition('/')[2] or name) if only else name}"
            + (f": {self._progressed[name]}" if name in self._progressed else "")
            for name in self._running
        ]
        self._progress.update(self._task, running=Running(names))
