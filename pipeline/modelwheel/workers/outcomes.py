"""Results of jobs that are no models: see `modelwheel.workers.jobs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ..program.program import Program
from ..util.records import JsonRecord


class Sizing(JsonRecord):
    """The program of a model for several rows."""

    program: Program | None = None
    refusal: str = ""
    """Why there is none, if the model can be compiled for one row at most."""


class Exported(JsonRecord):
    """Which files of an exported model there are."""

    FILE: ClassVar[str] = "exported.json"

    failures: Mapping[str, str] = {}
    """Why there is no such file, by its name in `EXPORTED`."""
