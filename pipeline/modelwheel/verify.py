"""Holding a wheel against TensorFlow: installed alone, at every CPU level and many numbers of rows.

The comparison itself is the wheel's own `python -m model_NAME selftest`; this module gives it an
environment with nothing but the wheel and NumPy, and the whole reference where it is at hand.
"""

from __future__ import annotations

import sys
import tempfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import VerifyError, WheelError
from .manifest import Manifest
from .process import ProcessError, run
from .store import Store

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


def read_manifest(wheel: Path) -> Manifest:
    """The manifest inside a wheel.

    Raises:
        WheelError: It is not a wheel of modelwheel.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if PurePosixPath(n).name == "_manifest.json"]
            content = archive.read(names[0]) if len(names) == 1 else b""
    except (OSError, zipfile.BadZipFile) as error:
        raise WheelError(f"{wheel} is not a wheel: {error}; name a .whl file") from None
    if not content:
        raise WheelError(f"{wheel} holds no model: it has no manifest; was it built by modelwheel?")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "manifest.json"
        path.write_bytes(content)
        return Manifest.load(path)


def find_reference(manifest: Manifest, store: Store) -> Path | None:
    """The whole reference that a wheel was verified against, if this store has it."""
    return store.blob(manifest.verification.reference_sha256)


def verify_wheel(wheel: Path, reference: Path | None = None) -> Report:
    """Installs a wheel into a new environment and compares it with TensorFlow's outputs.

    Args:
        wheel: The file.
        reference: The whole reference; without it the sample that the wheel carries is used.

    Raises:
        WheelError: The wheel cannot be installed.
        VerifyError: The library crashed or could not be loaded. Errors beyond their tolerance are
            in the report, not raised.
    """
    manifest = read_manifest(wheel)
    with tempfile.TemporaryDirectory(prefix="modelwheel-verify-") as directory:
        python = install_wheel(wheel, Path(directory))
        command: list[str | Path] = [python, "-m", manifest.model.module, "selftest", "--json"]
        if reference is not None:
            command += ["--reference", reference.absolute()]
        done = run(command, cwd=Path(directory), check=False)
    try:
        return Report.model_validate_json(done.stdout)
    except ValidationError:
        said = done.stderr.decode(errors="replace").strip()[-2000:]
        raise VerifyError(
            f"{wheel.name} did not run: exit code {done.returncode}: {said or 'it said nothing'}"
        ) from None


def install_wheel(wheel: Path, directory: Path) -> Path:
    """Installs a wheel with its dependencies into a new environment; gives its interpreter."""
    environment = directory / "environment"
    venv.EnvBuilder(with_pip=False, symlinks=True).create(environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    try:
        run([*pip, "--python", python, "install", wheel.absolute()], cwd=directory)
    except ProcessError as error:
        raise WheelError(f"{wheel.name} cannot be installed: {error}") from error
    return python


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
