"""Generates the C++ of a wheel, and one file with all constants, from compiled programs.

Generated code consists of tables and straight-line calls. Everything with logic is hand-written, in
`wheel_template/model/src/`.
"""

from __future__ import annotations

from .calls import compiled_kernels
from .constants import Constants
from .cost import estimate_cost, partial_part
from .panels import Packed, pack_weights
from .rows.demand import FirstRows
from .sources import CompiledVariant, ModelTables, level_source, random_states, tables_source
from .storage import Storage, StoredWeights, store

EMITTER_VERSION = 69
"""Increased when the same program is written differently; part of every wheel's key in the store."""

__all__ = [
    "EMITTER_VERSION",
    "CompiledVariant",
    "Constants",
    "FirstRows",
    "ModelTables",
    "Packed",
    "Storage",
    "StoredWeights",
    "compiled_kernels",
    "estimate_cost",
    "level_source",
    "pack_weights",
    "partial_part",
    "random_states",
    "store",
    "tables_source",
]
