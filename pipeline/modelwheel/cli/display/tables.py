"""What commands show to people: tables, and the progress of a build.

A terminal gets a live display; anything else (a log file, CI) gets one plain line for each event.
Everything that is not a result goes to standard error.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from ...errors import ModelwheelError

if TYPE_CHECKING:  # types alone: `doctor` should not wait for what `build` needs
    from typing_extensions import Self

    from ...audit import Audited
    from ...compiler.check import Finding
    from ...compiler.inspection import Inspection, OpUse, TensorInfo
    from ...engine.check_models import CheckedModel
    from ...engine.doctor import Finding as Diagnosis
    from ...engine.scheduler import BuildResult
    from ...index.publish import Plan
    from ...release.measure import Measurement
    from ...verify.selftest import Verified
    from ...wheelfile.reports import Comparison, Report

_LOG_WIDTH = 120
"""Columns of tables that go into a file, where no terminal tells."""


def make_console(*, stderr: bool) -> Console:
    """A console for standard output or standard error."""
    console = Console(stderr=stderr, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _LOG_WIDTH
    return console


_out, _err = make_console(stderr=False), make_console(stderr=True)
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


class BuildDisplay:
    """A `modelwheel.engine.scheduler.Reporter` for people."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: list[str] = []
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[running]}"),
            console=_err,
            transient=True,
            disable=not _err.is_terminal,
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

    def started(self, name: str) -> None:
        with self._guard:
            self._running.append(name)
            self._show()

    def finished(self, name: str, seconds: float, *, cached: bool) -> None:
        with self._guard:
            self._done(name)
            if not cached:
                _err.print(f"[green]done[/]    {escape(name)} ({seconds:.1f} s)")

    def failed(self, name: str, error: ModelwheelError) -> None:
        with self._guard:
            self._done(name)
            _err.print(f"[red]failed[/]  {escape(name)}: {escape(str(error))}")

    def findings(self, name: str, findings: Sequence[Finding]) -> None:
        with self._guard:
            for finding in findings:
                if finding.severity == "warning":
                    _err.print(f"[yellow]warning[/] {escape(name)}: {escape(str(finding))}")

    def _done(self, name: str) -> None:
        if name in self._running:
            self._running.remove(name)
        self._progress.advance(self._task)
        self._show()

    def _show(self) -> None:
        self._progress.update(self._task, running=", ".join(self._running[:3]))


def print_results(results: Sequence[BuildResult]) -> None:
    """One block for each spec: the file, its size, a wheel's errors against TensorFlow."""
    for result in results:
        if result.sdist is not None:
            _out.print(_summary(result, result.sdist))
            platforms = ", ".join(platform.name for platform in result.request.platforms)
            _out.print(f"{result.sdist.stat().st_size / 1000:.0f} kB, for {platforms}")
            continue
        if result.wheel is None:
            _out.print(f"[red]not built[/] {escape(result.request.name)}")
            continue
        _out.print(_summary(result, result.wheel))
        _out.print(_sizes(result.wheel))
        for path in result.needed:
            _out.print(f"It needs {escape(path.name)}, which lies beside it")
        if result.report is not None:
            _print_comparisons(result.report)


def _summary(result: BuildResult, file: Path) -> str:
    return f"{escape(str(file))}  {len(result.run)} steps run, {len(result.cached)} cached"


def _sizes(wheel: Path) -> str:
    from ...wheelfile.sizes import read_sizes
    from ...wheelfile.wheel import open_wheel

    sizes = read_sizes(open_wheel(wheel))
    return (
        f"wheel {sizes.wheel / 1000:.0f} kB; its library {sizes.library / 1000:.0f} kB = "
        f"weights {sizes.weights / 1000:.0f} + machine code {sizes.machine_code / 1000:.0f} + "
        f"runtime {sizes.runtime / 1000:.0f} kB"
    )


def print_verified(results: Sequence[Verified]) -> None:
    """What the verification of each wheel found."""
    for result in results:
        if result.report is not None:
            against = (
                "the whole reference"
                if result.whole_reference
                else "the sample that the wheel carries"
            )
            _out.print(f"{escape(result.wheel.name)} against {against}")
            _print_comparisons(result.report)


def print_audited(results: Sequence[Audited]) -> None:
    """A line for each wheel, then one for each finding."""
    for result in results:
        gates = ", ".join(result.findings)
        mark = "[green]accepted[/]" if result.accepted else "[red]refused[/]"
        _out.print(f"{mark} {escape(result.wheel.name)} ({gates})")
        for gate, findings in result.findings.items():
            for finding in findings:
                colour = "red" if finding.severity == "violation" else "cyan"
                _out.print(f"  [{colour}]{finding.severity}[/] {gate}: {escape(str(finding))}")
        if result.error is not None:
            _out.print(f"  [red]error[/] {escape(str(result.error))}")


def _print_comparisons(report: Report) -> None:
    """The worst error of every output at every level, over all numbers of rows."""
    table = Table("output", "level", "rows", "max abs error", "max rel error", "tolerance", "")
    worst: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in report.comparisons:
        worst.setdefault((comparison.output, comparison.level), []).append(comparison)
    for (output, level), comparisons in worst.items():
        found = max(comparisons, key=lambda c: c.absolute - c.limit)
        rows = _ranges(sorted({c.rows for c in comparisons}))
        mark = "[green]ok[/]" if all(c.passed for c in comparisons) else "[red]exceeded[/]"
        table.add_row(
            escape(output),
            level,
            rows,
            f"{max(c.absolute for c in comparisons):.2e}",
            f"{max(c.relative for c in comparisons):.2e}",
            f"{found.limit:.2e}",
            mark,
        )
    _out.print(table)


def _ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers with successive ones drawn together: `1-5, 7, 15-17`."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(str(g[0]) if len(g) == 1 else f"{g[0]}-{g[-1]}" for g in groups)


def print_measurements(measurements: Sequence[Measurement]) -> None:
    """Size, error and speed of each wheel, beside those of the released version."""
    from .markdown import MEASURED, measured_cells

    table = Table(*(Column(name, overflow="fold") for name in MEASURED), show_lines=True)
    for measurement in measurements:
        table.add_row(*map(escape, measured_cells(measurement)))
    _out.print(table if measurements else "no wheel that this machine runs")


def print_checked(models: Sequence[CheckedModel]) -> None:
    """Signatures, operations and findings of every model."""
    for model in models:
        _out.print(f"[bold]{escape(model.name)}[/]")
        if model.error is not None:
            _out.print(f"[red]error[/]: {escape(str(model.error))}")
        if model.inspection is not None:
            _print_signatures(model.inspection, model.signature_key)
            _print_ops(model.inspection, model.signature_key)
        for finding in model.findings:
            colour = _COLOURS[finding.severity]
            _out.print(f"[{colour}]{finding.severity}[/]: {escape(str(finding))}")


def _print_signatures(inspection: Inspection, chosen_key: str) -> None:
    table = Table("signature", "", "name", "dtype", "shape")
    for signature in inspection.signatures:
        chosen = "[bold]" if signature.key == chosen_key else ""
        first = f"{chosen}{escape(signature.key)}"
        for role, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for tensor in tensors:
                table.add_row(first, role, escape(tensor.name), tensor.dtype, _shape(tensor))
                first = ""
    _out.print(table)


def _shape(tensor: TensorInfo) -> str:
    from ...compiler.inspection import show

    return escape("unknown" if tensor.shape is None else show(tensor.shape))


def _print_ops(inspection: Inspection, chosen_key: str) -> None:
    table = Table("op", "count", "XLA CPU", "layers that use it")
    unused = []
    for use in inspection.ops:
        here = use.signatures.get(chosen_key)
        if here is None:
            unused.append(use)
            continue
        count = str(use.count) if here.count == use.count else f"{here.count} of {use.count}"
        table.add_row(escape(use.op), count, _support(use), _some(here.layers))
    _out.print(table)
    if unused:
        names = ", ".join(f"{escape(use.op)} {use.count}" for use in unused)
        _out.print(f"[dim]Only in functions that this signature does not use: {names}[/]")


def _some(layers: Sequence[str], limit: int = 3) -> str:
    more = ["..."] if len(layers) > limit else []
    return escape(", ".join([*layers[:limit], *more]))


def _support(use: OpUse) -> str:
    types = f" ({escape(use.dtypes)})" if use.dtypes else ""
    match use.support:
        case "compiled":
            return "yes"
        case "frozen":
            return "vanishes in freezing"
        case "unsupported":
            return f"[red]no{types}[/]"
        case "unregistered":
            return "[red]unknown to TensorFlow[/]"


def print_diagnosis(findings: Sequence[Diagnosis]) -> None:
    """What the doctor found."""
    table = Table("", "", "found", "remedy")
    for finding in findings:
        mark = (
            "[green]ok[/]"
            if finding.ok
            else "[red]missing[/]"
            if finding.required
            else "[yellow]note[/]"
        )
        table.add_row(mark, finding.name, escape(finding.found), escape(finding.remedy or ""))
    _out.print(table)


def print_publication(plan: Plan) -> None:
    """Every file of a release and what is to be done with it, then the names new to the index."""
    table = Table(Column("file", overflow="fold"), "version", "size", "to do", "")
    colours = {"upload": "green", "skip": "dim", "refuse": "red"}
    for file in plan.files:
        action = f"[{colours[file.action]}]{file.action}[/]"
        size = f"{file.size / 1000:.0f} kB"
        table.add_row(escape(file.name), escape(file.version), size, action, escape(file.reason))
    _out.print(table)
    new = len(plan.new_projects)
    names = f": {', '.join(plan.new_projects)}" if new else ""
    _out.print(f"{new} new project name{'s' * (new != 1)} on the index{escape(names)}")
