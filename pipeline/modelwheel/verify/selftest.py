"""Holding a wheel against TensorFlow: installed alone, at every CPU level and many numbers of rows.

The comparison itself is the wheel's own `python -m model_NAME selftest`; this module gives it an
environment with nothing but the wheel and NumPy, and the whole reference where it is at hand.
"""

from __future__ import annotations

import os
import sys
import tempfile
import venv
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError

from ..assembly.manifest import Manifest
from ..errors import ModelwheelError, VerifyError, WheelError
from ..packaging.runtime import needed_wheels
from ..store.store import Store
from ..util.process import Completed, ProcessError, run

REPORT = "report.json"


class Comparison(BaseModel):
    """One output at one CPU level and number of rows, as the wheel's self-test tells it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: str
    rows: int
    rule: str
    """The rows and the batch sizes that they ran as (`7:4,1,1,1`)."""
    output: str
    absolute: float
    """Largest absolute error."""
    relative: float
    """The same relative to the largest absolute value of the reference."""
    limit: float
    """What the absolute error may be."""
    passed: bool


class Report(BaseModel):
    """Everything that a self-test compared."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    passed: bool
    comparisons: tuple[Comparison, ...]
    skipped: dict[str, str]
    """CPU levels that this machine cannot run, with the reason."""


@dataclass(frozen=True)
class Verified:
    """What became of one wheel that was to be verified."""

    wheel: Path
    whole: bool = False
    """Whether it was held against the whole reference or the sample that it carries."""
    report: Report | None = None
    error: ModelwheelError | None = None

    def as_json(self) -> dict[str, object]:
        """Everything as JSON holds it."""
        return {
            "wheel": str(self.wheel),
            "whole_reference": self.whole,
            "error": None if self.error is None else str(self.error),
            "report": None if self.report is None else self.report.model_dump(mode="json"),
        }


def verify_wheels(wheels: Iterable[Path], store: Store) -> list[Verified]:
    """Verifies wheels one by one; what is wrong with one does not keep it from the others."""
    return [_verify(wheel, store) for wheel in wheels]


def _verify(wheel: Path, store: Store) -> Verified:
    whole, report = False, None
    try:
        manifest = read_manifest(wheel)
        reference = find_reference(manifest, store)
        whole = reference is not None
        with store.scratch() as scratch:
            report = verify_wheel(wheel, reference, needed_wheels(manifest, store, scratch))
        require_passed(report, wheel.name)
    except ModelwheelError as error:
        return Verified(wheel, whole, report, error)
    return Verified(wheel, whole, report)


def read_manifest(wheel: Path) -> Manifest:
    """The manifest inside a wheel.

    Raises:
        WheelError: It is not a wheel of modelwheel.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if PurePosixPath(n).name == "_manifest.json"]
            content = archive.read(names[0]) if len(names) == 1 else b""
    except OSError as error:
        raise WheelError(f"cannot read {wheel}: {error.strerror}; name a .whl file") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise WheelError(f"{wheel} is no whole wheel: {error}; fetch or build it again") from None
    if not content:
        raise WheelError(f"{wheel} holds no model: it has no manifest; was it built by modelwheel?")
    return Manifest.parse(content, str(wheel))


def find_reference(manifest: Manifest, store: Store) -> Path | None:
    """The whole reference that a wheel was verified against, if this store has it."""
    return store.blob(manifest.verification.reference_sha256)


def verify_wheel(wheel: Path, reference: Path | None = None, needed: Sequence[Path] = ()) -> Report:
    """Installs a wheel into a new environment and compares it with TensorFlow's outputs.

    Args:
        wheel: The file.
        reference: The whole reference; without it the sample that the wheel carries is used.
        needed: Wheels that it depends on, which may be on no index yet.

    Raises:
        WheelError: The wheel cannot be installed.
        VerifyError: The library crashed or could not be loaded. Errors beyond their tolerance are
            in the report, not raised.
    """
    with tempfile.TemporaryDirectory(prefix="modelwheel-verify-") as directory:
        python = install_wheel(wheel, Path(directory), needed)
        return run_selftest(python, wheel, reference)


def run_selftest(python: Path, wheel: Path, reference: Path | None = None) -> Report:
    """Compares an installed wheel with TensorFlow's outputs, as `verify_wheel` does.

    Args:
        python: The interpreter of the environment that the wheel is installed in.
        wheel: The file.
        reference: The whole reference; without it the sample that the wheel carries is used.
    """
    options: list[str | Path] = ["selftest", "--json"]
    if reference is not None:
        options += ["--reference", reference.absolute()]
    done = run_module(python, read_manifest(wheel).model.module, *options, check=False)
    try:
        return Report.model_validate_json(done.stdout)
    except ValidationError:
        said = done.stderr.decode(errors="replace").strip()[-2000:]
        raise VerifyError(
            f"{wheel.name} did not run: exit code {done.returncode}: {said or 'it said nothing'}"
        ) from None


def install_wheel(wheel: Path, directory: Path, needed: Sequence[Path] = ()) -> Path:
    """Installs a wheel with its dependencies into a new environment; gives its interpreter.

    Args:
        wheel: The file.
        directory: An existing directory for the environment.
        needed: Wheels that it depends on; what else it needs comes from the package index.
    """
    environment = directory / "environment"
    venv.EnvBuilder(with_pip=False, symlinks=True).create(environment)
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    try:
        files = [path.absolute() for path in (wheel, *needed)]
        run([*pip, "--python", python, "install", "--no-compile", *files], cwd=directory)
    except ProcessError as error:
        raise WheelError(f"{wheel.name} cannot be installed: {error}") from error
    return python


def run_module(python: Path, module: str, *options: str | Path, check: bool = True) -> Completed:
    """Runs `python -m module`, where nothing of the caller's Python environment gets in."""
    environment = {k: v for k, v in os.environ.items() if k != "MODELWHEEL_LEVEL"}
    return run([python, "-I", "-m", module, *options], env=environment, check=check)


def require_passed(report: Report, name: str) -> None:
    """Raises VerifyError, naming the worst output, if any comparison failed."""
    failed = [comparison for comparison in report.comparisons if not comparison.passed]
    if report.passed:
        return
    if not failed:
        raise VerifyError(
            f"{name}: nothing could be compared: {'; '.join(report.skipped.values())}"
        )
    worst = max(failed, key=lambda c: c.absolute / max(c.limit, 1e-300))
    raise VerifyError(
        f"{name}: {len(failed)} of {len(report.comparisons)} comparisons exceed their tolerance; worst: output "
        f"{worst.output!r} at {worst.level}, {worst.rows} rows: error {worst.absolute:.3g}, "
        f"tolerance {worst.limit:.3g}; raise verify.tolerance only if TensorFlow's own results "
        "vary that much"
    )


def write_report(report: Report, out: Path) -> None:
    """Writes `report.json` into a directory."""
    (out / REPORT).write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")


def read_report(content: bytes) -> Report:
    """Reads what `write_report` wrote."""
    return Report.model_validate_json(content)
