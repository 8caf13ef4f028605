"""Imports of large packages without those that they use where these are installed: each job would pay for them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, MutableMapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, cast


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
