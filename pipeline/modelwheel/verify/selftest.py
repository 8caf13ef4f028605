"""Compares wheels with TensorFlow: installed alone, at every CPU level and many numbers of rows.

The comparison itself is the wheel's own `python -m model_NAME selftest`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..accuracy import Truth, worst_of
from ..assembly.manifest import Manifest
from ..errors import ModelwheelError, VerifyError
from ..packaging.runtime import needed_wheels
from ..sandbox.choose import Sandbox
from ..store.store import Store
from ..wheelfile.reports import Comparison, Report
from ..wheelfile.wheel import Wheel, open_wheel
from .environment import install_wheel


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
    wheels: Iterable[Path], store: Store, sandbox: Sandbox, against: Path | None = None
) -> list[Verified]:
    """Verifies wheels one by one in a sandbox; an error in one does not stop the others.

    Args:
        wheels: The files.
        store: May have the reference that a wheel was built with; otherwise its sample is used.
        sandbox: Where they run.
        against: An `.npz` file with arrays `in/NAME` and `out/NAME`, such as another runtime's outputs, to
            compare with instead.
    """
    return [_verify(path, store, sandbox, against) for path in wheels]


def _verify(path: Path, store: Store, sandbox: Sandbox, against: Path | None) -> Verified:
    whole, report = False, None
    try:
        wheel = open_wheel(path)
        reference = against or find_reference(wheel.manifest, store)
        whole = against is None and reference is not None
        with store.scratch() as scratch:
            needed = needed_wheels(wheel.manifest, store, scratch)
            report = verify_wheel(wheel, sandbox, reference, needed)
        if against is not None:
            # TensorFlow's errors are those on other inputs.
            report = report.model_copy(update={"truth": Truth()})
        # After `report` is set: a failed comparison keeps its report.
        require_passed(report, wheel.name)
    except ModelwheelError as error:
        return Verified(path, whole, against, error, report)
    return Verified(path, whole, against, None, report)


def find_reference(manifest: Manifest, store: Store) -> Path | None:
    """All recorded outputs of the model of a wheel, if the store has them."""
    return store.blob(manifest.verification.reference_sha256)


def verify_wheel(
    wheel: Wheel, sandbox: Sandbox, reference: Path | None = None, needed: Sequence[Path] = ()
) -> Report:
    """Installs a wheel into a new environment and compares it with TensorFlow's outputs.

    Args:
        wheel: The wheel.
        sandbox: Where it runs.
        reference: All recorded outputs; without them the sample in the wheel is used.
        needed: Wheels that it depends on, which may not be on an index yet.

    Raises:
        WheelError: The wheel cannot be installed.
        VerifyError: The library crashed or could not be loaded. Errors beyond their tolerance are
            in the report, not raised.
    """
    with tempfile.TemporaryDirectory(prefix="modelwheel-verify-") as directory:
        module = wheel.manifest.model.module
        return install_wheel(wheel.path, module, Path(directory), sandbox, needed).selftest(
            reference
        )


def require_passed(report: Report, name: str) -> None:
    """Raises VerifyError, naming the worst output, if any comparison failed."""
    if report.passed:
        return
    failed = [comparison for comparison in report.comparisons if not comparison.passed]
    if not failed:
        reasons = "; ".join(report.skipped.values())
        raise VerifyError(f"{name}: nothing could be compared: {reasons}")
    worst = max(failed, key=lambda comparison: comparison.share)
    raise VerifyError(
        f"{name}: {len(failed)} of {len(report.comparisons)} comparisons exceed their tolerance; worst: "
        f"{'state' if worst.state else 'output'} {worst.output!r} at {worst.level}, {worst.rows} rows: error {worst.absolute:.3g}, "
        f"tolerance {worst.limit:.3g}; {attribute(report, worst)}"
    )


def attribute(report: Report, failed: Comparison) -> str:
    """To whom an error beyond its tolerance belongs, and what to do, as a clause."""
    truth, output = report.truth, failed.output
    moved = truth.chaotic(output, failed.limit)
    if moved is not None:
        return (
            f"the model is chaotic on these rows: its exact result moves by {moved.absolute:.2g} if "
            "weights and inputs change by half a unit in the last place of float32, so that no "
            "compiler can be judged by them; give real rows in verify.samples, or narrower verify.ranges"
        )
    xla = worst_of(truth.xla, failed.circumstance).get(output)
    if xla is not None and xla.absolute > failed.limit:
        return (
            f"TensorFlow with XLA (jit_compile=True) is {xla.absolute:.3g} from the exact result too, so "
            "XLA computes this model less precisely than TensorFlow; raise verify.tolerance if that is "
            "precise enough"
        )
    own = worst_of(truth.tensorflow, failed.circumstance).get(output)
    if not failed.exact or own is None:
        return "raise verify.tolerance only if TensorFlow's own results vary that much"
    return (
        f"TensorFlow's own error is {own.absolute:.3g}, so the wheel computes something else; please "
        "report it with the model"
    )
