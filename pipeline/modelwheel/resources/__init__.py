"""Facts about CPUs, platforms, Pythons and the macros of C headers, as TOML: one row for each.

`modelwheel.levels`, `modelwheel.platforms` and `modelwheel.spec.names` read them; nothing else does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(name: str) -> dict[str, Any]:
    """Parses one of the files in this package."""
    rows: dict[str, Any] = tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return rows
