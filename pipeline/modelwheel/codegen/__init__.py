"""From programs to what a wheel is compiled from: generated C++ and one blob of constants.

Generated code is tables and straight-line calls; everything with logic is hand-written in
`wheel_template/model/src/`.
"""

from __future__ import annotations

from .constants import Constants, collect
from .cost import estimate_cost
from .sources import CompiledVariant, ModelTables, level_source, random_states, tables_source

EMITTER_VERSION = 1
"""Raised when the same program is emitted differently; part of every wheel key."""

__all__ = [
    "EMITTER_VERSION",
    "CompiledVariant",
    "Constants",
    "ModelTables",
    "collect",
    "estimate_cost",
    "level_source",
    "random_states",
    "tables_source",
]
