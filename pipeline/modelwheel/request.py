"""A request for a build: a spec, narrowed by the command line, and everything that follows from both."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from .errors import SpecError, UsageError
from .levels import LEVELS, Level
from .platforms import PLATFORMS, Platform, host_platform
from .spec import BatchRule, Spec
from .spec.levels import suggest_level
from .spec.sources import AnySource
from .spec.tune_lock import NOT_TUNED, TuneLock, read_lock
from .spec.verification import COMPARED_ROWS
from .util.words import suggest

SMALLEST_BATCH = (1,)
"""The batch sizes where nothing says more. For a signature without a batch axis, 1 is the whole evaluation."""

DEFAULT_BATCH_SIZES = (1, 4, 16, 64)
"""Those that a model without any in its spec may be compiled for; see `modelwheel.assembly.batch_sizes`."""


class Extent(NamedTuple):
    """The rows and length that a graph is frozen for, and code is compiled for at each CPU level."""

    batch: int
    length: int | None = None
    """Of the axes with buckets; None if the model has none."""

    def __str__(self) -> str:
        """In names of steps, functions and files: `b4`, `b4_n16`."""
        return f"b{self.batch}" if self.length is None else f"b{self.batch}_n{self.length}"


@dataclass(frozen=True)
class Request:
    """One spec to be built; see `make_request`."""

    spec: Spec
    platforms: tuple[Platform, ...]
    levels: tuple[Level, ...]
    """Of all platforms' architectures, lowest first within each."""
    batch_sizes: tuple[int, ...]
    """Ascending. If they are decided by the model, only 1 until that is done."""
    sizes_by_model: bool = False
    """Whether they are decided by the model: the spec names none."""
    tuned: TuneLock = NOT_TUNED
    """What was measured for the spec."""
    default_rows: int = COMPARED_ROWS
    """How many rows are compared if the spec does not say it."""

    def holding(self, file: str) -> Request:
        """This request, the directory of whose model holds it in this file; see `FetchedModel.file`."""
        return replace(self, spec=self.spec.holding(file)) if file else self

    def with_sizes(self, sizes: Sequence[int]) -> Request:
        """This request for other batch sizes, which the model does not decide."""
        return replace(self, batch_sizes=tuple(sizes), sizes_by_model=False)

    @property
    def compared_rows(self) -> int:
        """How many rows are compared, beside those of the batch sizes."""
        return self.spec.verify.rows or self.default_rows

    @cached_property
    def origin(self) -> AnySource:
        """`Spec.origin`, for which the disk is looked at once."""
        return self.spec.origin

    @property
    def name(self) -> str:
        """`digits-1.0.0`, with which the names of all steps begin."""
        return f"{self.spec.model.name}-{self.spec.model.version}"

    def levels_of(self, platform: Platform) -> tuple[Level, ...]:
        """The CPU levels of one platform, lowest first."""
        return tuple(t for t in self.levels if t.architecture == platform.architecture)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the axes with buckets, ascending; empty if the spec has none."""
        axes = (axis for section in self.spec.inputs.values() for axis in section.buckets.values())
        return next((axis.buckets for axis in axes), ())

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Everything to be frozen: by ascending length, and for each by ascending batch size."""
        lengths = self.lengths or (None,)
        return tuple(Extent(size, length) for length in lengths for size in self.batch_sizes)

    @property
    def variants(self) -> tuple[tuple[Platform, Level, Extent], ...]:
        """Everything to be compiled: platform, CPU level, and batch size and length."""
        return tuple(
            (platform, level, extent)
            for platform in self.platforms
            for level in self.levels_of(platform)
            for extent in self.extents
        )

    @property
    def shapes(self) -> dict[str, tuple[int | None, ...]]:
        """Input shapes that the spec fixes, with the largest length."""
        return self.shapes_at(max(self.lengths, default=None))

    def shapes_at(self, length: int | None) -> dict[str, tuple[int | None, ...]]:
        """Input shapes that the spec fixes, with this length on the axes with buckets."""
        return {name: section.shape_at(length) for name, section in self.spec.inputs.items()}

    @property
    def rules(self) -> tuple[BatchRule, ...]:
        """The spec's batch rules, without those whose sizes the command line left out."""
        rules = self.spec.batching.rules
        return tuple(rule for rule in rules if set(rule.sizes) <= set(self.batch_sizes))


def make_request(
    spec: Spec,
    levels: Sequence[str] = (),
    batch_sizes: Collection[int] = (),
    platforms: Sequence[str] | None = None,
    allowed: Collection[str] = PLATFORMS,
) -> Request:
    """Narrows a spec to what the command line asks for.

    Args:
        spec: The spec.
        levels: Only these CPU levels; by default all of the spec's.
        batch_sizes: Only these batch sizes; by default all of the spec's.
        platforms: For these platforms; by default for the one of this machine. Empty: for all
            of `allowed` that have one of the levels.
        allowed: What `[build] platforms` in modelwheel.toml leaves of all platforms.

    Raises:
        SpecError: A level or batch size is not in the spec, the spec has none for a platform, or the file of
            what was measured for it is malformed.
        UsageError: A platform or level is unknown, a platform has none of `levels`, or none of `allowed` has a
            level of the spec.
        EnvironmentProblemError: The platform of this machine is needed and is not supported.
    """
    _require_rules(spec, spec.compilation.batch_sizes or SMALLEST_BATCH)
    _require_known_levels(levels)
    asked = _choose_platforms(spec, platforms, allowed)
    chosen = _choose_levels(spec, asked, levels)
    architectures = {level.architecture for level in chosen}
    # If all platforms are meant, those without any of the levels are left out, not refused.
    if platforms is None or platforms:
        _require_levels_for_each(asked, architectures, levels)
    return Request(
        spec,
        tuple(platform for platform in asked if platform.architecture in architectures),
        chosen,
        _choose_sizes(spec, batch_sizes),
        _leaves_sizes(spec) and not batch_sizes,
        read_lock(spec),
    )


def _choose_platforms(
    spec: Spec, wanted: Sequence[str] | None, allowed: Collection[str]
) -> tuple[Platform, ...]:
    if wanted is None:
        return (host_platform(),)
    if not wanted:
        left = [platform for name, platform in PLATFORMS.items() if name in allowed]
        buildable = tuple(p for p in left if spec.resolve_levels(p.architecture))
        if not buildable:
            raise UsageError(
                f"there is nothing to build: {spec.path} has no CPU levels of "
                f"{' or '.join(p.name for p in left)}; check `targets`, and [build] platforms in modelwheel.toml",
                code="MW204",
            )
        return buildable
    for name in wanted:
        if name not in PLATFORMS:
            known = ", ".join(PLATFORMS)
            raise UsageError(
                f"--platform: unknown platform {name!r}; choose from {known}", code="MW204"
            )
    return tuple(platform for name, platform in PLATFORMS.items() if name in wanted)


def _require_known_levels(names: Sequence[str]) -> None:
    for name in names:
        if name not in LEVELS:
            raise UsageError(
                f"--level: unknown CPU level {name!r}; {suggest_level(name)}", code="MW204"
            )


def _choose_levels(
    spec: Spec, platforms: Sequence[Platform], wanted: Sequence[str]
) -> tuple[Level, ...]:
    levels: dict[str, Level] = {}
    for platform in platforms:
        own = spec.resolve_levels(platform.architecture)
        if not own:
            raise SpecError(
                f"{spec.path}: targets: none of these CPU levels belongs to {platform.name}; "
                f"its levels are: {_names_of(platform)}"
            )
        levels |= {level.name: level for level in own}
    for name in wanted:
        if name not in levels:
            where = ", ".join(platform.name for platform in platforms)
            raise UsageError(
                f"--level: {spec.path} is not compiled for {name!r} on {where}; "
                f"{suggest(name, levels)}",
                code="MW204",
            )
    return tuple(level for name, level in levels.items() if not wanted or name in wanted)


def _require_levels_for_each(
    platforms: Sequence[Platform], architectures: Collection[str], wanted: Sequence[str]
) -> None:
    for platform in platforms:
        if platform.architecture not in architectures:
            raise UsageError(
                f"--level {', '.join(wanted)} does not exist on {platform.name}; its levels are "
                f"{_names_of(platform)}",
                code="MW204",
            )


def _names_of(platform: Platform) -> str:
    levels = LEVELS.values()
    return ", ".join(level.name for level in levels if level.architecture == platform.architecture)


def _leaves_sizes(spec: Spec) -> bool:
    """Whether the batch sizes are left to the model. Calls with a state are not split; rules name the sizes that they use."""
    batching = spec.batching
    follows_costs = batching.emulate and batching.strategy == "cheapest" and not batching.rules
    return spec.compilation.batch_sizes is None and follows_costs and not spec.keep_state


def _choose_sizes(spec: Spec, wanted: Collection[int]) -> tuple[int, ...]:
    sizes = spec.compilation.batch_sizes or SMALLEST_BATCH
    if wanted and _leaves_sizes(spec):
        sizes = DEFAULT_BATCH_SIZES
    for size in wanted:
        if size not in sizes:
            raise UsageError(
                f"--batch-size: {size} is not a batch size of {spec.path}; "
                f"choose from {', '.join(map(str, sizes))}",
                code="MW204",
            )
    return tuple(size for size in sizes if not wanted or size in wanted)


def _require_rules(spec: Spec, sizes: tuple[int, ...]) -> None:
    """The spec itself has checked its rules if it names batch sizes."""
    for mistake in spec.batching.find_uncompiled(sizes):
        raise SpecError(f"{spec.path}: batching.rules: {mistake.wrong}. {mistake.hint}")
