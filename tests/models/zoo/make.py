"""Runs several modules of `tests.models`: `make.py DIRECTORY MODULE...`, each for DIRECTORY/MODULE.

TensorFlow takes seconds to import, so that is done once, and each module runs in a fork.
"""

from __future__ import annotations

import multiprocessing
import runpy
import sys
from pathlib import Path

import tensorflow as tf


def _run(module: str, directory: Path) -> None:
    assert tf.__version__
    directory.mkdir(parents=True)
    sys.argv = [module, str(directory)]
    runpy.run_module(f"tests.models.{module}", run_name="__main__")


def make(modules: list[str], directory: Path) -> int:
    """The number of modules that failed."""
    failed = 0
    for module in modules:
        process = multiprocessing.get_context("fork").Process(
            target=_run, args=(module, directory / module)
        )
        process.start()
        process.join()
        failed += process.exitcode != 0
    return failed


if __name__ == "__main__":
    sys.exit(make(sys.argv[2:], Path(sys.argv[1])))
