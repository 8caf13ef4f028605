"""Work of a build while TensorFlow is imported: a worker uses one core for that, and no step can start."""

from __future__ import annotations

import importlib
import threading
from contextlib import suppress
from pathlib import Path

from ..util.processes.process import ProcessError, kill_all
from ..verify.environment import create_environment, install
from ..versions import NUMPY_REQUIREMENT

_IMPORTED_LATE = ("lief", "numpy", "cyclonedx.model.bom", "cyclonedx.output.json", "build")
"""What steps import when they run, because a plan needs none of it: half a second."""

_AGAIN_SECONDS = 0.1


class Ahead:
    """Imports what steps import, and makes the environment of the first verification, in a thread.

    No result depends on it: what is missing in the end, or failed, a step does itself, and reports.

    Args:
        directory: For the environment; the caller removes it after `close`.
        verifies: Whether a wheel will be verified.
    """

    def __init__(self, directory: Path, *, verifies: bool) -> None:
        self._directory, self._verifies = directory, verifies
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._python: Path | None = None

    def start(self) -> None:
        """Starts the thread; does nothing if it was started before."""
        with self._lock:
            if self._thread is None:
                # A daemon: if this process is killed, nobody waits for pip.
                self._thread = threading.Thread(target=self._run, name="ahead", daemon=True)
                self._thread.start()

    def take_environment(self) -> Path | None:
        """The interpreter of an environment with NumPy, for one caller; None if there is none."""
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            python, self._python = self._python, None
        return python

    def close(self) -> None:
        """Ends the thread, after all steps: it may be waiting for a package index."""
        while self._thread is not None and self._thread.is_alive():
            kill_all()
            self._thread.join(_AGAIN_SECONDS)

    def _run(self) -> None:
        if self._verifies:
            # First, because it is another process, which leaves this one to the steps.
            with suppress(ProcessError, OSError):
                python = create_environment(self._directory / "environment")
                install(python, [NUMPY_REQUIREMENT], self._directory)
                self._python = python
        for name in _IMPORTED_LATE:
            with suppress(ImportError):
                importlib.import_module(name)
