"""`modelwheel tune`: measures batch sizes and flags of XLA here, and proposes batch sizes for a workload."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..assembly.manifest import Manifest
from ..assembly.splits import Cost, Costs, costs_of, first_sizes, lowest_times, times
from ..engine.build import BuildOptions, build
from ..engine.programs import stored_records
from ..engine.reporting import Reporter
from ..engine.steps.model import compile_name
from ..errors import UsageError
from ..levels import LEVELS, Level, cpu_name
from ..limits import Limits
from ..platforms import host_platform
from ..request import Request
from ..sandbox.choose import Sandbox
from ..spec.flags import flag_name
from ..spec.tune_lock import TuneLock, write_lock
from ..store.store import Store
from ..util.records import JsonRecord
from ..util.watching import step
from ..verify.environment import InstalledWheel, install_wheel
from ..wheelfile.wheel import open_wheel
from ..workers.jobs import KERNELS
from .repeat import Measure, Repeated, repeat
from .statistics import Spread, geometric_mean
from .workload import Workload, candidates, expected_time, propose

_SECONDS = 0.1
"""For each batch size in each round."""

WORTH = 1.03
"""A flag is taken if it makes the model quicker by 3 %."""

_FLAGS = ("--xla_llvm_disable_expensive_passes=true", "--xla_backend_optimization_level=2")
"""Flags that are tried at every level. They change how arithmetic is compiled, not which."""


class Trial(JsonRecord):
    """A flag of XLA that was tried."""

    flag: str
    gain: float
    """How many times as long the code without it takes: the geometric mean over the batch sizes."""
    taken: bool


class TunedLevel(JsonRecord):
    """One CPU level, before and after; times are nanoseconds of a run by batch size."""

    before: dict[int, float]
    measured_before: bool
    """Whether these came from a lock file; a build estimates them otherwise."""
    after: dict[int, Spread]
    trials: tuple[Trial, ...] = ()
    flags: tuple[str, ...] = ()
    rows: int
    """The numbers of rows up to this one were compared."""
    changed: int
    """How many of them are split in another way, at less cost."""
    best_gain: float
    """How many times as long the old split of one of them takes, at most."""


class Tuned(JsonRecord):
    """The measurements of `modelwheel tune` for a spec."""

    model: str
    cpu: str
    lock: Path
    levels: dict[str, TunedLevel]


class Proposal(JsonRecord):
    """Batch sizes for a workload; times are nanoseconds."""

    model: str
    cpu: str
    level: str
    costs: dict[int, Spread]
    """Of one run, by candidate."""
    partial: dict[int, float]
    """The part of it that grows with the rows that a run computes."""
    code: dict[int, int]
    """Bytes of XLA's machine code, by candidate."""
    current: tuple[int, ...]
    proposed: tuple[int, ...]
    current_time: float
    """The mean of a call of the workload."""
    proposed_time: float

    def costs_of(self, sizes: Sequence[int]) -> Costs:
        """The medians of some candidates."""
        return {size: Cost(self.costs[size].median, self.partial[size]) for size in sizes}


@dataclass
class Tuner:
    """Builds and measures in a directory that is removed later."""

    store: Store
    sandbox: Sandbox
    reporter: Reporter
    limits: Limits
    scratch: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def build(self, request: Request) -> _Wheel:
        """Builds and installs a wheel.

        Raises:
            ModelwheelError: It cannot be built.
        """
        work = self.scratch / str(next(self._numbers))
        work.mkdir()
        options = BuildOptions(work / "dist", self.sandbox, limits=self.limits)
        (result,) = build([request], self.store, options, self.reporter)
        for _, error in result.errors:
            raise error
        assert result.wheel is not None
        assert result.report is not None
        manifest = open_wheel(result.wheel).manifest
        module = manifest.model.module
        installed = install_wheel(result.wheel, module, work, self.sandbox, result.needed)
        levels = [LEVELS[name] for name in manifest.levels if name not in result.report.skipped]
        return _Wheel(manifest, installed, levels)


@dataclass(frozen=True)
class _Wheel:
    manifest: Manifest
    installed: InstalledWheel
    levels: Sequence[Level]
    """Those that run here, lowest first."""

    @property
    def unsplit_reason(self) -> str | None:
        """Why rows are never split into batch sizes; None if they are."""
        batched = self.manifest.signature.batched
        return self.manifest.batching.no_emulation_reason or (
            None if batched else "it has no batch axis"
        )

    def costs(self, level: Level) -> Costs:
        """The costs that the wheel itself assumes."""
        return costs_of(self.manifest.variants, level.name)

    def measure(self, level: Level) -> Measure:
        """A function that measures every batch size, without the cost of a call from Python."""

        def once() -> dict[int, float]:
            # A call with 0 rows runs no program. Models that refuse other batch sizes refuse this one, too.
            call = 0.0 if self.unsplit_reason else self._bench(level, "--batch", "0")[0]
            # At least 1 ns: the lock file holds positive numbers only.
            return {size: max(time - call, 1.0) for size, time in self._bench(level).items()}

        return once

    def _bench(self, level: Level, *options: str) -> dict[int, float]:
        timings = self.installed.bench("--level", level.name, "--seconds", str(_SECONDS), *options)
        return {timing.rows: timing.nanoseconds for timing in timings}


def tune_spec(request: Request, tuner: Tuner, *, flags: bool) -> Tuned:
    """Writes the lock file of a spec, with every CPU level that runs here.

    Args:
        request: The spec.
        tuner: Where to build and measure.
        flags: Whether to try flags of XLA, too; otherwise those of an older lock file stay.

    Raises:
        UsageError: Nothing could change.
        ModelwheelError: A wheel could not be built or run; the lock file is unchanged.
    """
    wheel = tuner.build(request)
    if wheel.unsplit_reason and not flags:
        raise UsageError(
            f"{request.spec.path}: there is nothing to tune: rows are never split ({wheel.unsplit_reason}); "
            "with --flags, flags of XLA are tried"
        )
    before = {level.name: wheel.costs(level) for level in wheel.levels}
    tuned, trials = request.tuned, dict[str, tuple[Trial, ...]]()
    if flags:
        chosen = dict(tuned.xla_flags)
        for level in wheel.levels:
            trials[level.name], chosen[level.name] = _search(request, tuner, level)
        tuned = tuned.model_copy(update={"xla_flags": chosen})
        wheel = tuner.build(replace(request, tuned=tuned))
    with step(f"{request.name}/measure", tuner.reporter):
        after = repeat([wheel.measure(level) for level in wheel.levels])
    nanoseconds = {
        level.name: {size: round(spread.median, 1) for size, spread in side.spreads.items()}
        for level, side in zip(wheel.levels, after, strict=True)
    }
    levels = {
        level.name: _compare(
            before[level.name],
            side,
            measured_before=_wholes(before[level.name])
            == request.tuned.nanoseconds.get(level.name),
            trials=trials.get(level.name, ()),
            flags=tuned.xla_flags.get(level.name, ()),
        )
        for level, side in zip(wheel.levels, after, strict=True)
    }
    lock = TuneLock(cpu=cpu_name(), nanoseconds=nanoseconds, xla_flags=tuned.xla_flags)
    path = write_lock(request.spec.path, lock)
    return Tuned(model=request.name, cpu=lock.cpu, lock=path, levels=levels)


def _compare(
    before: Costs,
    after: Repeated,
    *,
    measured_before: bool,
    trials: tuple[Trial, ...],
    flags: tuple[str, ...],
) -> TunedLevel:
    spreads = after.spreads
    costs = {size: Cost(one.median, before[size].partial) for size, one in spreads.items()}
    rows = 2 * max(costs)
    # What the old splits take now, by what was measured.
    old = times(first_sizes(before, rows), costs)
    new = lowest_times(costs, rows)
    gains = [was / now for was, now in zip(old[1:], new[1:], strict=True)]
    return TunedLevel(
        before=_wholes(before),
        measured_before=measured_before,
        after=spreads,
        trials=trials,
        flags=flags,
        rows=rows,
        changed=sum(gain > 1.0001 for gain in gains),
        best_gain=max(gains),
    )


def _wholes(costs: Costs) -> dict[int, float]:
    return {size: cost.whole for size, cost in costs.items()}


def _flags_to_try(level: Level) -> Iterator[str]:
    if level.vector_bytes > 16:
        # Half as wide: less is left over at the ends, and some CPUs are clocked higher.
        yield f"--xla_cpu_prefer_vector_width={level.vector_bytes * 8 // 2}"
    yield from _FLAGS


def _search(
    request: Request, tuner: Tuner, level: Level
) -> tuple[tuple[Trial, ...], tuple[str, ...]]:
    """The flags that were tried at a level, and those that are worth it together."""
    own = {flag_name(flag) for flag in request.spec.xla_flags()}
    trials: list[Trial] = []
    chosen: tuple[str, ...] = ()
    best = tuner.build(_with_flags(request, level, chosen))
    for flag in _flags_to_try(level):
        if flag_name(flag) in own:
            continue
        trial_flags = (*chosen, flag)
        wheel = tuner.build(_with_flags(request, level, trial_flags))
        with step(f"{request.name}/{level.name}/measure {flag}", tuner.reporter):
            without, with_flag = repeat([best.measure(level), wheel.measure(level)])
        ratios = without.over(with_flag).values()
        gain = geometric_mean(ratio.median for ratio in ratios) or 1.0
        # Also in the slower half of the rounds: chance must not decide.
        least = geometric_mean(ratio.low for ratio in ratios) or 1.0
        taken = gain >= WORTH and least > 1
        trials.append(Trial(flag=flag, gain=round(gain, 3), taken=taken))
        if taken:
            chosen, best = trial_flags, wheel
    return tuple(trials), chosen


def _with_flags(request: Request, level: Level, flags: tuple[str, ...]) -> Request:
    """A request for one level of this machine with these flags and no others."""
    tuned = request.tuned.model_copy(update={"xla_flags": {level.name: flags}})
    return replace(request, levels=(level,), tuned=tuned)


def propose_sizes(
    request: Request, tuner: Tuner, workload: Workload, budget: int | None
) -> Proposal:
    """Measures batch sizes at the highest level that runs here, and chooses those for a workload.

    Args:
        request: The spec.
        tuner: Where to build and measure.
        workload: How often each number of rows is called.
        budget: The most bytes of XLA's machine code at one level; None for no limit.

    Raises:
        UsageError: Rows cannot be split, or nothing fits the budget.
        ModelwheelError: A wheel could not be built or run.
    """
    current = tuner.build(request)
    if current.unsplit_reason:
        raise UsageError(
            f"--workload: {request.spec.path}: batch sizes cannot be chosen: rows are never split "
            f"({current.unsplit_reason})"
        )
    level = current.levels[-1]
    # The sizes of a spec that names none are known now.
    request = request.with_sizes(sorted(current.costs(level)))
    sizes = candidates(workload, request.batch_sizes)
    wider = replace(request.with_sizes(sizes), levels=(level,))
    candidate = tuner.build(wider)
    with step(f"{request.name}/measure", tuner.reporter):
        (measured,) = repeat([candidate.measure(level)])
    costs = measured.spreads
    partial = {size: cost.partial for size, cost in candidate.costs(level).items()}
    medians = {size: Cost(spread.median, partial[size]) for size, spread in costs.items()}
    code = _code_sizes(wider, tuner.store, level)
    proposed = propose(medians, code, workload, budget)
    return Proposal(
        model=request.name,
        cpu=cpu_name(),
        level=level.name,
        costs=costs,
        partial=partial,
        code=code,
        current=request.batch_sizes,
        proposed=proposed,
        current_time=expected_time({s: medians[s] for s in request.batch_sizes}, workload),
        proposed_time=expected_time({s: medians[s] for s in proposed}, workload),
    )


def _code_sizes(request: Request, store: Store, level: Level) -> dict[int, int]:
    """Bytes of the objects that XLA compiled, by batch size; for a model with lengths, of all of them."""
    records = stored_records(request, store)
    sizes = dict.fromkeys(request.batch_sizes, 0)
    for extent in request.extents:
        name = compile_name(request, host_platform(), level, extent)
        sizes[extent.batch] += records[name].files[KERNELS].size
    return sizes
