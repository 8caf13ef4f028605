"""Imports: none from the working directory, whose `build.py` would be run in place of the package, and none that a job does without."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, MutableMapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, cast


def module_command(name: str) -> tuple[str, ...]:
    """The beginning of a command that runs a module of this Python's packages, as `python -m` does."""
    if sys.version_info >= (3, 11):
        return (sys.executable, "-P", "-m", name)
    code = f"import runpy, sys; sys.path.pop(0); runpy.run_module({name!r}, None, '__main__', True)"
    return (sys.executable, "-c", code)


def forget_start_directory() -> None:
    """Takes the directory that Python puts first out of the search path: the working one, or that of the script."""
    if not sys.path or getattr(sys.flags, "safe_path", False):
        return
    script = os.path.dirname(os.path.realpath(sys.argv[0]))  # noqa: PTH120 - an empty name has none
    if sys.path[0] == "" or os.path.realpath(sys.path[0]) in (os.path.realpath("."), script):
        del sys.path[0]


@contextmanager
def left_out(names: Collection[str]) -> Iterator[None]:
    """Has imports of these packages fail, as where they are not installed, unless they are imported already.

    Afterwards they can be imported: a model may need them.
    """
    modules: MutableMapping[str, ModuleType | None] = cast("Any", sys.modules)
    missing = {name: None for name in names if name not in modules}
    modules.update(missing)  # None makes every import of that name fail
    try:
        yield
    finally:
        for name in missing:
            del modules[name]
