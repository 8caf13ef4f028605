"""The steps from a spec to a verified wheel, and what the result of each depends on.

A step is a pure function of its inputs: its key is a hash over them, its result a record in the
store. `modelwheel.engine.plan` asks only for keys, `modelwheel.engine.scheduler` also runs what is missing. In order:

    inspect -> freeze -> compile (each platform, CPU level, size) \\
            -> reference ------------------------------------------ project -> wheel -> verify
                                                    (shared bindings:) runtime -->
                                                                            -> sdist
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from ..assembly.assemble import Project, write_project_files
from ..compiler import check, inspection
from ..compiler.compile import CompileRequest, cpp_class
from ..compiler.freeze import CONFIG, GRAPH, FreezeRequest
from ..compiler.inspection import Inspection
from ..compiler.jobs import Job
from ..compiler.reference import ARRAYS, ReferenceRequest, default_rows
from ..levels import Level, cpu_level
from ..packaging.backend import build_environment, build_wheel
from ..packaging.checksums import write_checksums
from ..packaging.project import render_project
from ..packaging.runtime import add_needed_sources, build_runtime, needed_sources, runtime_key
from ..packaging.sdist import build_sdist
from ..packaging.template import model_template, template_digest
from ..platforms import Platform
from ..request import Request
from ..store.keys import action_key
from ..store.records import Record
from ..store.store import Store
from ..verify.selftest import require_passed, verify_wheel
from ..wheelfile.reports import dump_report
from ..wheelfile.wheel import open_wheel

Records = Mapping[str, Record]
"""Results of finished steps, by the step's name."""

REPORT = "report.json"
"""What a verify step puts into its result."""


@dataclass(frozen=True)
class Workspace:
    """Where a step runs."""

    store: Store
    model: Path
    """The SavedModel, read-only."""
    records: Records

    def inspection(self, request: Request) -> Inspection:
        """What the request's inspect step found."""
        content = self.store.read_bytes(self.records[f"{request.name}/inspect"], "inspection.json")
        return Inspection.model_validate_json(content)


@dataclass(frozen=True)
class Step(abc.ABC):
    """One step of one request.

    `tree` is the hash of the SavedModel's tree, with which all keys begin.
    """

    request: Request
    tree: str
    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """The step's name, unique in a plan."""
        return f"{self.request.name}/{self.kind}"

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the steps whose results it uses."""
        return ()

    @property
    def bindings(self) -> str:
        """Where the Python extension is to be: `extension` or `shared`."""
        return self.request.spec.package.bindings

    @abc.abstractmethod
    def key(self, store: Store, records: Records) -> str:
        """The key of its result; `records` holds those of `needs`."""


class JobStep(Step):
    """A step that a worker process does."""

    @abc.abstractmethod
    def job(self, workspace: Workspace, out: Path) -> Job:
        """What the worker is asked for."""


class LocalStep(Step):
    """A step that this process does itself."""

    @abc.abstractmethod
    def run(self, workspace: Workspace, out: Path) -> None:
        """Writes the result into the empty directory `out`."""


def inspection_key(tree: str) -> str:
    """The key of what is found in the SavedModel with this tree hash, whatever a spec says of it."""
    return action_key("inspect", **inspection.key_inputs(tree))


@dataclass(frozen=True)
class InspectStep(JobStep):
    """Reads the SavedModel without loading it."""

    kind = "inspect"

    def key(self, store: Store, records: Records) -> str:  # noqa: ARG002
        return inspection_key(self.tree)

    def job(self, workspace: Workspace, out: Path) -> Job:
        return inspection.job(workspace.model, out)

    def judge(self, found: Inspection) -> list[check.Finding]:
        """What is to be said about compiling the model as the spec asks."""
        spec = self.request.spec
        return check.judge(
            found, spec.model.serving_key, self.request.shapes, spec.compilation.batch_sizes
        )


@dataclass(frozen=True)
class _AfterInspect(JobStep):
    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/inspect",)

    def is_batched(self, store: Store, records: Records) -> bool:
        """Whether the signature has a batch axis; the model has passed the check by now."""
        found = Workspace(store, Path(), records).inspection(self.request)
        signature = found.signature(self.request.spec.model.serving_key)
        return signature is not None and bool(
            inspection.batched_inputs(signature, self.request.shapes)
        )


@dataclass(frozen=True)
class FreezeStep(_AfterInspect):
    """Freezes the signature at one batch size."""

    batch_size: int
    kind = "freeze"

    @property
    def name(self) -> str:
        return f"{self.request.name}/freeze/b{self.batch_size}"

    def _request(self, store: Store, records: Records) -> FreezeRequest:
        spec = self.request.spec
        return FreezeRequest(
            signature=spec.model.serving_key,
            batch=self.batch_size if self.is_batched(store, records) else None,
            shapes=self.request.shapes,
            allow_pruned_inputs=spec.allow_pruned_inputs,
        )

    def key(self, store: Store, records: Records) -> str:
        return action_key(self.kind, **self._request(store, records).key_inputs(self.tree))

    def job(self, workspace: Workspace, out: Path) -> Job:
        request = self._request(workspace.store, workspace.records)
        return request.job(workspace.model, out)


@dataclass(frozen=True)
class ReferenceStep(_AfterInspect):
    """Evaluates the signature with TensorFlow, and proves that rows are independent."""

    kind = "reference"

    def _request(self, store: Store, records: Records) -> ReferenceRequest:
        spec = self.request.spec
        batched = self.is_batched(store, records)
        return ReferenceRequest(
            signature=spec.model.serving_key,
            batch_sizes=self.request.batch_sizes if batched else (),
            rows=_reference_rows(self.request) if batched else (),
            seed=spec.verify.seed,
            ranges=dict(spec.verify.ranges),
            shapes=self.request.shapes,
        )

    def key(self, store: Store, records: Records) -> str:
        return action_key(self.kind, **self._request(store, records).key_inputs(self.tree))

    def job(self, workspace: Workspace, out: Path) -> Job:
        request = self._request(workspace.store, workspace.records)
        return request.job(workspace.model, out)


def _reference_rows(request: Request) -> tuple[int, ...]:
    """The default numbers of rows, and the one that the spec asks for."""
    return tuple(sorted({*default_rows(request.batch_sizes), request.spec.verify.rows}))


@dataclass(frozen=True)
class CompileStep(JobStep):
    """Compiles one frozen graph for one CPU level of one platform."""

    batch_size: int
    level: Level
    platform: Platform
    kind = "compile"

    @property
    def name(self) -> str:
        return _compile_name(self.request, self.platform, self.level, self.batch_size)

    @property
    def _freeze(self) -> str:
        return f"{self.request.name}/freeze/b{self.batch_size}"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self._freeze,)

    def _request(self) -> CompileRequest:
        name = cpp_class(self.request.spec.identifier, self.batch_size, self.level)
        flags = self.request.flags(self.level)
        return CompileRequest(self.platform, self.level, name, flags)

    def key(self, store: Store, records: Records) -> str:  # noqa: ARG002
        frozen = records[self._freeze].files
        hashes = (frozen[GRAPH].sha256, frozen[CONFIG].sha256)
        return action_key(self.kind, **self._request().key_inputs(*hashes))

    def job(self, workspace: Workspace, out: Path) -> Job:
        frozen = out.with_name(f"{out.name}-inputs")
        workspace.store.materialize(workspace.records[self._freeze], frozen, link=True)
        return self._request().job(frozen, out)


def _compile_name(request: Request, platform: Platform, level: Level, size: int) -> str:
    return f"{request.name}/{platform.name}/{level.name}/b{size}"


@dataclass(frozen=True)
class ProjectStep(LocalStep):
    """Emits C++ and constants, and writes the manifest: everything that a wheel is made from."""

    provenance: Mapping[str, str]
    kind = "project"

    @property
    def needs(self) -> tuple[str, ...]:
        name, request = self.request.name, self.request
        return (
            *(f"{name}/freeze/b{size}" for size in request.batch_sizes),
            *(_compile_name(request, *variant) for variant in request.variants),
            f"{name}/reference",
        )

    def key(self, store: Store, records: Records) -> str:
        return action_key(self.kind, **self._project(store, records).key_inputs())

    def _project(self, store: Store, records: Records) -> Project:
        name, request = self.request.name, self.request
        return Project(
            request=request,
            tree_sha256=self.tree,
            provenance=self.provenance,
            frozen={size: records[f"{name}/freeze/b{size}"] for size in request.batch_sizes},
            compiled={
                (platform.name, level.name, size): records[
                    _compile_name(request, platform, level, size)
                ]
                for platform, level, size in request.variants
            },
            reference=records[f"{name}/reference"],
            store=store,
        )

    def run(self, workspace: Workspace, out: Path) -> None:
        project = self._project(workspace.store, workspace.records)
        write_project_files(project, workspace.model, out)


@dataclass(frozen=True)
class _DistributionStep(LocalStep):
    """Renders the wheel template around the project's files, and packs the whole in some way."""

    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/project",)

    def key(self, store: Store, records: Records) -> str:  # noqa: ARG002
        files = records[self.needs[0]].files
        return action_key(
            self.kind,
            project={name: file.sha256 for name, file in files.items()},
            template=template_digest(model_template(self.bindings)),
            **self.tools(),
        )

    def run(self, workspace: Workspace, out: Path) -> None:
        project = out.with_name(f"{out.name}-project")
        workspace.store.materialize(workspace.records[self.needs[0]], project)
        render_project(project)
        self.pack(project, out)

    @abc.abstractmethod
    def tools(self) -> dict[str, Any]:
        """What the result depends on besides the project."""

    @abc.abstractmethod
    def pack(self, project: Path, out: Path) -> None:
        """Makes the distribution of a rendered project."""


@dataclass(frozen=True)
class WheelStep(_DistributionStep):
    """Builds the wheel for this machine and Python."""

    kind = "wheel"

    def tools(self) -> dict[str, Any]:
        return {"environment": build_environment(self.bindings)}

    def pack(self, project: Path, out: Path) -> None:
        build_wheel(project, out)


@dataclass(frozen=True)
class RuntimeStep(LocalStep):
    """Builds the package that wheels without an extension of their own need, for this Python."""

    kind = "runtime"

    def key(self, store: Store, records: Records) -> str:  # noqa: ARG002
        return runtime_key()

    def run(self, workspace: Workspace, out: Path) -> None:  # noqa: ARG002
        build_runtime("wheel", out)


@dataclass(frozen=True)
class VerifyStep(LocalStep):
    """Installs the wheel into an empty environment and holds it against TensorFlow's outputs."""

    kind = "verify"

    @property
    def needs(self) -> tuple[str, ...]:
        name = self.request.name
        runtime = (f"{name}/runtime",) if self.bindings == "shared" else ()
        return (f"{name}/reference", f"{name}/wheel", *runtime)

    def key(self, store: Store, records: Records) -> str:  # noqa: ARG002
        reference, *wheels = (records[name].files for name in self.needs)
        return action_key(
            self.kind,
            wheels=[{name: file.sha256 for name, file in wheel.items()} for wheel in wheels],
            reference=reference[ARRAYS].sha256,
            cpu=cpu_level().name,
        )

    def run(self, workspace: Workspace, out: Path) -> None:
        reference, *records = (workspace.records[name] for name in self.needs)
        directory = out.with_name(f"{out.name}-wheel")
        for record in records:
            workspace.store.materialize(record, directory)
        wheel, *needed = (directory / name for record in records for name in record.files)
        report = verify_wheel(open_wheel(wheel), workspace.store.path(reference, ARRAYS), needed)
        require_passed(report, wheel.name)
        (out / REPORT).write_bytes(dump_report(report))


@dataclass(frozen=True)
class SdistStep(_DistributionStep):
    """Packs the rendered project as it is."""

    kind = "sdist"

    def tools(self) -> dict[str, Any]:
        return {
            "needed": needed_sources(self.bindings),
            "backend": version("scikit-build-core"),
        }

    def pack(self, project: Path, out: Path) -> None:
        add_needed_sources(self.bindings, project)
        write_checksums(project)
        build_sdist(project, out)


Goal: TypeAlias = Literal["wheel", "sdist", "project"]
"""What a build is for: a verified wheel for this machine, a source distribution for many, or all that
these are made from."""


def steps_of(
    request: Request, tree: str, provenance: Mapping[str, str], goal: Goal = "wheel"
) -> tuple[Step, ...]:
    """All steps of a request, each after those that it needs."""
    shared = request.spec.package.bindings == "shared"
    runtime = (RuntimeStep(request, tree),) if shared else ()
    last: dict[Goal, tuple[Step, ...]] = {
        "wheel": (WheelStep(request, tree), *runtime, VerifyStep(request, tree)),
        "sdist": (SdistStep(request, tree),),
        "project": (),
    }
    return (
        InspectStep(request, tree),
        *(FreezeStep(request, tree, size) for size in request.batch_sizes),
        ReferenceStep(request, tree),
        *(
            CompileStep(request, tree, size, level, platform)
            for platform, level, size in request.variants
        ),
        ProjectStep(request, tree, provenance),
        *last[goal],
    )
