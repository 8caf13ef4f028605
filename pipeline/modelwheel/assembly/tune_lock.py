"""Measured costs of batch sizes, kept beside the spec: `digits.yaml` has `digits.tune.json`.

A build never times anything: it takes these costs where they are, estimates where they are not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import SpecError
from ..util.files import write_atomically

_Costs: TypeAlias = dict[str, dict[int, Annotated[float, Field(gt=0, allow_inf_nan=False)]]]


class TuneLock(BaseModel):
    """The lock file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: str
    """Where it was measured, for the reader."""
    nanoseconds: _Costs
    """Of one run, by CPU level and batch size."""


def lock_path(spec: Path) -> Path:
    """Where the costs of a spec are kept."""
    return spec.with_suffix(".tune.json")


def read_costs(spec: Path) -> _Costs:
    """Nanoseconds of one run by CPU level and batch size; empty if nothing was measured.

    Raises:
        SpecError: The lock file is malformed.
    """
    path = lock_path(spec)
    if not path.is_file():
        return {}
    try:
        return TuneLock.model_validate_json(path.read_bytes()).nanoseconds
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SpecError(
            f"{path}: {where}: {first['msg']}; run `modelwheel tune {spec}` again or remove the file"
        ) from None


def write_costs(spec: Path, cpu: str, nanoseconds: _Costs) -> Path:
    """Writes the lock file; gives its path."""
    lock = TuneLock(cpu=cpu, nanoseconds=nanoseconds)
    text = json.dumps(lock.model_dump(), indent=2, sort_keys=True)
    write_atomically(lock_path(spec), f"{text}\n".encode())
    return lock_path(spec)
