"""`modelwheel tune`: builds a wheel and measures what each of its batch sizes costs on this machine."""

from __future__ import annotations

from pathlib import Path

from ..assembly.manifest import Manifest
from ..assembly.tune_lock import write_costs
from ..levels import cpu_name
from ..limits import Limits
from ..request import Request
from ..sandbox.choose import Sandbox
from ..store.store import Store
from ..verify.environment import InstalledWheel, install_wheel
from ..wheelfile.wheel import open_wheel
from .build import BuildOptions, Reporter, build


def tune_spec(
    request: Request, store: Store, sandbox: Sandbox, reporter: Reporter, limits: Limits
) -> Path:
    """Writes the lock file of a spec, with every CPU level that runs here; returns its path.

    Raises:
        ModelwheelError: The wheel could not be built or run; the lock file is unchanged.
    """
    with store.scratch() as work:
        options = BuildOptions(work / "dist", sandbox, limits=limits)
        (result,) = build([request], store, options, reporter)
        for _, error in result.errors:
            raise error
        assert result.wheel is not None
        assert result.report is not None
        manifest = open_wheel(result.wheel).manifest
        installed = install_wheel(result.wheel, manifest.model.module, work, sandbox, result.needed)
        levels = [level for level in manifest.levels if level not in result.report.skipped]
        costs = {level: _measure(installed, manifest, level) for level in levels}
    return write_costs(request.spec.path, cpu_name(), costs)


def _measure(installed: InstalledWheel, manifest: Manifest, level: str) -> dict[int, float]:
    """Nanoseconds of one run by batch size, without the cost of a call from Python."""
    timings = _bench(installed, level)
    # A call with 0 rows runs no program. Models that refuse other batch sizes refuse this one, too.
    call = 0.0
    if manifest.signature.batched and manifest.batching.no_emulation_reason is None:
        call = _bench(installed, level, "--batch", "0")[0]
    # At least 1 ns: the lock file holds positive numbers only.
    return {size: round(max(time - call, 1.0), 1) for size, time in timings.items()}


def _bench(installed: InstalledWheel, level: str, *options: str) -> dict[int, float]:
    """Nanoseconds of one call by number of rows."""
    timings = installed.bench("--level", level, *options)
    return {timing.rows: timing.nanoseconds for timing in timings}
