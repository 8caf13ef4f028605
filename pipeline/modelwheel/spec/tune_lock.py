"""The measurements of `modelwheel tune`, stored beside the spec: `digits.yaml` has `digits.tune.json`.

A build never times anything: it uses these costs and flags if they exist.
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
from .flags import XlaFlags, flag_name
from .model import Spec

# Costs are part of a store key, whose JSON refuses NaN and infinity.
Costs: TypeAlias = dict[str, dict[int, Annotated[float, Field(gt=0, allow_inf_nan=False)]]]


_MAX_BYTES = 1 << 20


class TuneLock(JsonRecord):
    """The lock file."""

    JSON_INDENT: ClassVar[int | None] = 2

    cpu: str = ""
    """The CPU it was measured on, for human readers."""
    nanoseconds: Costs
    """Time of one run, by CPU level and batch size."""
    xla_flags: dict[str, XlaFlags] = Field(default_factory=dict)
    """Flags of XLA that made the code quicker, by CPU level; they follow the level's own and precede the spec's."""


NOT_TUNED = TuneLock(nanoseconds={})


def lock_path(spec: Path) -> Path:
    """The lock file of a spec."""
    return spec.with_suffix(".tune.json")


def read_lock(spec: Spec) -> TuneLock:
    """Reads the lock file of a spec; NOT_TUNED if there is none, or no file of the spec itself.

    Raises:
        SpecError: The lock file is malformed, or sets a flag that the spec sets too.
    """
    path = lock_path(spec.path)
    if spec.is_bare or not path.is_file():
        return NOT_TUNED
    again = f"run `modelwheel tune {spec.path}` again or remove the file"
    try:
        lock = TuneLock.model_validate_json(read_below(path.parent, path.name, _MAX_BYTES))
    except (OSError, UnsafePathError) as error:
        raise SpecError(f"{path}: cannot be read: {error}", code="MW113") from None
    except ValidationError as error:
        raise SpecError(f"{path}: {first_mistake(error)}; {again}", code="MW113") from None
    own = {flag_name(flag) for flag in spec.xla_flags()}
    for level, flags in lock.xla_flags.items():
        for name in filter(own.__contains__, map(flag_name, flags)):
            raise SpecError(
                f"{path}: xla_flags.{level}: {spec.path} sets {name}, too; {again}", code="MW113"
            )
    return lock


def write_lock(spec: Path, lock: TuneLock) -> Path:
    """Writes the lock file of a spec, sorted so that it differs little from an older one; returns its path."""
    costs = {
        level: dict(sorted(sizes.items())) for level, sizes in sorted(lock.nanoseconds.items())
    }
    flags = {level: flags for level, flags in sorted(lock.xla_flags.items()) if flags}
    sorted_lock = TuneLock(cpu=lock.cpu, nanoseconds=costs, xla_flags=flags)
    write_atomically(lock_path(spec), sorted_lock.to_json())
    return lock_path(spec)
