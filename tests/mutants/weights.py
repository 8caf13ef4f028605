"""Where the weights of a finished wheel are, as arrays, and what may be overwritten in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from modelwheel.codegen.constants import Constants
from modelwheel.codegen.panels import COLUMNS, Packed, pack_weights
from modelwheel.dtypes import ElementType
from modelwheel.engine.programs import stored_programs, stored_records
from modelwheel.engine.steps.model import compile_name
from modelwheel.platforms import host_platform
from modelwheel.request import Request
from modelwheel.store.store import Store

Array = np.ndarray[Any, Any]

KINDS = {
    "row": "all values of one index of the slowest axis",
    "channel": "all values of one index of the fastest axis",
    "bias": "one value of an array of one axis",
    "value": "one value of any array",
    "digit": "one value of any array, by 1 % of it: its third digit",
}
"""What a mutant overwrites. All but `digit` write values of the same size with the other sign."""


@dataclass(frozen=True)
class Region:
    """One constant of 32-bit floats."""

    offset: int
    """In the weights."""
    shape: tuple[int, ...]
    """In the order in which it is stored, the slowest axis first."""

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Mutant:
    """Values to write over those of a wheel."""

    kind: str
    region: Region
    positions: tuple[int, ...]
    """In the flattened region."""
    values: tuple[float, ...]


def read_weights(request: Request, store: Store) -> tuple[bytes, tuple[Region, ...]]:
    """The weights of a wheel for one CPU level, as they are in its library, and the arrays of floats among them."""
    (level,) = request.levels
    programs = stored_programs(request, store, level)
    records = stored_records(request, store)
    contents = {
        extent: store.read_bytes(
            records[compile_name(request, host_platform(), level, extent)], "constants.bin"
        )
        for extent in programs
    }
    constants = Constants()
    added = [constants.add_program(programs[e], contents[e]) for e in programs]
    packed = pack_weights(added, constants)
    return bytes(constants.blob), tuple(_regions(constants, packed))


def _regions(constants: Constants, packed: Packed) -> Iterator[Region]:
    for digest, offset in constants.offsets.items():
        array = constants.arrays[digest]
        if array is None or array.element_type != ElementType.FLOAT32 or digest in packed.halved:
            continue
        shape = tuple(array.shape[axis] for axis in reversed(array.minor_to_major))
        if digest in packed.panels:
            shape = (constants.sizes[digest] // (4 * COLUMNS), COLUMNS)
        if math.prod(shape):
            yield Region(offset, shape or (1,))


def make_mutants(
    weights: bytes, regions: Sequence[Region], counts: Mapping[str, int], seed: int
) -> Iterator[Mutant]:
    """Random mutants: of each kind as many as `counts` says, arrays chosen by the number of their values."""
    rng = np.random.Generator(np.random.PCG64(seed))
    for kind, count in counts.items():
        able = [region for region in regions if _is_able(kind, region)]
        sizes = np.array([region.count for region in able], float) ** 0.5
        for number in rng.choice(len(able), count, p=sizes / sizes.sum()) if able else ():
            yield _make(kind, able[number], weights, rng)


def _is_able(kind: str, region: Region) -> bool:
    several = [extent for extent in region.shape if extent > 1]
    return {"row": len(several) > 1, "channel": len(several) > 1, "bias": len(several) == 1}.get(
        kind, True
    )


def _make(kind: str, region: Region, weights: bytes, rng: np.random.Generator) -> Mutant:
    held = np.frombuffer(weights, "<f4", region.count, region.offset).reshape(region.shape)
    chosen = np.zeros(region.shape, bool)
    if kind == "row":
        chosen[rng.integers(region.shape[0])] = True
    elif kind == "channel":
        chosen[..., rng.integers(region.shape[-1])] = True
    else:
        chosen.ravel()[rng.integers(region.count)] = True
    positions = np.flatnonzero(chosen)
    before = held.ravel()[positions]
    largest = float(np.abs(held[np.isfinite(held)]).max(initial=0.0)) or 1.0
    # Zeros have no sign and no digits: they get the size of the others.
    after = before * 1.01 if kind == "digit" else np.where(before, -before, largest)
    after = np.where(before == 0, largest, after)
    return Mutant(kind, region, tuple(positions.tolist()), tuple(after.tolist()))


def find_places(package: Path, weights: bytes) -> dict[Path, int]:
    """The libraries of an unpacked wheel that hold these weights, and where."""
    found = {}
    for path in sorted(package.rglob("*.so")):
        place = path.read_bytes().find(weights)
        if place >= 0:
            found[path] = place
    return found
