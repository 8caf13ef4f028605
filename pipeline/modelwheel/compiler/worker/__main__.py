"""The worker: `python -m modelwheel.compiler.worker` takes jobs as lines of JSON and answers each with one.

It is started by `modelwheel.compiler.pool`, which sets the environment variables that TensorFlow reads.
Standard output belongs to the answers alone: what libraries print goes to standard error.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from ...errors import CompileError, EnvironmentProblemError, ModelwheelError
from ...versions import TENSORFLOW_VERSION

Run = Callable[[Mapping[str, Any], Mapping[str, Path], Path], None]


def main() -> None:
    """Answers jobs until standard input ends."""
    jobs, answers = _take_streams()
    for line in jobs:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)
        # Graphs hold their weights in reference cycles, which would pile up from job to job.
        gc.collect()


def _take_streams() -> tuple[TextIO, TextIO]:
    """Standard input and output for the protocol; nobody else in this process can use them."""
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return jobs, answers


def _answer(job: Mapping[str, Any]) -> dict[str, Any]:
    start = time.monotonic()
    try:
        _require_tensorflow()
        inputs = {role: Path(path) for role, path in job["inputs"].items()}
        _find(job["kind"])(job["params"], inputs, Path(job["out"]))
    except ModelwheelError as error:
        return {"id": job["id"], "ok": False, "error": type(error).__name__, "message": str(error)}
    except Exception as error:  # noqa: BLE001 - a job's failure is its answer, whatever it is
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        return {
            "id": job["id"],
            "ok": False,
            "error": CompileError.__name__,
            "message": f"TensorFlow failed: {message}",
            "detail": traceback.format_exc(),
        }
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = time.monotonic() - start
    return {"id": job["id"], "ok": True, "seconds": seconds, "peak_bytes": peak}


def _require_tensorflow() -> None:
    remedy = f"`pip install modelwheel[compile]` installs TensorFlow {TENSORFLOW_VERSION}"
    try:
        tf = _import_tensorflow()
    except ImportError as error:
        raise EnvironmentProblemError(
            f"TensorFlow cannot be imported ({error}); {remedy}"
        ) from None
    if tf.__version__ != TENSORFLOW_VERSION:
        raise EnvironmentProblemError(
            f"TensorFlow {tf.__version__} is installed, whose compiler gives other results; {remedy}"
        )


def _import_tensorflow() -> ModuleType:
    """Imports TensorFlow alone: Keras, which it would import too (1.5 s, 80 MB), only if a model asks for it."""
    if "tensorflow" not in sys.modules:
        sys.modules["keras"] = None  # type: ignore[assignment]
        try:
            importlib.import_module("tensorflow")
        finally:
            del sys.modules["keras"]
    return sys.modules["tensorflow"]


def _find(kind: str) -> Run:
    if kind == "inspect":
        from .inspect_model import run
    elif kind == "freeze":
        from .freeze import run
    elif kind == "compile":
        from .compile import run
    else:
        from .reference import run
    return run


if __name__ == "__main__":
    main()
