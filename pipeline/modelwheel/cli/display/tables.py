"""The tables that commands print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.table import Column, Table

from ...util.words import count, size_text
from ..output import tell
from .comparisons import print_comparisons
from .console import ERR, OUT, plain, plain_lines, print_below
from .markdown import MEASURED, failure_lines, measured_cells

if TYPE_CHECKING:  # types alone: `doctor` should not wait for what `build` needs
    from ...audit import Audited
    from ...engine.build import BuildResult
    from ...engine.check_models import CheckedModel
    from ...engine.doctor import Finding as Diagnosis
    from ...engine.doctor import Role
    from ...index.github.settings import Setting
    from ...index.plan import Plan
    from ...model.inspection import Inspection, OpUse, TensorInfo
    from ...model.supported_operations import Supported
    from ...release.measure import Measurement
    from ...release.parts import Parts
    from ...verify.selftest import Verified

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def print_results(results: Sequence[BuildResult], *, table: bool = False) -> None:
    """One block for each built spec: the file, its size, a wheel's errors (with `table`, all of them)."""
    for result in results:
        if result.sdist is not None:
            OUT.print(_summary(result, result.sdist))
            _print_replaced(result)
            platforms = ", ".join(platform.name for platform in result.request.platforms)
            OUT.print(f"{size_text(result.sdist.stat().st_size)}, for {platforms}")
        elif result.bundle is not None:
            OUT.print(_summary(result, result.bundle))
        elif result.wheel is not None:
            OUT.print(_summary(result, result.wheel))
            OUT.print(_sizes(result.wheel))
            _print_replaced(result)
            for path in result.needed:
                OUT.print(f"Requires {plain(path.name)} (in the same directory)")
            if result.report is not None:
                print_comparisons(result.report, table=table)
    if any(result.wheel is not None for result in results):
        tell("For this machine; `modelwheel wheel` makes wheels to share.")


def print_totals(
    noun: str, states: Mapping[str, bool], words: tuple[str, str] = ("ok", "refused")
) -> None:
    """The last line of a command that takes several files; nothing if there was one.

    Args:
        noun: What they are.
        states: Whether each is in order, by name.
        words: What those are that are in order, and what the others.
    """
    if len(states) > 1:
        bad = [name for name, ok in states.items() if not ok]
        named = f" ({plain(', '.join(bad))})" if bad else ""
        total, good = count(len(states), noun), len(states) - len(bad)
        OUT.print(f"{total}: {good} {words[0]}, {len(bad)} {words[1]}{named}")


def print_failures(results: Sequence[BuildResult]) -> None:
    """Prints what was not built and why: the last lines of a build, because logs are read from their end."""
    for result in results:
        if result.errors:
            model = result.request.spec.model
            ERR.print(
                f"[red]{plain(model.name)} {plain(model.version)} was not built[/]: "
                + plain_lines("\n  ".join(failure_lines(result)))
            )
        if result.unverified is not None:
            ERR.print(
                f"{plain(result.unverified)} is kept for inspection alone: nothing publishes it"
            )


def _print_replaced(result: BuildResult) -> None:
    for fusion in result.replaced:
        text = f"Replaced {fusion.name}: {count(fusion.calls, 'call')}, by {fusion.provider}"
        OUT.print(plain(text))


def _summary(result: BuildResult, file: Path) -> str:
    return f"{plain(file)}  {count(len(result.run), 'step')} run, {len(result.cached)} cached"


def _sizes(wheel: Path) -> str:
    from ...wheelfile.sizes import read_sizes
    from ...wheelfile.wheel import open_wheel

    sizes = read_sizes(open_wheel(wheel))
    return (
        f"wheel {size_text(sizes.wheel)}; its library {size_text(sizes.library)} = "
        f"weights {size_text(sizes.weights)} + machine code {size_text(sizes.machine_code)} + "
        f"runtime {size_text(sizes.runtime)}"
    )


def print_verified(results: Sequence[Verified], *, table: bool = False) -> None:
    """The errors of each verified wheel; with `table`, all of them."""
    for result in results:
        if result.report is not None:
            against = "the full reference" if result.whole_reference else "the sample in the wheel"
            if result.against is not None:
                against = plain(result.against)
            OUT.print(f"{plain(result.wheel.name)} against {against}")
            print_comparisons(result.report, table=table)


def print_audited(results: Sequence[Audited]) -> None:
    """A line for each wheel, then one for each finding."""
    for result in results:
        gates = ", ".join(result.gates)
        mark = "[green]accepted[/]" if result.accepted else "[red]refused[/]"
        ran = f" ({gates})" if gates else ""
        OUT.print(f"{mark} {plain(result.wheel.name)}{ran}")
        for finding in result.findings:
            colour = "red" if finding.severity == "violation" else "cyan"
            OUT.print(f"  [{colour}]{finding.severity}[/] {finding.gate}: {plain(finding)}")
        if result.error is not None:
            OUT.print(f"  [red]error[/] {plain_lines(result.error.shown())}")


def print_measurements(measurements: Sequence[Measurement]) -> None:
    """Size, error and speed of each wheel, next to the released version's."""
    table = Table(*(Column(name, overflow="fold") for name in MEASURED), show_lines=True)
    for measurement in measurements:
        table.add_row(*map(plain_lines, measured_cells(measurement)))
    OUT.print(table if measurements else "no wheel for this machine")


def print_parts(parts: Sequence[Parts]) -> None:
    """Whose part of each wheel's error is whose."""
    from ...release.parts import PART_COLUMNS, part_cells

    table = Table(*PART_COLUMNS)
    for part in parts:
        table.add_row(*map(plain, part_cells(part)))
    OUT.print(table)


def print_checked(models: Sequence[CheckedModel], *, ops: bool = False) -> None:
    """The verdict on every model with its findings below, then how many there are of each.

    With `ops`, a model's signatures and operations come before its verdict.
    """
    for model in models:
        if model.inspection is not None and ops:
            OUT.print(f"[bold]{plain(model.model)}[/]")
            _print_signatures(model.inspection, model.signature)
            _print_ops(model.inspection, model.signature)
        _print_verdict(model)
    print_totals("model", {model.name: not model.exit_code for model in models})


def _print_verdict(model: CheckedModel) -> None:
    errors = [] if model.error is None else model.error.shown().splitlines()
    number = len(errors) + sum(finding.severity == "error" for finding in model.findings)
    if model.exit_code:
        OUT.print(f"[red]refused[/] {plain(model.name)}: {count(number, 'error')}")
    else:
        word, _, rest = model.verdict.partition(" ")
        OUT.print(f"[green]{word}[/] {plain(rest)}")
    for line in errors:
        print_below(OUT, f"[red]error[/] {plain(model.name)}:", line)
    for finding in model.findings:
        colour = _COLOURS[finding.severity]
        print_below(OUT, f"[{colour}]{finding.severity}[/] {plain(model.name)}:", finding.shown())


def print_supported(supported: Supported) -> None:
    """Every operation with the element types that it may have."""
    table = Table("op", Column("element types", overflow="fold"))
    for operation in supported.ops:
        types = "; ".join(f"{name}: {', '.join(kinds)}" for name, kinds in operation.types.items())
        table.add_row(operation.op, "removed by freezing" if operation.removed else types or "any")
    OUT.print(table)
    OUT.print(f"{count(len(supported.ops), 'operation')}, with TensorFlow {supported.tensorflow}")


def _print_signatures(inspection: Inspection, chosen_key: str) -> None:
    table = Table("signature", "", "name", "dtype", "shape")
    for signature in inspection.signatures:
        chosen = "[bold]" if signature.key == chosen_key else ""
        first = f"{chosen}{plain(signature.key)}"
        for role, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for tensor in tensors:
                table.add_row(first, role, plain(tensor.name), tensor.dtype, _shape(tensor))
                first = ""
    OUT.print(table)


def _shape(tensor: TensorInfo) -> str:
    from ...model.shapes import show

    return plain("unknown" if tensor.shape is None else show(tensor.shape))


def _print_ops(inspection: Inspection, chosen_key: str) -> None:
    table = Table("op", "count", "XLA CPU", "layers that use it")
    unused = []
    for use in inspection.ops:
        here = use.signatures.get(chosen_key) or use.beside.get(chosen_key) or use.loading
        if here is None:
            unused.append(use)
            continue
        uses = str(use.count) if here.count == use.count else f"{here.count} of {use.count}"
        support = _support(use) if chosen_key in use.signatures else _role(use, chosen_key)
        table.add_row(plain(use.op), uses, support, _some(here.layers))
    OUT.print(table)
    if unused:
        names = ", ".join(f"{plain(use.op)} {use.count}" for use in unused)
        OUT.print(
            f"[dim]Only in functions that neither this signature nor loading runs: {names}[/]"
        )


def _some(layers: Sequence[str], limit: int = 3) -> str:
    more = ["..."] if len(layers) > limit else []
    return plain(", ".join([*layers[:limit], *more]))


def _role(use: OpUse, chosen_key: str) -> str:
    """Why an operation runs whose value no output needs."""
    role = "runs beside the outputs" if chosen_key in use.beside else "runs at loading"
    return f"[red]{role}[/]" if use.effect else role


def _support(use: OpUse) -> str:
    types = f" ({plain(use.dtypes)})" if use.dtypes else ""
    match use.support:
        case "compiled":
            return "yes"
        case "frozen":
            return "removed by freezing"
        case "unsupported":
            return f"[red]no{types}[/]"
        case "unregistered":
            return "[red]unknown to TensorFlow[/]"


_READY = {
    None: "build wheels",
    "author": "compile models",
    "release": "release wheels",
    "github": "release from GitHub",
}


def print_diagnosis(
    findings: Sequence[Diagnosis | Setting], role: Role | Literal["github"] | None = None
) -> None:
    """One line for each check, with a fix below it where one is needed."""
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark = "[green]ok     [/]" if finding.ok else "[yellow]note   [/]"
        if finding.required and not finding.ok:
            mark = "[red]missing[/]"
        print_below(OUT, f"{mark} {finding.name:{width}}", finding.found, "", aligned=True)
        for line in (finding.fix or "").splitlines():
            print_below(OUT, f"        {'':{width}}", line, "", aligned=True)
    required = [finding.name for finding in findings if finding.required and not finding.ok]
    optional = [finding.name for finding in findings if not finding.required and not finding.ok]
    OUT.print(
        f"Not ready to {_READY[role]}: {', '.join(required)}"
        if required
        else f"Ready to {_READY[role]}"
    )
    if optional:
        why = (
            "Nobody else can see" if role == "github" else "Missing, but only some commands need it"
        )
        OUT.print(f"{why}: {', '.join(optional)}")


def print_publication(plan: Plan) -> None:
    """Every file of a release with what will be done with it, then the project names new to the index."""
    table = Table(Column("file", overflow="fold"), "version", "size", "to do", "")
    colours = {"upload": "green", "skip": "dim", "refuse": "red"}
    for file in plan.files:
        action = f"[{colours[file.action]}]{file.action}[/]"
        size = size_text(file.size)
        table.add_row(plain(file.name), plain(file.version), size, action, plain(file.reason))
    OUT.print(table)
    names = f": {', '.join(plan.new_projects)}" if plan.new_projects else ""
    new = count(len(plan.new_projects), "new project name")
    OUT.print(f"{new} on the index{plain(names)}")
    for warning in plan.warnings:
        print_below(OUT, "[yellow]warning[/]", warning, "")
