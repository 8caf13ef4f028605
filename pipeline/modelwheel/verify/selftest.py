"""Compares wheels with TensorFlow: installed alone, at every CPU level and many numbers of rows.

The comparison itself is the wheel's own `python -m model_NAME selftest`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..assembly.manifest import Manifest
from ..errors import ModelwheelError, VerifyError
from ..packaging.runtime import needed_wheels
from ..sandbox.choose import Sandbox
from ..store.store import Store
from ..wheelfile.reports import Report
from ..wheelfile.wheel import Wheel, open_wheel
from .environment import install_wheel


@dataclass(frozen=True)
class Verified:
    """The result of verifying one wheel."""

    wheel: Path
    whole_reference: bool = False
    """Whether it was compared with all recorded outputs or with the sample that it contains."""
    error: ModelwheelError | None = None
    report: Report | None = None


def verify_wheels(wheels: Iterable[Path], store: Store, sandbox: Sandbox) -> list[Verified]:
    """Verifies wheels one by one in a sandbox; an error in one does not stop the others."""
    return [_verify(path, store, sandbox) for path in wheels]


def _verify(path: Path, store: Store, sandbox: Sandbox) -> Verified:
    whole, report = False, None
    try:
        wheel = open_wheel(path)
        reference = find_reference(wheel.manifest, store)
        whole = reference is not None
        with store.scratch() as scratch:
            needed = needed_wheels(wheel.manifest, store, scratch)
            report = verify_wheel(wheel, sandbox, reference, needed)
        # After `report` is set: a failed comparison keeps its report.
        require_passed(report, wheel.name)
    except ModelwheelError as error:
        return Verified(path, whole, error, report)
    return Verified(path, whole, None, report)


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
        f"tolerance {worst.limit:.3g}; raise verify.tolerance only if TensorFlow's own results "
        "vary that much"
    )
