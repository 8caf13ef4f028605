"""Makes the list of a release: one job for each platform, and the wheels that each of them builds.

It depends only on the spec; no model is fetched. See `modelwheel.index.release_list`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from ..errors import UsageError, WheelError
from ..index.release_list import ReleaseList, WheelJob
from ..packaging.checksums import parse_checksums
from ..platforms import PLATFORMS, PYTHONS, WHEEL_PLATFORMS, WheelPlatform
from ..spec import Spec
from ..util.files import digest_file
from ..util.text import one_line
from ..util.words import count, suggest
from ..versions import RUNTIME, RUNTIME_VERSION
from .selection import release_tag


def list_release(
    specs: Sequence[Spec], platforms: Sequence[str] = (), *, musllinux: bool = False
) -> ReleaseList:
    """The files of the release of one spec.

    Args:
        specs: One spec. A release is of one model: what goes wrong with it cannot reach another one.
        platforms: Names of platforms; by default all for which the spec has CPU levels.
        musllinux: Whether to build musllinux wheels as well.

    Raises:
        UsageError: There are several specs, a platform is unknown, or there is nothing to build.
    """
    if len(specs) != 1:
        raise UsageError(
            f"a release is of one model, but there are {count(len(specs), 'spec')}; name one spec file, or "
            "select it with --tag"
        )
    spec = specs[0]
    wanted = _wanted_platforms(platforms, musllinux=musllinux)
    usable = [p for p in wanted if spec.resolve_levels(p.objects.architecture)]
    if not usable:
        raise UsageError(
            f"there is nothing to build: {spec.path} has no CPU levels of "
            f"{' or '.join(platform.name for platform in wanted)}; check `targets`"
        )
    version = str(spec.model.version)
    sdist = f"{spec.module}-{version}.tar.gz"
    shared = spec.package.bindings == "shared"
    return _make_list(release_tag(spec), spec.distribution, version, sdist, usable, shared=shared)


def list_runtime() -> ReleaseList:
    """The files of the release of modelwheel-runtime: wheels for every platform and Python."""
    sdist = f"{RUNTIME.replace('-', '_')}-{RUNTIME_VERSION}.tar.gz"
    every = list(WHEEL_PLATFORMS.values())
    tag = f"{RUNTIME}-{RUNTIME_VERSION}"
    return _make_list(tag, RUNTIME, RUNTIME_VERSION, sdist, every, shared=False)


def pick(job: WheelJob, sdists: Sequence[Path], sums: str | None = None) -> Path:
    """The source distribution that a job builds, among some files.

    Args:
        job: The job.
        sdists: The files.
        sums: If given, what the job that compiled has handed on, as `sha256sum` prints it.

    Raises:
        UsageError: It is missing, or `sums` is not such a text.
        WheelError: It is not the file that was handed on.
    """
    file = next((file for file in sdists if file.name == job.sdist), None)
    if file is None:
        raise UsageError(
            f"{job.sdist}, which the job {job.name} builds, is not among the "
            f"{count(len(sdists), 'source distribution')} given; pass the file of `modelwheel compile`"
        )
    if sums is not None:
        _require_sum(file, sums)
    return file


def _require_sum(file: Path, sums: str) -> None:
    try:
        expected = parse_checksums(sums.encode())
    except ValueError as error:
        raise UsageError(f"--sums: {error}") from None
    digest = digest_file(file).sha256
    if expected != {file.name: digest}:
        raise WheelError(
            f"{file} has SHA-256 {digest}, but the job that compiled has handed on "
            f"{one_line(sums) or 'nothing'}; compile it again"
        )


def require_wheels(job: WheelJob, wheels: Sequence[str]) -> None:
    """Refuses what a job has built unless it is exactly what the list says.

    Raises:
        WheelError: A wheel is missing, or is not one of this job.
    """
    slots = [job.slot(wheel) for wheel in wheels]
    if sorted(map(str, slots)) != sorted(job.pythons):
        raise WheelError(
            f"the job {job.name} must build one wheel of {job.sdist} for each of {', '.join(job.pythons)}, "
            f"but built {', '.join(map(one_line, wheels)) or 'nothing'}"
        )


def _make_list(
    tag: str,
    distribution: str,
    version: str,
    sdist: str,
    platforms: Sequence[WheelPlatform],
    *,
    shared: bool,
) -> ReleaseList:
    # With shared bindings, cibuildwheel builds one wheel with the first interpreter and tests it with the
    # others. It has no extension that declares to run without the global lock.
    built = [python for python in PYTHONS if not (shared and python.endswith("t"))]
    pythons = ("py3-none",) if shared else tuple(f"{p.removesuffix('t')}-{p}" for p in built)
    jobs = {
        platform.name: WheelJob(
            name=platform.name,
            runner=platform.runner,
            tag=platform.cibuildwheel,
            build=" ".join(f"{python}-{platform.cibuildwheel}" for python in built),
            pythons=pythons,
            sdist=sdist,
        )
        for platform in platforms
    }
    project = canonicalize_name(distribution)
    return ReleaseList(tag=tag, project=project, version=version, sdist=sdist, jobs=jobs)


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
