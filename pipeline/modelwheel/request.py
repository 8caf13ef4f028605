"""What is to be built: a spec, narrowed by the command line, and all that follows from these two."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import source
from .compile import xla_flags
from .errors import SpecError
from .jobs import Flags
from .spec import ArchiveSource, BatchRule, DirectorySource, GitSource, Spec
from .spec.problems import did_you_mean
from .spec.sources import is_local
from .targets import Target, host_targets

DEFAULT_BATCH_SIZES = (1,)
"""Where a spec names none; for a signature without batch axis, 1 is the whole evaluation."""


@dataclass(frozen=True)
class Request:
    """One spec to be built; see `make_request`."""

    spec: Spec
    targets: tuple[Target, ...]
    """Lowest first."""
    batch_sizes: tuple[int, ...]
    """Ascending."""

    @property
    def name(self) -> str:
        """`digits-1.0.0`, with which the names of all steps begin."""
        return f"{self.spec.model.name}-{self.spec.model.version}"

    @property
    def shapes(self) -> dict[str, tuple[int | None, ...]]:
        """Input shapes that the spec fixes."""
        return {name: section.shape for name, section in self.spec.inputs.items()}

    @property
    def rules(self) -> tuple[BatchRule, ...]:
        """The spec's batch rules, but for those whose sizes the command line left out."""
        rules = self.spec.batching.rules
        return tuple(rule for rule in rules if set(rule.sizes) <= set(self.batch_sizes))

    def flags(self, target: Target) -> Flags:
        """The compiler flags of one CPU level."""
        tf_xla = self.spec.compilation.tf_xla_flags
        return Flags(xla=xla_flags(target, self.spec.xla_flags()), tf_xla=tf_xla)


def make_request(
    spec: Spec, targets: Sequence[str] = (), batch_sizes: Collection[int] = ()
) -> Request:
    """Checks a spec against what is on this machine and what the command line narrows.

    Args:
        spec: The spec.
        targets: Only these CPU levels; by default all of the spec's that this machine can link.
        batch_sizes: Only these batch sizes; by default all of the spec's.

    Raises:
        SpecError: One of them is not among the spec's, or a file that the spec names is missing.
    """
    sizes = spec.compilation.batch_sizes or DEFAULT_BATCH_SIZES
    _require_rules(spec, sizes)
    license_texts(spec)
    return Request(spec, _choose_targets(spec, targets), _choose_sizes(spec, sizes, batch_sizes))


def _choose_targets(spec: Spec, wanted: Sequence[str]) -> tuple[Target, ...]:
    host = {target.name for target in host_targets()}
    own = [target for target in spec.resolve_targets() if target.name in host]
    if not own:
        raise SpecError(
            f"{spec.path}: targets: none of these CPU levels is of this machine's architecture, "
            f"which has {', '.join(sorted(host))}"
        )
    names = [target.name for target in own]
    for name in wanted:
        if name not in names:
            raise SpecError(
                f"{spec.path}: there is no target {name!r} to build here. "
                + did_you_mean(name, names)
            )
    return tuple(target for target in own if not wanted or target.name in wanted)


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
    match spec.source:
        case GitSource() as git:
            written = git.git if is_local(git.git) else ""
            address = git.address(spec.directory)
            return source.GitSource(address, git.commit, git.path, git.sha256, written)
        case ArchiveSource() as archive:
            return source.ArchiveSource(archive.archive, archive.sha256, archive.path)
        case DirectorySource() as directory:
            return source.DirectorySource(spec.directory / directory.directory, directory.sha256)
        case None:
            return source.DirectorySource(spec.directory / spec.model.saved_model)
