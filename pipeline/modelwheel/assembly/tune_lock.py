"""Measured costs of batch sizes, stored beside the spec: `digits.yaml` has `digits.tune.json`.

A build never times anything: it uses these costs if they exist, and estimates otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field, ValidationError

from ..errors import SpecError
from ..util.files import write_atomically
from ..util.names import UnsafePathError
from ..util.records import JsonRecord, first_mistake
from ..util.trees import read_below

# Costs are part of a store key, whose JSON refuses NaN and infinity.
_Costs: TypeAlias = dict[str, dict[int, Annotated[float, Field(gt=0, allow_inf_nan=False)]]]


_MAX_BYTES = 1 << 20


class TuneLock(JsonRecord):
    """The lock file."""

    JSON_INDENT: ClassVar[int | None] = 2

    cpu: str
    """The CPU it was measured on, for human readers."""
    nanoseconds: _Costs
    """Time of one run, by CPU level and batch size."""


def lock_path(spec: Path) -> Path:
    """The lock file of a spec."""
    return spec.with_suffix(".tune.json")


def read_costs(spec: Path) -> _Costs:
    """Reads the nanoseconds of one run by CPU level and batch size; empty if nothing was measured.

    Raises:
        SpecError: The lock file is malformed.
    """
    path = lock_path(spec)
    if not path.is_file():
        return {}
    try:
        content = read_below(path.parent, path.name, _MAX_BYTES)
        return TuneLock.model_validate_json(content).nanoseconds
    except (OSError, UnsafePathError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from None
    except ValidationError as error:
        raise SpecError(
            f"{path}: {first_mistake(error)}; run `modelwheel tune {spec}` again or remove the file"
        ) from None


def write_costs(spec: Path, cpu: str, nanoseconds: _Costs) -> Path:
    """Writes the lock file, sorted so that it differs little from an older one; returns its path."""
    ordered = {level: dict(sorted(costs.items())) for level, costs in sorted(nanoseconds.items())}
    lock = TuneLock(cpu=cpu, nanoseconds=ordered)
    write_atomically(lock_path(spec), lock.to_json())
    return lock_path(spec)
