"""The progress of a call: a bar on a terminal and in a notebook, nothing elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
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

from ..engine.tally import Tally
from ..errors import ModelwheelError
from ..util.text import one_line
from ..util.words import count, rough_time, time_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..model.findings import Finding

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


def state_of(tally: Tally) -> str:
    """Workers, running steps, steps in the queue and the estimated time left, as far as there is something to say."""
    parts = [count(tally.workers, "worker")] if tally.workers else []
    if tally.queue:
        parts += [f"{len(tally.running())} running", f"{tally.queue} in the queue"]
        left = tally.seconds_left()
        parts += [f"about {rough_time(left)} left"] if left is not None else []
    return ", ".join(parts)


class _LiveProgress(Progress):
    """Bars with a line below them."""

    below = ""

    def get_renderable(self) -> RenderableType:
        bars = super().get_renderable()
        if not self.below:
            return bars
        return Group(bars, Text(self.below, style="dim", no_wrap=True, overflow="ellipsis"))


class ProgressDisplay(Tally):
    """A `modelwheel.engine.reporting.Reporter` that shows a live bar.

    Args:
        console: Where it is shown.
        live: Whether it is.
    """

    def __init__(self, console: Console, *, live: bool) -> None:
        super().__init__()
        self._console = console
        # `started` is called from several threads.
        self._drawing = threading.RLock()
        self._models: set[str] = set()
        self._progress = _LiveProgress(
            BarColumn(_BAR_WIDTH),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            _RunningColumn(),
            console=console,
            expand=True,
            transient=True,
            refresh_per_second=4,  # `bench` and `profile` measure meanwhile
            redirect_stdout=False,  # it would go to standard error
            redirect_stderr=False,
            disable=not live,
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

    def planned(self, names: Sequence[str]) -> None:
        super().planned(names)
        with self._drawing:
            self._models.update(name.partition("/")[0] for name in names)
        self.show()

    def started(self, name: str, worker: str | None = None) -> None:
        super().started(name, worker)
        self.show()

    def progressed(self, name: str, text: str) -> None:
        super().progressed(name, text)
        self.show()

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:
        super().finished(name, seconds, cached=cached, size=size)
        self.show()

    def failed(self, name: str, error: ModelwheelError) -> None:
        super().failed(name, error)
        self.show()

    def worker_joined(self, name: str, slots: int) -> None:
        super().worker_joined(name, slots)
        self.show()

    def worker_lost(self, name: str, why: str) -> None:
        super().worker_lost(name, why)
        self.show()

    def show(self) -> None:
        """Brings the bar up to date."""
        if self._progress.disable:
            return
        with self._drawing:
            only = len(self._models) == 1  # every name begins with the same model: leave it out
            names = [
                one_line((name.partition("/")[2] or name) if only else name)
                + (f": {one_line(text)}" if text else "")
                for name, text in self.running()
            ]
            self._progress.below = state_of(self)
            self._progress.update(
                self._task, total=self.total, completed=self.ended, running=Running(names)
            )


class Display(ProgressDisplay):
    """The progress of a call, and what the check found.

    In a notebook without ipywidgets, which a live bar needs, each step that took time has a line.

    Args:
        shown: Whether anything is shown.
        console: Where; by default standard error, or the output of the notebook's cell.
    """

    def __init__(self, *, shown: bool = True, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        in_notebook = console.is_jupyter
        live = shown and (
            find_spec("ipywidgets") is not None if in_notebook else console.is_terminal
        )
        super().__init__(console, live=live)
        self._lines = shown and in_notebook and not live
        self.found: list[Finding] = []

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:
        super().finished(name, seconds, cached=cached, size=size)
        if self._lines and not cached:
            self._console.print(Text(f"{one_line(name)} ({time_text(seconds)})", style="dim"))

    def findings(self, name: str, findings: Sequence[Finding]) -> None:  # noqa: ARG002 - there is one
        """Keeps them for the result, which shows them."""
        self.found += findings
