"""Compares wheels with TensorFlow: installed alone, at every CPU level and many numbers of rows.

The comparison itself is the wheel's own `python -m model_NAME selftest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..accuracy import BOUNDARIES, ROUNDINGS, Truth, worst_of
from ..assembly.manifest import Manifest
from ..errors import ModelwheelError, VerifyError, WheelError
from ..packaging.runtime import needed_wheels
from ..platforms import host_platform, machine
from ..sandbox.choose import Sandbox
from ..store.store import Store
from ..util.text import one_line
from ..util.unfinished import temporary_directory
from ..util.watching import NOBODY, Watcher, each
from ..util.words import count
from ..wheelfile.reports import Comparison, Report
from ..wheelfile.wheel import Wheel, open_wheel
from .against import prepare_evaluation
from .emulation import emulate_host, make_arm_python
from .environment import InstalledWheel, install_wheel

_ARM = "linux-aarch64"


@dataclass(frozen=True)
class Verified:
    """The result of verifying one wheel."""

    wheel: Path
    whole_reference: bool = False
    """Whether it was compared with all recorded outputs or with the sample that it contains."""
    against: Path | None = None
    """The file of somebody's outputs that it was compared with instead."""
    error: ModelwheelError | None = None
    report: Report | None = None


def verify_wheels(
    wheels: Iterable[Path],
    store: Store,
    sandbox: Sandbox,
    against: Path | None = None,
    *,
    emulate: bool = False,
    watcher: Watcher = NOBODY,
) -> list[Verified]:
    """Verifies wheels one by one in a sandbox; an error in one does not stop the others.

    Args:
        wheels: The files.
        store: May have the reference that a wheel was built with; otherwise its sample is used.
        sandbox: Where they run.
        against: An `.npz` file with arrays `in/NAME` and `out/NAME`, such as another runtime's outputs, to
            compare with instead.
        emulate: Whether qemu runs what this machine cannot.
        watcher: Receives the name of each wheel.
    """
    return [
        _verify(path, store, sandbox, against, emulate=emulate)
        for path in each(wheels, lambda path: path.name, watcher)
    ]


def _verify(
    path: Path, store: Store, sandbox: Sandbox, against: Path | None, *, emulate: bool
) -> Verified:
    whole, report = False, None
    try:
        wheel = open_wheel(path)
        reference = find_reference(wheel.manifest, store) if against is None else None
        whole = reference is not None
        with store.scratch() as scratch:
            if against is not None:
                reference = prepare_evaluation(against, wheel.manifest, scratch)
            if emulate and wheel.manifest.platform == _ARM != host_platform().name:
                report = _verify_on_arm(wheel, sandbox, reference, scratch)
            else:
                needed = needed_wheels(wheel.manifest, store, scratch)
                report = verify_wheel(wheel, sandbox, reference, needed, emulate=emulate)
        if against is not None:
            # TensorFlow's errors are those on other inputs.
            report = report.model_copy(update={"truth": Truth()})
        # After `report` is set: a failed comparison keeps its report.
        require_passed(report, wheel.name, replaced_in(wheel.manifest))
    except ModelwheelError as error:
        return Verified(path, whole, against, error, report)
    return Verified(path, whole, against, None, report)


def find_reference(manifest: Manifest, store: Store) -> Path | None:
    """All recorded outputs of the model of a wheel, if the store has them."""
    return store.blob(manifest.verification.reference_sha256)


def verify_wheel(
    wheel: Wheel,
    sandbox: Sandbox,
    reference: Path | None = None,
    needed: Sequence[Path] = (),
    *,
    emulate: bool = False,
    python: Path | None = None,
) -> Report:
    """Installs a wheel into a new environment and compares it with TensorFlow's outputs.

    Args:
        wheel: The wheel.
        sandbox: Where it runs.
        reference: All recorded outputs; without them the sample in the wheel is used.
        needed: Wheels that it depends on, which may not be on an index yet.
        emulate: Whether qemu runs the levels that this CPU lacks.
        python: The interpreter of an environment made for this, see `install_wheel`.

    Raises:
        WheelError: The wheel cannot be installed.
        VerifyError: The library crashed or could not be loaded. Errors beyond their tolerance are
            in the report, not raised.
    """
    with temporary_directory("verify") as directory:
        module = wheel.manifest.model.module
        installed = install_wheel(wheel.path, module, directory, sandbox, needed, python)
        report = installed.selftest(reference)
        report = report.model_copy(update={"weights_storage": wheel.manifest.model.weights_storage})
        return emulate_skipped(installed, report, reference) if emulate else report


def emulate_skipped(installed: InstalledWheel, report: Report, reference: Path | None) -> Report:
    """A report with the levels that qemu can run of those that were skipped.

    Raises:
        EnvironmentProblemError: There is no qemu for this architecture.
        VerifyError: The library crashed.
    """
    if not report.skipped:
        return report
    emulated = replace(installed, emulated=emulate_host(installed.python, machine()))
    more = emulated.selftest(reference, report.skipped)
    compared = tuple(dict.fromkeys(c.level for c in more.comparisons))
    return report.model_copy(
        update={
            # A report without comparisons has not passed.
            "passed": (report.passed or not report.comparisons) and (more.passed or not compared),
            "comparisons": (*report.comparisons, *more.comparisons),
            "skipped": more.skipped,
            "emulated": compared,
        }
    )


def _verify_on_arm(wheel: Wheel, sandbox: Sandbox, reference: Path | None, scratch: Path) -> Report:
    """Runs a wheel for 64-bit Arm with an emulated Python."""
    manifest = wheel.manifest
    needed: list[Path] = []
    if manifest.model.bindings == "shared":
        needed = sorted(wheel.path.parent.glob("modelwheel_runtime-*_aarch64.whl"))
        if not needed:
            raise WheelError(
                f"{wheel.name} needs modelwheel-runtime for 64-bit Arm, which is not beside it; make it "
                "with `modelwheel runtime` and `modelwheel wheel --cross`"
            )
    python = make_arm_python(scratch, [wheel.path.absolute(), *needed[-1:]], _python_of(wheel))
    installed = InstalledWheel(
        Path(python.command[-1]), wheel.path, manifest.model.module, sandbox, python
    )
    report = installed.selftest(reference)
    compared = tuple(dict.fromkeys(c.level for c in report.comparisons))
    changes = {"emulated": compared, "weights_storage": manifest.model.weights_storage}
    return report.model_copy(update=changes)


def _python_of(wheel: Wheel) -> str:
    """The Python that a wheel is for; that of this process if any will do."""
    tags = [tag.interpreter for tag in wheel.tags if tag.interpreter.startswith("cp")]
    return f"{tags[0][2]}.{tags[0][3:]}" if tags and tags[0][3:].isdigit() else ""


def replaced_in(manifest: Manifest) -> tuple[str, ...]:
    """The fusions in the model of a wheel, with who implements them."""
    return tuple(
        f"{fusion.name!r} of {one_line(fusion.provider)}" for fusion in manifest.compiler.fusions
    )


def asked_for(weights_storage: str, replaced: Sequence[str]) -> str:
    """The settings of the spec that may change outputs, and what to do, as a clause; empty if there are none.

    Args:
        weights_storage: How the weights are stored.
        replaced: See `replaced_in`.
    """
    if weights_storage != "float32":
        return (
            f"the weights are stored as {weights_storage}; choose a package.weights_storage with more "
            "bits, or raise verify.tolerance if this is precise enough"
        )
    if replaced:
        return (
            f"fusions replaced parts of the model, and one of them may compute something else: "
            f"{', '.join(replaced)}; leave them out of compilation.fusions one by one to see which"
        )
    return ""


def require_passed(report: Report, name: str, replaced: Sequence[str] = ()) -> None:
    """Raises VerifyError, naming the worst output, if any comparison failed.

    Args:
        report: The comparisons.
        name: The wheel, for messages.
        replaced: See `replaced_in`: the reference is that of the model without them.
    """
    if report.passed:
        return
    failed = [comparison for comparison in report.comparisons if not comparison.passed]
    if not failed:
        reasons = "; ".join(report.skipped.values())
        raise VerifyError(f"{name}: nothing could be compared: {reasons}", code="MW622")
    worst = max(failed, key=lambda comparison: comparison.share)
    raise VerifyError(
        f"{name}: {len(failed)} of {len(report.comparisons)} comparisons exceed their tolerance; worst: "
        f"{'state' if worst.state else 'output'} {worst.output!r} at {worst.level}, {_where(worst)}: error {worst.absolute:.3g}, "
        f"tolerance {worst.limit:.3g}; {attribute(report, worst, replaced)}",
        code="MW621",
    )


def _where(failed: Comparison) -> str:
    """`4 rows`, `1 row of nan`, `4 rows beside extreme rows`."""
    rows = count(failed.rows, "row")
    if failed.circumstance is None:
        return rows
    of = " of" if failed.circumstance in BOUNDARIES else ""
    return f"{rows}{of} {failed.circumstance}"


def attribute(report: Report, failed: Comparison, replaced: Sequence[str] = ()) -> str:
    """To whom an error beyond its tolerance belongs, and what to do, as a clause.

    It is the conversion of the model, the model itself on these rows, XLA, or the wheel.
    """
    truth, output = report.truth, failed.output
    who = truth.evaluator
    if failed.circumstance is not None and failed.circumstance not in BOUNDARIES:
        return "the wheel computes something else when it is called in this way; please report it with the model"
    if reason := truth.converted.get(output):
        return (
            f"the conversion of the model computes something else than {who} ({reason}), which no tolerance makes right; "
            "please report it with the model"
        )
    if reason := truth.sensitive.get(output):
        moved = worst_of(truth.moved).get(output)
        far = f"; up to {moved.absolute:.2g}" if moved is not None else ""
        return (
            f"the model is sensitive on these rows ({reason}{far}), so that no compiler can be judged by them; give real "
            "rows in verify.samples, or narrower verify.ranges"
        )
    asked = asked_for(report.weights_storage, replaced)
    if asked:
        return asked
    own = worst_of(truth.framework, failed.circumstance).get(output)
    xla = worst_of(truth.xla, failed.circumstance).get(output)
    if own is not None and xla is not None and xla.absolute > failed.limit:
        return (
            f"XLA computes something else: TensorFlow with XLA (jit_compile=True) is {xla.absolute:.3g} from the "
            f"exact result too, {who} {own.absolute:.3g}; please report it with the model, or write this part of "
            "the model with other operations"
        )
    if failed.exact:
        far = f"{who}'s own error is {own.absolute:.3g}, so " if own is not None else ""
        return f"{far}the wheel computes something else; please report it with the model"
    return _without_truth(truth, output)


def _without_truth(truth: Truth, output: str) -> str:
    """Advice about an output that has only the framework's own results to compare with."""
    who, narrow = truth.evaluator, truth.narrow.get(output)
    reason = truth.missing or truth.without.get(output)
    why = f" ({reason})" if reason else ""
    through = (
        f"; its values pass through {narrow}, of which {ROUNDINGS} units are allowed"
        if narrow
        else ""
    )
    return (
        f"only {who} says what is right{why}{through}: set verify.outputs.{output}.rtol in the spec if {who}'s own "
        "results vary that much between versions or machines, otherwise report it with the model"
    )
