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
from .selection import release_tag, require_publishable


def list_release(
    specs: Sequence[Spec],
    platforms: Sequence[str] = (),
    *,
    musllinux: bool = False,
    allowed: Sequence[str] | None = None,
    pythons: Sequence[str] = PYTHONS,
) -> ReleaseList:
    """The files of the release of one spec.

    Args:
        specs: One spec. A release is of one model: what goes wrong with it cannot reach another one.
        platforms: Names of platforms; by default all for which the spec has CPU levels.
        musllinux: Whether to build musllinux wheels as well; without an effect on those in `allowed`.
        allowed: Names of platforms of wheels (`musllinux-x86_64`), as `[build] platforms` has them: nothing else is
            built of a platform that has one there.
        pythons: What wheels with an extension are built for, some of `PYTHONS`.

    Raises:
        UsageError: There are several specs, a platform is unknown, or there is nothing to build.
        SpecError: The spec has `publish: false`.
    """
    if len(specs) != 1:
        raise UsageError(
            f"a release is of one model, but there are {count(len(specs), 'spec')}; name one spec file, or "
            "select it with --tag",
            code="MW208",
        )
    require_publishable(specs)
    spec = specs[0]
    wanted = _wanted_platforms(platforms, allowed, musllinux=musllinux)
    usable = [p for p in wanted if spec.resolve_levels(p.objects.architecture)]
    if not usable:
        raise UsageError(
            f"there is nothing to build: {spec.path} has no CPU levels of "
            f"{' or '.join(platform.name for platform in wanted)}; check `targets`"
        )
    version = str(spec.model.version)
    sdist = f"{spec.module}-{version}.tar.gz"
    shared = spec.package.bindings == "shared"
    if shared and all(python.endswith("t") for python in pythons):
        raise UsageError(
            f"[build] pythons of modelwheel.toml has only free-threaded Pythons, and {spec.path} has "
            "`bindings: shared`, whose wheels are built with another one; add one, such as cp313"
        )
    project = spec.distribution
    return _make_list(release_tag(spec), project, version, sdist, usable, pythons, shared=shared)


def list_runtime() -> ReleaseList:
    """The files of the release of modelwheel-runtime: wheels for every platform and Python."""
    sdist = f"{RUNTIME.replace('-', '_')}-{RUNTIME_VERSION}.tar.gz"
    every = list(WHEEL_PLATFORMS.values())
    tag = f"{RUNTIME}-{RUNTIME_VERSION}"
    return _make_list(tag, RUNTIME, RUNTIME_VERSION, sdist, every, PYTHONS, shared=False)


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
            f"{one_line(sums) or 'nothing'}; compile it again",
            code="MW605",
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
            f"but built {', '.join(map(one_line, wheels)) or 'nothing'}",
            code="MW605",
        )


def _make_list(
    tag: str,
    distribution: str,
    version: str,
    sdist: str,
    platforms: Sequence[WheelPlatform],
    wanted: Sequence[str],
    *,
    shared: bool,
) -> ReleaseList:
    # With shared bindings, cibuildwheel builds one wheel with the first interpreter and tests it with the
    # others. It has no extension that declares to run without the global lock.
    built = [p for p in PYTHONS if p in wanted and not (shared and p.endswith("t"))]
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


def _wanted_platforms(
    names: Sequence[str], allowed: Sequence[str] | None, *, musllinux: bool
) -> list[WheelPlatform]:
    for name in names:
        if name not in PLATFORMS:
            raise UsageError(f"unknown platform {name!r}; {suggest(name, PLATFORMS)}", code="MW204")
    every = [
        platform
        for platform in WHEEL_PLATFORMS.values()
        if musllinux or not platform.name.startswith("musllinux")
    ]
    if allowed is None:
        return [platform for platform in every if not names or platform.objects.name in names]
    chosen = [WHEEL_PLATFORMS[name] for name in WHEEL_PLATFORMS if name in allowed]
    if not names:
        return chosen
    # A platform that the command line names and the file does not is built all the same.
    ours = {platform.objects.name for platform in chosen}
    others = [platform for platform in every if platform.objects.name not in ours]
    return [platform for platform in (*chosen, *others) if platform.objects.name in names]
