"""Makes once what several processes of one test session need."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from filelock import FileLock

T = TypeVar("T")


class Once:
    """Called with a function: what it gives, made by the first process that asks."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        own = factory.getbasetemp()
        self.directory = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
        """Common to all processes of this session."""

    def __call__(self, name: str, make: Callable[[Path], T]) -> T:
        """What `make` gives when it is called with a new directory of this name."""
        directory, value = self.directory / name, self.directory / f"{name}.pickle"
        with FileLock(self.directory / f"{name}.lock"):
            if not value.exists():
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir()
                value.write_bytes(pickle.dumps(make(directory)))
            made: T = pickle.loads(value.read_bytes())
        return made
