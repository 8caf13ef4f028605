"""What is to be built: a spec, narrowed by the command line, and all that follows from these two."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import SpecError, UsageError
from .levels import LEVELS, Level
from .platforms import PLATFORMS, Platform, host_platform
from .source import fetch as source
from .spec import ArchiveSource, BatchRule, DirectorySource, GitSource, Spec
from .spec.reading.problems import did_you_mean
from .spec.sources import is_local

DEFAULT_BATCH_SIZES = (1,)
"""Where a spec names none; for a signature without batch axis, 1 is the whole evaluation."""


@dataclass(frozen=True)
class Request:
    """One spec to be built; see `make_request`."""

    spec: Spec
    platforms: tuple[Platform, ...]
    levels: tuple[Level, ...]
    """Of all platforms' architectures, lowest first within each."""
    batch_sizes: tuple[int, ...]
    """Ascending."""

    @property
    def name(self) -> str:
        """`digits-1.0.0`, with which the names of all steps begin."""
        return f"{self.spec.model.name}-{self.spec.model.version}"

    def levels_of(self, platform: Platform) -> tuple[Level, ...]:
        """The CPU levels of one platform, lowest first."""
        return tuple(t for t in self.levels if t.architecture == platform.architecture)

    @property
    def variants(self) -> tuple[tuple[Platform, Level, int], ...]:
        """Everything to be compiled: platform, CPU level and batch size."""
        return tuple(
            (platform, level, size)
            for platform in self.platforms
            for level in self.levels_of(platform)
            for size in self.batch_sizes
        )

    @property
    def shapes(self) -> dict[str, tuple[int | None, ...]]:
        """Input shapes that the spec fixes."""
        return {name: section.shape for name, section in self.spec.inputs.items()}

    @property
    def rules(self) -> tuple[BatchRule, ...]:
        """The spec's batch rules, but for those whose sizes the command line left out."""
        rules = self.spec.batching.rules
        return tuple(rule for rule in rules if set(rule.sizes) <= set(self.batch_sizes))


def make_request(
    spec: Spec,
    targets: Sequence[str] = (),
    batch_sizes: Collection[int] = (),
    platforms: Sequence[str] | None = None,
) -> Request:
    """Checks a spec against what is on this machine and what the command line asks for.

    Args:
        spec: The spec.
        targets: Only these CPU levels; by default all of the spec's.
        batch_sizes: Only these batch sizes; by default all of the spec's.
        platforms: For these platforms; by default for the one of this machine. Empty: for all
            that have one of the spec's levels.

    Raises:
        SpecError: One of them is not among the spec's, or a file that the spec names is missing.
        UsageError: A platform is not known.
        EnvironmentProblemError: This machine's platform is asked for, and is not known.
    """
    sizes = spec.compilation.batch_sizes or DEFAULT_BATCH_SIZES
    _require_rules(spec, sizes)
    license_texts(spec)
    chosen = _choose_platforms(spec, platforms)
    levels = _choose_levels(spec, chosen, targets)
    return Request(spec, chosen, levels, _choose_sizes(spec, sizes, batch_sizes))


def _choose_platforms(spec: Spec, wanted: Sequence[str] | None) -> tuple[Platform, ...]:
    if wanted is None:
        return (host_platform(),)
    if not wanted:
        return tuple(p for p in PLATFORMS.values() if spec.resolve_levels(p.architecture))
    for name in wanted:
        if name not in PLATFORMS:
            raise UsageError(f"--platform {name}: {did_you_mean(name, PLATFORMS)}")
    return tuple(platform for name, platform in PLATFORMS.items() if name in wanted)


def _choose_levels(
    spec: Spec, platforms: Sequence[Platform], wanted: Sequence[str]
) -> tuple[Level, ...]:
    levels: dict[str, Level] = {}
    for platform in platforms:
        own = spec.resolve_levels(platform.architecture)
        if not own:
            raise SpecError(
                f"{spec.path}: targets: none of these CPU levels is one of {platform.name}, which has "
                f"{', '.join(t.name for t in LEVELS.values() if t.architecture == platform.architecture)}"
            )
        levels |= {level.name: level for level in own}
    for name in wanted:
        if name not in levels:
            raise SpecError(
                f"{spec.path}: there is no target {name!r} to build here. "
                + did_you_mean(name, levels)
            )
    return tuple(level for name, level in levels.items() if not wanted or name in wanted)


def _choose_sizes(spec: Spec, sizes: tuple[int, ...], wanted: Collection[int]) -> tuple[int, ...]:
    for size in wanted:
        if size not in sizes:
            raise SpecError(
                f"{spec.path}: batch size {size} is not among those of this spec: "
                f"{', '.join(map(str, sizes))}"
            )
    return tuple(size for size in sizes if not wanted or size in wanted)


def _require_rules(spec: Spec, sizes: tuple[int, ...]) -> None:
    """The spec itself has checked its rules if it names batch sizes."""
    for found in spec.batching.find_uncompiled(sizes):
        raise SpecError(f"{spec.path}: batching.rules: {found.wrong}. {found.remedy}")


def license_texts(spec: Spec) -> dict[str, Path]:
    """The licence texts that a spec names, by the name that each gets in the wheel.

    Raises:
        SpecError: One is missing, or two have the same name.
    """
    texts: dict[str, Path] = {}
    for name in spec.package.license_files:
        path = spec.directory / name
        if not path.is_file():
            raise SpecError(
                f"{spec.path}: package.license_files: there is no file {name!r} beside the spec"
            )
        if texts.setdefault(path.name, path) != path:
            raise SpecError(
                f"{spec.path}: package.license_files: two files are called {path.name!r}; "
                "rename one, for they lie side by side in the wheel"
            )
    return texts


def source_of(spec: Spec) -> source.Source:
    """Where a spec's model comes from, with paths made absolute."""
    if spec.source is None:
        return source.DirectorySource(spec.directory / spec.model.saved_model)
    return locate(spec.source, spec.directory)


def locate(section: GitSource | ArchiveSource | DirectorySource, directory: Path) -> source.Source:
    """Where the model of a `source` section comes from; paths in it are relative to `directory`."""
    match section:
        case GitSource() as git:
            written = git.git if is_local(git.git) else ""
            address = git.address(directory)
            return source.GitSource(address, git.commit, git.path, git.sha256, written)
        case ArchiveSource() as archive:
            return source.ArchiveSource(archive.archive, archive.sha256, archive.path)
        case DirectorySource() as local:
            return source.DirectorySource(directory / local.directory, local.sha256)
