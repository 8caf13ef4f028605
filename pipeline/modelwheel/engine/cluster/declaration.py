"""Declarations of workers: what one says about itself, what a step needs of one, and which workers a build refuses."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import PurePosixPath

from ... import __version__
from ...errors import EnvironmentProblemError
from ...levels import cpu_level, host_levels
from ...packaging.backend import build_environment
from ...packaging.template import template_digest, template_directory
from ...platforms import host_platform
from ...sandbox.choose import find_sandbox
from ...store.keys import action_key
from ...util.processes.process import ProcessError
from ...util.records import JsonRecord
from ...versions import TENSORFLOW_VERSION
from ..steps.base import JobStep, Step

NAME = "modelwheel"
"""Under which Dask's scheduler keeps the declaration of a worker."""

MEMORY, PROGRAMS, SANDBOX = "modelwheel-memory", "modelwheel-programs", "modelwheel-sandbox"
"""Resources: bytes, steps at once that run compilers, and whether models run in a sandbox."""

_PLENTY = 1e9
"""Of what does not run out, such as a platform: each step takes 1."""

_PROGRAMS = 2
"""Compilers use all cores themselves, but CMake, linkers and tests use one: the other is for another step."""

_BUILT_HERE = frozenset({"objects", "kernels", "wheel", "runtime", "bundle", "profile"})
"""Kinds of steps that run a compiler of the machine, whose version is in their keys."""

_INSTALLED_HERE = frozenset({"verify"})
"""Kinds of steps that install a wheel."""


class Declaration(JsonRecord):
    """A machine, as far as results depend on it."""

    host: str
    modelwheel: str
    tensorflow: str
    """Empty if it is not installed."""
    template: str
    """A hash over the wheel template."""
    tools: Mapping[str, str]
    """What wheels depend on: see `build_environment`; empty without a compiler."""
    platform: str
    levels: tuple[str, ...]
    """The CPU levels that it can run, lowest first."""
    sandbox: str
    """What models run in; empty for none."""
    memory: int = 0
    """Bytes that steps may use."""
    extra: Mapping[str, float] = {}
    """Further resources: see `cluster.resources` in modelwheel.toml."""

    def resources(self) -> dict[str, float]:
        """The resources that Dask's scheduler compares with the needs of steps.

        What differs in a version has another name: Dask never gives such a worker a step, whenever it joins.
        """
        names = [
            _same(self),
            f"platform-{self.platform}",
            *(f"level-{level}" for level in self.levels),
            *([_tensorflow(self.tensorflow)] if self.tensorflow else []),
            *([_tools(self.tools)] if self.tools else []),
            *([SANDBOX] if self.sandbox else []),
        ]
        amounts = {MEMORY: float(self.memory), PROGRAMS: float(_PROGRAMS)}
        return {**dict.fromkeys(names, _PLENTY), **amounts, **self.extra}


def name_of_worker(name: object, host: str) -> str:
    """The name of a worker: its name in Dask, with its machine where that does not say it."""
    return str(name) if host in str(name) else f"{host}-{name}"


def _same(declared: Declaration) -> str:
    versions = {"modelwheel": declared.modelwheel, "template": declared.template}
    return f"{NAME}-{action_key('cluster', **versions)[:12]}"


def _tensorflow(version: str) -> str:
    return f"tensorflow-{version}"


def _tools(tools: Mapping[str, str]) -> str:
    return f"tools-{action_key('tools', **tools)[:12]}"


def declare(memory: int = 0, extra: Mapping[str, float] | None = None) -> Declaration:
    """The declaration of this machine.

    Args:
        memory: Bytes that steps may use.
        extra: Further resources.
    """
    tools: Mapping[str, str] = {}
    with suppress(ProcessError, metadata.PackageNotFoundError):
        tools = build_environment()
    here = ""
    levels: tuple[str, ...] = ()
    with suppress(EnvironmentProblemError):
        supported = host_levels()
        names = [level.name for level in supported[: supported.index(cpu_level()) + 1]]
        here, levels = host_platform().name, tuple(names)
    sandbox, _ = find_sandbox()
    return Declaration(
        host=platform.node(),
        modelwheel=__version__,
        tensorflow=_installed("tensorflow", "tensorflow-cpu"),
        template=_template(),
        tools=tools,
        platform=here,
        levels=levels,
        sandbox="" if sandbox is None else sandbox.kind,
        memory=memory,
        extra=extra or {},
    )


def _installed(*names: str) -> str:
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return ""


def _template() -> str:
    root = template_directory()
    paths = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return template_digest(
        {PurePosixPath(path): root / path for path in paths if "__pycache__" not in path.parts}
    )


def needs_of(
    step: Step,
    here: Declaration,
    workers: Iterable[Declaration],
    memory: int,
    *,
    sandboxed: bool,
    extra: Iterable[str] = (),
) -> dict[str, float]:
    """The resources that a step takes of a worker.

    Args:
        step: The step.
        here: The machine of the build: wheels are built for it.
        workers: All workers that it may use.
        memory: Bytes that the step is expected to use.
        sandboxed: Whether models must run in a sandbox.
        extra: Further resources, of which every step takes 1.
    """
    workers = list(workers)
    needs = {_same(here): 1.0, **dict.fromkeys(extra, 1.0)}
    if isinstance(step, JobStep):
        # The largest worker gets what needs more than any has: nothing is gained by waiting.
        largest = max((worker.memory for worker in workers), default=memory)
        needs |= {_tensorflow(TENSORFLOW_VERSION): 1.0, MEMORY: float(min(memory, largest))}
    else:
        needs[PROGRAMS] = 1.0
    if step.kind in _BUILT_HERE | _INSTALLED_HERE:
        needs |= {f"platform-{here.platform}": 1.0, _tools(here.tools): 1.0}
    if step.kind in _INSTALLED_HERE:
        needs |= _highest_level(here, workers)
    if sandboxed and (isinstance(step, JobStep) or step.kind in _INSTALLED_HERE | {"bundle"}):
        needs[SANDBOX] = 1.0
    return needs


def _highest_level(here: Declaration, workers: Iterable[Declaration]) -> dict[str, float]:
    """A wheel is verified where most of its CPU levels run."""
    alike = [worker.levels for worker in workers if worker.platform == here.platform]
    most = max(alike, key=len, default=())
    return {f"level-{most[-1]}": 1.0} if most else {}


def words_of(needs: Mapping[str, float]) -> str:
    """The needs of a step, for people."""
    words = [
        *(f"TensorFlow {n.partition('-')[2]}" for n in needs if n.startswith("tensorflow-")),
        *(f"the platform {n.partition('-')[2]}" for n in needs if n.startswith("platform-")),
        *(f"the CPU level {n.partition('-')[2]}" for n in needs if n.startswith("level-")),
        *("the compiler and Python of this machine" for n in needs if n.startswith("tools-")),
        *(["a sandbox"] if SANDBOX in needs else []),
    ]
    return ", ".join(words) or f"modelwheel {__version__}"


def why_refused(here: Declaration, worker: Declaration, *, sandboxed: bool) -> str | None:
    """Why a build cannot use a worker, as the end of a sentence that begins with its name; None if it can."""
    if worker.modelwheel != here.modelwheel:
        return f"has modelwheel {worker.modelwheel}, and this machine {here.modelwheel}"
    if worker.tensorflow not in ("", TENSORFLOW_VERSION):
        return f"has TensorFlow {worker.tensorflow}, and modelwheel {here.modelwheel} needs {TENSORFLOW_VERSION}"
    if worker.template != here.template:
        return "has another wheel template than this machine, although modelwheel says the same version"
    # Another platform builds no wheels for this machine, and its compiler does not count.
    if worker.tools and here.tools and worker.platform == here.platform:
        for name in sorted({*worker.tools, *here.tools}):
            theirs, ours = worker.tools.get(name, "none"), here.tools.get(name, "none")
            if theirs != ours:
                return f"has {_TOOLS.get(name, name)} {theirs!r}, and this machine {ours!r}"
    if sandboxed and not worker.sandbox:
        return (
            "has no sandbox, which is required; `modelwheel doctor` there says how to get one, and "
            "--sandbox preferred runs models without"
        )
    return None


_TOOLS = {
    "cc": "the C compiler",
    "cxx": "the C++ compiler",
    "python": "Python",
    "platform": "the system",
}
"""Words for what is in `build_environment`."""
