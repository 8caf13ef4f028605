"""`modelwheel doctor`: everything modelwheel needs on this machine, what was found, and fixes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Literal, TypeAlias

import requests
from packaging.version import Version

from .. import extras, prerequisites
from ..errors import EnvironmentProblemError
from ..levels import cpu_level
from ..prerequisites import BUILD_BYTES, Missing
from ..sandbox.choose import find_sandbox
from ..store.disk import CACHE_VARIABLE, default_root
from ..store.store import Store
from ..store.upkeep.summary import find_problem, missing_upstream
from ..util.http import Patience, Reader, explain
from ..util.processes.process import ProcessError, run
from ..util.urls import redact
from ..util.words import count, first_few, size_text
from ..versions import CMAKE_MINIMUM, GIT_MINIMUM, TENSORFLOW_PYTHONS, TENSORFLOW_VERSION

_TIMEOUT = 20.0

Role: TypeAlias = Literal["author", "release"]
"""Who asks: somebody who compiles models, or who builds and publishes wheels for other platforms."""

_ALSO_REQUIRED: Mapping[Role, frozenset[str]] = {
    "author": frozenset({"Python", "TensorFlow", "git", "memory"}),
    "release": frozenset({"release tools", "containers", "git", "index", "uploads"}),
}
"""What a role cannot do without, beside what is needed to build wheels at all."""

_NOT_FOR: Mapping[Role, frozenset[str]] = {
    "author": frozenset({"release tools", "cross-building", "containers"}),
    "release": frozenset({"memory"}),
}
"""What a role does not need."""

_MEMORY_BYTES = 2 << 30  # TensorFlow's import takes 0.6 GB; the rest is for a model of 60 MB

_SETTINGS = Path("/proc/sys")
_NAMESPACE_SETTINGS = (
    # Ubuntu since 23.10.
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    # Of older kernels of Debian and Arch Linux.
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "16384"),
)
"""Settings that keep an ordinary user from making user namespaces: name, such a value, a better one."""

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    ok: bool
    found: str
    """What is there, in a few words."""
    fix: str | None
    """What to do; None if it is in order."""
    required: bool
    """Whether building wheels is impossible without it."""


def for_role(findings: Sequence[Finding], role: Role) -> list[Finding]:
    """The findings that matter to a role, each required if the role cannot do without."""
    return [
        replace(finding, required=finding.required or finding.name in _ALSO_REQUIRED[role])
        for finding in findings
        if finding.name not in _NOT_FOR[role]
    ]


def check_address(name: str, url: str | None, option: str) -> Finding:
    """Whether a package index answers at an address of `modelwheel.toml`, whatever it says."""
    if url is None:
        # Releases of GitHub need no index.
        return Finding(name, ok=True, found=f"`{option}` is not set", fix=None, required=False)
    shown = redact(url)
    fix = f"correct `{option}` in section [index] of modelwheel.toml, or check network and proxy"
    try:
        with Reader(Patience(attempts=1, timeout=_TIMEOUT)) as reader:
            status = reader.read(url, lambda response: response.status_code)
    except requests.RequestException as error:
        return _finding(name, ok=False, found=f"{shown}: {explain(error)}", fix=fix)
    # An address for uploads refuses to be read.
    return _finding(name, status < 500, f"{shown} answers ({status})", fix)


def diagnose() -> list[Finding]:
    """Runs all checks in parallel. They do not import TensorFlow and take well under a second."""
    with ThreadPoolExecutor(len(_CHECKS)) as pool:
        return [finding.result() for finding in [pool.submit(check) for check in _CHECKS]]


def _check_python() -> Finding:
    lowest, highest = map(_dotted, TENSORFLOW_PYTHONS)
    version = _dotted(sys.version_info[:2])
    return _finding(
        "Python",
        TENSORFLOW_PYTHONS[0] <= sys.version_info[:2] <= TENSORFLOW_PYTHONS[1],
        f"CPython {sys.version.split()[0]} ({sys.executable})",
        f"TensorFlow {TENSORFLOW_VERSION} has no packages for CPython {version}: to compile models, "
        f"use CPython {lowest} to {highest}: `{extras.TENSORFLOW_FIX}`",
        required=False,
    )


def _check_headers() -> Finding:
    return _prerequisite(
        "Python headers", prerequisites.check_headers(), str(prerequisites.headers())
    )


def _check_venv() -> Finding:
    return _prerequisite("Python venv", prerequisites.check_venv(), "ensurepip is installed")


def _check_tensorflow() -> Finding:
    version = _installed("tensorflow") or _installed("tensorflow-cpu")
    return _finding(
        "TensorFlow",
        version == TENSORFLOW_VERSION,
        version or "not installed",
        f"to compile models, install TensorFlow {TENSORFLOW_VERSION}: "
        "`pip install 'modelwheel[compile]'`",
        required=False,
    )


def _check_compiler() -> Finding:
    return _prerequisite("C++ compiler", prerequisites.check_compiler(), _compiler_banner())


def _compiler_banner() -> str:
    try:
        banner = run([*prerequisites.compiler_command(), "--version"], timeout=_TIMEOUT).text
    except ProcessError:  # Visual Studio's compiler is not on PATH, for example
        return "found"
    return banner.partition("\n")[0].strip()


def _check_cmake() -> Finding:
    return _package("CMake", "cmake", CMAKE_MINIMUM)


def _check_ninja() -> Finding:
    return _package("Ninja", "ninja", "1.5")


def _check_build_tools() -> Finding:
    return _extra("build tools", "build", "building wheels", required=True)


def _check_release_tools() -> Finding:
    return _extra("release tools", "release", "`modelwheel wheel` and `audit`", required=False)


def _check_cross_tools() -> Finding:
    return _extra("cross-building", "cross", "`modelwheel wheel --cross`", required=False)


def _check_git() -> Finding:
    path = shutil.which("git")
    missing = prerequisites.check_git()
    if missing is not None or path is None:
        return _prerequisite("git", missing, "", required=False)
    try:
        number = re.search(r"\d+(\.\d+)+", run([path, "--version"], timeout=_TIMEOUT).text)
    except ProcessError as error:
        return _finding("git", ok=False, found=str(error), fix="reinstall git", required=False)
    version = number[0] if number else "unknown version"
    ok = number is not None and Version(version) >= Version(GIT_MINIMUM)
    fix = f"install git {GIT_MINIMUM} or newer"
    return _finding("git", ok, f"{version} ({path})", fix, required=False)


def _check_disk() -> Finding:
    root = default_root()
    existing = next(path for path in (root, *root.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        fix = f"correct its permissions, or set {CACHE_VARIABLE} to another directory"
        return _finding("disk", ok=False, found=f"{existing} is not writable", fix=fix)
    return _finding(
        "disk",
        prerequisites.check_disk(BUILD_BYTES, root) is None,
        f"{size_text(shutil.disk_usage(existing).free)} free in {root}",
        f"free {size_text(BUILD_BYTES)} there, or set {CACHE_VARIABLE} to another directory",
    )


def check_store(store: Store) -> Finding:
    """Whether an object store can be used, which stores are read, and whose records count."""
    problem = find_problem(store)
    if problem is not None:
        fix = "`modelwheel explain MW702` says which rights a store needs"
        return _finding("store", ok=False, found=problem, fix=fix)
    trusted, missing = store.policy.trusted_keys, missing_upstream(store)
    facts = [count(len(store.upstream), "upstream"), count(len(trusted), "trusted key")]
    if store.policy.signer is not None:
        facts.append("signs its records")
    if missing:
        fix = (
            f"there is no {first_few(list(map(str, missing)))}; correct [store] in modelwheel.toml"
        )
    else:
        fix = "without `trusted_keys` in modelwheel.toml, anybody who can write an upstream is trusted"
    return _finding(
        "store",
        not missing and (bool(trusted) or not store.upstream),
        ", ".join(facts) if store.upstream or trusted else "no upstream, records are not signed",
        fix,
        required=False,
    )


def _check_memory() -> Finding:
    try:
        import psutil
    except ModuleNotFoundError:  # it is in the extra `build`
        hint = "`pip install 'modelwheel[build]'`"
        return _finding("memory", ok=False, found="unknown", fix=hint, required=False)
    # In a container this is the host's memory, of which the container may have less (cgroup v2).
    available = psutil.virtual_memory().available
    with suppress(OSError, ValueError):  # without a limit the file is absent or says "max"
        available = min(available, int(_CGROUP_LIMIT.read_text()))
    return _finding(
        "memory",
        available >= _MEMORY_BYTES,
        f"{size_text(available)} available",
        f"compiling takes 1 GB or more: free {size_text(_MEMORY_BYTES)}",
        required=False,
    )


def _check_cpu() -> Finding:
    try:
        found, ok = cpu_level().name, True
    except EnvironmentProblemError as error:
        found, ok = str(error), False
    return _finding("CPU level", ok, found, "use a machine with one of these architectures")


def _check_sandbox() -> Finding:
    sandbox, reasons = find_sandbox()
    name = sandbox.name if sandbox else "none that works"
    missing = "; ".join(reasons)
    return _finding(
        "sandbox",
        not reasons,
        f"{name} ({missing})" if missing else name,
        _sandbox_fix(),
        required=False,
    )


def _sandbox_fix() -> str:
    """How to get the best sandbox of this system."""
    if sys.platform != "linux":
        return "use Linux, in a virtual machine or a container, for models that you do not trust"
    if shutil.which("bwrap") is None:
        return "install bubblewrap: `sudo apt-get install bubblewrap`"
    for name, wrong, right in _NAMESPACE_SETTINGS:
        with suppress(OSError):  # most kernels have only some of them
            if (_SETTINGS / name.replace(".", "/")).read_text().strip() == wrong:
                return (
                    "let bubblewrap create user namespaces, until the next start by "
                    f"`sudo sysctl -w {name}={right}`; docs/sandbox.md has ways that last"
                )
    return "in a container, allow user namespaces; docs/sandbox.md says how"


def _check_containers() -> Finding:
    from ..release.containers import find_engine

    try:
        engine, problem = find_engine(os.environ), None
    except EnvironmentProblemError as error:
        engine, problem = "none that works", str(error)
    fix = problem or ""
    return _finding("containers", problem is None, engine, fix, required=False)


_CHECKS: Sequence[Callable[[], Finding]] = (
    _check_python,
    _check_headers,
    _check_venv,
    _check_compiler,
    _check_build_tools,
    _check_cmake,
    _check_ninja,
    _check_disk,
    _check_memory,
    _check_cpu,
    _check_git,
    _check_tensorflow,
    _check_release_tools,
    _check_cross_tools,
    _check_sandbox,
    _check_containers,
)


def _prerequisite(
    name: str, missing: Missing | None, found: str, *, required: bool = True
) -> Finding:
    if missing is None:
        return Finding(name, ok=True, found=found, fix=None, required=required)
    return Finding(
        name,
        ok=False,
        found=f"no {missing.what.removeprefix('a ')}",
        fix=missing.fix,
        required=required,
    )


def _package(name: str, distribution: str, minimum: str) -> Finding:
    """A tool from its Python package: scikit-build-core prefers it to the one on PATH."""
    version = _installed(distribution)
    on_path = shutil.which(distribution)
    ignored = f"; {on_path} is not used" if on_path else ""
    return _finding(
        name,
        version is not None and Version(version) >= Version(minimum),
        f"{version} (Python package)" if version else f"no Python package{ignored}",
        f"install {minimum} or newer: `pip install '{distribution}>={minimum}'`",
    )


def _extra(name: str, extra: str, purpose: str, *, required: bool) -> Finding:
    names = extras.distributions(extra)
    missing = extras.missing(extra)
    found = (
        f"not installed: {first_few(missing)}"
        if missing
        else f"all {len(names)} packages are installed"
    )
    fix = f"for {purpose}: `pip install 'modelwheel[{extra}]'`"
    return _finding(name, not missing, found, fix, required=required)


def _finding(name: str, ok: bool, found: str, fix: str, *, required: bool = True) -> Finding:
    return Finding(name, ok, found, None if ok else fix, required)


def _installed(distribution: str) -> str | None:
    """The version of a distribution, from its metadata alone."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
