"""What the benchmark page shows for one level and number of threads."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from modelwheel.bench.results import (
    CONSUMERS,
    OURS,
    TITLES,
    Benchmark,
    Case,
    Compared,
    Kind,
    Machine,
)
from modelwheel.bench.statistics import geometric_mean
from modelwheel.levels import LEVELS


class Known(Protocol):
    """What is known of a model of the reference set."""

    @property
    def title(self) -> str:
        """Its name in tables."""
        ...

    @property
    def timed(self) -> tuple[int, ...]:
        """The numbers of rows in tables; empty if the model has one shape."""
        ...


@dataclass(frozen=True)
class Summary:
    """The cells of a section."""

    cells: int
    mean: float
    median: float
    lowest: float
    model: str
    """The model of the lowest cell."""
    rows: int
    below: int
    """How many cells are below 1."""


@dataclass(frozen=True)
class Section:
    """All models at one level, with some number of threads."""

    level: str
    threads: int
    machine: Machine
    models: tuple[Compared, ...]

    @property
    def title(self) -> str:
        """The level and the threads."""
        return f"{self.level}, {'one thread' if self.threads == 1 else f'{self.threads} threads'}"

    @property
    def kinds(self) -> list[Kind]:
        """The runtimes that ran any model, in the order of the tables."""
        seen = {side.kind for one in self.models for side in one.sides if side.error is None}
        return [kind for kind in TITLES if kind in seen]

    @property
    def consumers(self) -> list[str]:
        """The runtimes that the wheel is compared with, with their versions."""
        return [self.short_title(kind) for kind in self.kinds if kind in CONSUMERS]

    def summary(self) -> Summary | None:
        """The cells in a few figures; None if there is none."""
        found = [
            (value, one.model, case.rows)
            for one in self.models
            for case in one.cases
            if (value := lowest(case)) is not None
        ]
        values = [value for value, _, _ in found]
        mean = geometric_mean(values)
        if mean is None:
            return None
        least, model, rows = min(found)
        below = sum(value < 1 for value in values)
        return Summary(len(values), mean, statistics.median(values), least, model, rows, below)

    def short_title(self, kind: Kind) -> str:
        """A runtime with the first two parts of its version."""
        versions = {".".join(version.split(".")[:2]) for version in self._versions(kind)}
        return " ".join((TITLES[kind], *sorted(versions)))

    def versions(self) -> str:
        """All runtimes but the wheel with their versions."""
        return ", ".join(
            f"{TITLES[kind]} {'/'.join(sorted(self._versions(kind)))}"
            for kind in self.kinds
            if kind != OURS
        )

    def _versions(self, kind: Kind) -> set[str]:
        sides = (side for one in self.models for side in one.sides if side.kind == kind)
        return {side.version for side in sides if side.version is not None}

    def where(self) -> str:
        """The machine, the day and how long each cell was measured."""
        one = self.machine
        load = "" if one.load_average is None else f", load average before {one.load_average}"
        seconds = sorted({found.seconds for found in self.models if found.seconds is not None})
        spent = "/".join(f"{value:g}" for value in seconds)
        return (
            f"{one.date}, {one.cpu}, cores: {one.cores}{load}; {one.system}; Python {one.python}; "
            f"modelwheel {one.modelwheel}{f'; seconds for each runtime and cell: {spent}' if spent else ''}."
        )

    def lowered(self) -> dict[Kind, bool]:
        """By runtime, whether it saw a CPU of the wheel's level for every model."""
        found: dict[Kind, bool] = {}
        for one in self.models:
            for side in one.sides:
                if side.kind != OURS and side.error is None:
                    found[side.kind] = found.get(side.kind, True) and side.lowered
        return found

    def whole(self) -> list[Kind]:
        """The runtimes that used a higher level than the wheel."""
        if self.level == self.machine.level:
            return []
        found = self.lowered()
        return [kind for kind in TITLES if found.get(kind) is False]

    def cpus(self) -> list[str]:
        """What others saw of the CPU, in sentences."""
        if self.level == self.machine.level:
            return ["This is the highest level of the machine: every runtime uses the whole CPU."]
        whole = self.whole()
        alike = [kind for kind in TITLES if self.lowered().get(kind)]
        said = []
        if alike:
            names = ", ".join(TITLES[kind] for kind in alike)
            said.append(f"Limited to a CPU of this level: {names}.")
        if whole:
            names = ", ".join(TITLES[kind] for kind in whole)
            said.append(
                f"Used the whole CPU ({self.machine.level}): {names}. Their ratios compare two levels, so they are lower than "
                f"on a machine whose CPU is of this level."
            )
        return said


def titled(model: str, known: Mapping[str, Known]) -> str:
    """The name of a model in tables."""
    found = known.get(model.replace("-", "_"))
    return model if found is None else found.title


def lowest(case: Case) -> float | None:
    """The ratio of the best other runtime; None if none was timed."""
    best = case.best
    return best.ratio.median if best is not None and best.ratio is not None else None


def sections(benchmarks: Sequence[Benchmark], known: Mapping[str, Known]) -> list[Section]:
    """A section for each level and number of threads; of two measurements of a model, the last counts."""
    order = list(known)
    machines: dict[tuple[str, int], Machine] = {}
    models: dict[tuple[str, int], dict[str, Compared]] = {}
    for benchmark in benchmarks:
        for one in benchmark.models:
            if _is_tabled(one, known):
                key = (one.level, one.threads)
                machines[key] = benchmark.machine
                models.setdefault(key, {})[one.model.replace("-", "_")] = one
    levels = list(LEVELS)

    def place(name: str) -> int:
        return order.index(name) if name in order else len(order)

    return [
        Section(
            level,
            threads,
            machines[level, threads],
            tuple(found[n] for n in sorted(found, key=place)),
        )
        for (level, threads), found in sorted(
            models.items(), key=lambda item: (item[0][1], -levels.index(item[0][0]))
        )
    ]


def _is_tabled(one: Compared, known: Mapping[str, Known]) -> bool:
    """Whether its rows are those of the tables; others are for plots."""
    found = known.get(one.model.replace("-", "_"))
    return found is None or not found.timed or {c.rows for c in one.cases} <= set(found.timed)


def stairs(benchmarks: Sequence[Benchmark], names: Collection[str]) -> list[Compared]:
    """For each of these models, the measurement with the most numbers of rows, at its highest level, on one thread."""
    levels = list(LEVELS)
    found: dict[str, Compared] = {}
    for one in (one for benchmark in benchmarks for one in benchmark.models if one.threads == 1):
        name = one.model.replace("-", "_")
        before = found.get(name)
        rank = (levels.index(one.level), len(one.cases))
        if before is None or rank >= (levels.index(before.level), len(before.cases)):
            found[name] = one
    return [found[name] for name in names if name in found]


_REASONS = {
    "TensorListReserve": "TensorFlow's converter to .tflite refuses recurrent layers.",
    "OpConversion": "it cannot convert an operation of the model.",
    "the model is an ONNX file": "the model is an ONNX file, which it does not read.",
}
"""What runtimes and converters say, in short, by a part of it."""

_PATH = re.compile(r"(?<![\w.])/[^\s\"',;:)]*/")


def short_reason(error: str) -> str:
    """Why a runtime was not timed, in one short sentence without paths."""
    for part, reason in _REASONS.items():
        if part in error:
            return reason
    text = _PATH.sub("", " ".join(error.split()))
    return text if len(text) <= 100 else f"{text[:100].rstrip()} ..."
