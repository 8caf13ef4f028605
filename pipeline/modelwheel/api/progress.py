"""The progress of a call: a bar on a terminal and in a notebook, nothing elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from ..engine.reporting import SilentReporter
from ..errors import ModelwheelError
from ..util.text import one_line
from ..util.words import time_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..compiler.findings import Finding


class Display(SilentReporter):
    """A `modelwheel.engine.reporting.Reporter` and a `modelwheel.util.watching.Watcher`.

    In a notebook without ipywidgets, which a live bar needs, each step that took time has a line.

    Args:
        shown: Whether anything is shown.
        console: Where; by default standard error, or the output of the notebook's cell.
    """

    def __init__(self, *, shown: bool = True, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        in_notebook = self._console.is_jupyter
        live = shown and (
            find_spec("ipywidgets") is not None if in_notebook else self._console.is_terminal
        )
        self._lines = shown and in_notebook and not live
        # `started` is called from several threads.
        self._guard = threading.Lock()
        self._running: dict[str, str] = {}
        self.found: list[Finding] = []
        self._progress = Progress(
            BarColumn(20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[running]}"),
            console=self._console,
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not live,
        )
        self._task = self._progress.add_task("steps", total=0, running="")

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
        with self._guard:
            total = self._progress.tasks[0].total or 0
            self._progress.update(self._task, total=total + len(names))

    def started(self, name: str, worker: str | None = None) -> None:  # noqa: ARG002
        with self._guard:
            self._running[name] = ""
            self._show()

    def progressed(self, name: str, text: str) -> None:
        with self._guard:
            if name in self._running:
                self._running[name] = f": {text}"
                self._show()

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:  # noqa: ARG002
        self._done(name)
        if self._lines and not cached:
            self._console.print(Text(f"{one_line(name)} ({time_text(seconds)})", style="dim"))

    def failed(self, name: str, error: ModelwheelError) -> None:  # noqa: ARG002 - the call raises it
        self._done(name)

    def findings(self, name: str, findings: Sequence[Finding]) -> None:  # noqa: ARG002 - there is one
        """Keeps them for the result, which shows them."""
        self.found += findings

    def _done(self, name: str) -> None:
        with self._guard:
            self._running.pop(name, None)  # a cached step ends without having been started
            self._progress.advance(self._task)
            self._show()

    def _show(self) -> None:
        others = f" (+{len(self._running) - 1})" if len(self._running) > 1 else ""
        first = next(("".join(step) for step in self._running.items()), "")
        self._progress.update(self._task, running=f"{one_line(first)}{others}".replace("[", r"\["))
