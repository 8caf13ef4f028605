"""`modelwheel tune`: builds a wheel and measures what each of its batch sizes costs on this machine."""

from __future__ import annotations

import json
import platform
import tempfile
from pathlib import Path

from .build import BuildOptions, Reporter, build
from .errors import ModelwheelError, VerifyError
from .process import ProcessError
from .request import Request
from .store import Store
from .tune_lock import write_costs
from .verify import install_wheel, run_module


def tune_spec(request: Request, store: Store, reporter: Reporter) -> Path:
    """Writes the lock file of a spec; gives its path.

    Raises:
        ModelwheelError: The wheel could not be built; the lock file is as it was.
    """
    with tempfile.TemporaryDirectory(prefix="modelwheel-tune-") as directory:
        work = Path(directory)
        (result,) = build([request], store, BuildOptions(work / "dist"), reporter)
        if result.wheel is None:
            raise _first_error(result.errors)
        python = install_wheel(result.wheel, work)
        try:
            measured = json.loads(run_module(python, request.spec.module, "bench", "--json").stdout)
        except (ProcessError, ValueError) as error:
            raise VerifyError(f"{result.wheel.name} could not be measured: {error}") from None
    costs: dict[str, dict[str, float]] = {}
    for row in measured:
        costs.setdefault(row["level"], {})[str(row["batch_size"])] = round(row["nanoseconds"], 1)
    return write_costs(request.spec.path, _cpu_name(), costs)


def _first_error(errors: list[tuple[str, ModelwheelError]]) -> ModelwheelError:
    return errors[0][1]


def _cpu_name() -> str:
    for line in _read_cpuinfo().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _read_cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text(errors="replace") if path.is_file() else ""
