"""Plans the jobs that build the wheels of a release: platforms x groups of Pythons x shards of specs.

The result is the value of GitHub's `strategy.matrix`. It depends only on the specs; no model is fetched.
"""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ..errors import UsageError
from ..platforms import PLATFORMS, PYTHONS, WHEEL_PLATFORMS, WheelPlatform
from ..request import DEFAULT_BATCH_SIZES
from ..spec import Spec
from ..util.records import as_json
from ..util.words import count, suggest

MAX_JOBS = 250
"""GitHub's limit for a matrix is 256 jobs; a few are left for jobs that a workflow adds by hand."""

MAX_OUTPUT_BYTES = 1 << 20
"""GitHub's limit for all outputs of a job; it counts UTF-16, two bytes for each character."""

JOB_SECONDS = 1200.0
"""The specs of a platform are divided among several jobs only above this: starting a job takes minutes."""

PYTHONS_PER_JOB = 4
"""The most interpreters that wheels of a spec are built for in one job."""


def _python_groups() -> dict[str, tuple[str, ...]]:
    groups = math.ceil(len(PYTHONS) / PYTHONS_PER_JOB)
    bounds = [len(PYTHONS) * number // groups for number in range(groups + 1)]
    parts = [PYTHONS[start:end] for start, end in pairwise(bounds)]
    with_gil = tuple(python for python in PYTHONS if not python.endswith("t"))
    return {**{f"{part[0]}-{part[-1]}": part for part in parts}, "py3": with_gil}


PYTHON_GROUPS = _python_groups()
"""Interpreters that one job is for, by the group's name (`cp310-cp313`).

`py3` is for specs with shared bindings: cibuildwheel builds their one wheel with the first
interpreter and tests it with the others.
"""


@dataclass(frozen=True)
class WheelJob:
    """One entry of the matrix. The names are short because there may be hundreds of entries."""

    name: str
    """The unique name of the job and its artifacts."""
    runner: str
    platform: str
    """The platform whose machine code in the source distributions is used."""
    build: str
    """Build identifiers of cibuildwheel, separated by blanks."""
    sdists: str
    """File names of model source distributions, separated by blanks."""

    def pick(self, sdists: Sequence[Path]) -> list[Path]:
        """The source distributions that the job builds, among some files.

        Raises:
            UsageError: One is missing.
        """
        files = {file.name: file for file in sdists}
        wanted = self.sdists.split()
        missing = [name for name in wanted if name not in files]
        if missing:
            raise UsageError(
                f"{missing[0]}, which the job {self.name} builds, is not among the "
                f"{count(len(files), 'source distribution')} given; pass all files of `modelwheel compile`"
            )
        return [files[name] for name in wanted]


@dataclass(frozen=True)
class _Cell:
    """The specs that are built for one platform and one group of Pythons."""

    platform: WheelPlatform
    group: str
    costs: Mapping[str, float]
    """Estimated seconds by source distribution."""

    def count_shards(self, seconds: float) -> int:
        """The number of jobs, each of about this many seconds; at most the number of specs."""
        return min(math.ceil(sum(self.costs.values()) / seconds), len(self.costs))


def plan_jobs(
    specs: Sequence[Spec], platforms: Sequence[str] = (), *, musllinux: bool = False
) -> list[WheelJob]:
    """Returns the jobs of a release. Each spec's wheels for a platform and a group of Pythons belong to
    exactly one job.

    Specs are distributed by the longest-processing-time-first rule, whose longest job takes at most 4/3 of
    the optimum (R. L. Graham, Bounds on Multiprocessing Timing Anomalies, SIAM J. Appl. Math. 17, 1969).

    Args:
        specs: The specs to release.
        platforms: Names of platforms; by default all for which a spec has CPU levels.
        musllinux: Whether to build musllinux wheels as well.

    Raises:
        UsageError: A platform is unknown, or there is nothing to build.
    """
    wanted = _wanted_platforms(platforms, musllinux=musllinux)
    cells = [cell for platform in wanted for cell in _cells(platform, specs)]
    if not cells:
        raise UsageError(
            "there is nothing to build: no spec has CPU levels of "
            f"{' or '.join(platform.name for platform in wanted)}; check `targets` in the specs"
        )
    # Longer jobs until they fit into the limit. Shards are rounded up, so there is no closed form.
    seconds = JOB_SECONDS
    while sum(cell.count_shards(seconds) for cell in cells) > MAX_JOBS:
        seconds *= 1.05
    return [job for cell in cells for job in _jobs(cell, cell.count_shards(seconds))]


def as_matrix(jobs: Sequence[WheelJob]) -> str:
    """The matrix as JSON on one line, for `fromJSON` in a workflow.

    Raises:
        UsageError: It exceeds GitHub's limit.
    """
    text = json.dumps({"include": as_json(jobs)}, separators=(",", ":"))
    # json.dumps escapes everything beyond ASCII, so a character is one unit of UTF-16.
    if 2 * len(text) > MAX_OUTPUT_BYTES:
        raise UsageError(
            f"the matrix has {len(text)} characters; GitHub's limit is {MAX_OUTPUT_BYTES // 2}. "
            "Release fewer specs at once"
        )
    return text


def read_job(text: str) -> WheelJob:
    """Parses one entry of a matrix, the value of `toJSON(matrix)` in a workflow.

    Raises:
        UsageError: The text is something else.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(WheelJob).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f"{where}: {first['msg']}" if where else first["msg"]
        raise UsageError(
            f"this is not a job of `modelwheel plan --github-matrix`: {said}"
        ) from None


def python_groups(spec: Spec) -> tuple[str, ...]:
    """The groups of Pythons that a spec's wheels are built for."""
    shared = spec.package.bindings == "shared"
    return tuple(name for name in PYTHON_GROUPS if (name == "py3") == shared)


def sdist_name(spec: Spec) -> str:
    """The file name of a spec's model source distribution."""
    return f"{spec.module}-{spec.model.version}.tar.gz"


def _wanted_platforms(names: Sequence[str], *, musllinux: bool) -> list[WheelPlatform]:
    for name in names:
        if name not in PLATFORMS:
            raise UsageError(f"unknown platform {name!r}; {suggest(name, PLATFORMS)}")
    return [
        platform
        for platform in WHEEL_PLATFORMS.values()
        if (not names or platform.objects.name in names)
        and (musllinux or not platform.name.startswith("musllinux"))
    ]


def _cells(platform: WheelPlatform, specs: Sequence[Spec]) -> Iterator[_Cell]:
    for group, pythons in PYTHON_GROUPS.items():
        costs = {
            sdist_name(spec): cost * len(pythons)
            for spec in specs
            if group in python_groups(spec) and (cost := _wheel_seconds(spec, platform))
        }
        if costs:
            yield _Cell(platform, group, costs)


def _wheel_seconds(spec: Spec, platform: WheelPlatform) -> float:
    """A rough estimate for building and testing one wheel; 0 if the spec has no level of the platform."""
    levels = len(spec.resolve_levels(platform.objects.architecture))
    if not levels:
        return 0.0
    sizes = len(spec.compilation.batch_sizes or DEFAULT_BATCH_SIZES)
    # Environment, binding and tests; then the runtime for each level, and a program for each of its batch sizes.
    return platform.slowness * (30.0 + levels * (3.0 + sizes))


def _jobs(cell: _Cell, shards: int) -> Iterator[WheelJob]:
    build = " ".join(
        f"{python}-{cell.platform.cibuildwheel}" for python in PYTHON_GROUPS[cell.group]
    )
    for number, sdists in enumerate(_spread(cell.costs, shards), 1):
        yield WheelJob(
            name=f"{cell.platform.name}-{cell.group}-{number}",
            runner=cell.platform.runner,
            platform=cell.platform.objects.name,
            build=build,
            sdists=" ".join(sorted(sdists)),
        )


def _spread(costs: Mapping[str, float], shards: int) -> list[list[str]]:
    """Divides the names into `shards` lists of about the same cost, none of them empty."""
    # A heap of (load, shard): the next longest spec goes to the shard with the smallest load. Ties are
    # broken by name, so the order of the specs does not matter.
    loads = [(0.0, shard) for shard in range(shards)]
    spread: list[list[str]] = [[] for _ in range(shards)]
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        load, shard = loads[0]
        spread[shard].append(name)
        heapq.heapreplace(loads, (load + costs[name], shard))
    return spread
