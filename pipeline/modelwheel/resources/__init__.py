"""Facts about CPUs, kernels, platforms, Pythons and the macros of C headers, as TOML. And what each code of a message
means, as Markdown.

`modelwheel.levels`, `modelwheel.thresholds`, `modelwheel.platforms`, `modelwheel.spec.names` and `modelwheel.codes` read
them; nothing else does.
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
    rows: dict[str, Any] = tomllib.loads(read_text(name))
    return rows


def read_text(name: str) -> str:
    """The text of one of the files in this package."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
