"""The steps that this process runs: the project of a model, its wheel or source distribution, its test."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...assembly.assemble import Project, write_project_files
from ...levels import cpu_level
from ...model.reference_result import ARRAYS
from ...packaging.backend import build_environment, build_wheel
from ...packaging.checksums import write_checksums
from ...packaging.objects import build_objects, objects_inputs, objects_settings, objects_template
from ...packaging.project import render_project
from ...packaging.runtime import (
    add_needed_sources,
    build_runtime,
    needed_sources,
    runtime_inputs,
    runtime_template,
)
from ...packaging.sdist import build_sdist
from ...packaging.template import (
    Template,
    model_template,
    template_digest,
)
from ...store.store import Store
from ...util.remembering import installed_version
from ...verify.selftest import replaced_in, require_passed, verify_wheel
from ...wheelfile.reports import dump_report
from ...wheelfile.wheel import open_wheel
from .base import LocalStep, Records, Workspace
from .kernels import linked_kernels
from .model import ModelStep, QuantizeStep, compile_name

REPORT = "report.json"
"""What a verify step puts into its result."""


@dataclass(frozen=True)
class ProjectStep(ModelStep, LocalStep):
    """Writes C++, constants and the manifest: everything that a wheel is made from."""

    provenance: Mapping[str, str]
    profiled: bool = False
    kind = "project"

    @property
    def name(self) -> str:
        return f"{super().name}/profiled" if self.profiled else super().name

    @property
    def needs(self) -> tuple[str, ...]:
        name, request = self.request.name, self.request
        return (
            *(f"{name}/freeze/{extent}" for extent in request.extents),
            *(compile_name(request, *variant) for variant in request.variants),
            f"{name}/reference",
            *((f"{name}/{QuantizeStep.kind}",) if request.spec.package.compute else ()),
        )

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:
        return self._project(store, records).key_inputs()

    def meanings(
        self,
        store: Store,  # noqa: ARG002
        records: Records,  # noqa: ARG002
        files: Callable[[], Mapping[str, str]],  # noqa: ARG002
    ) -> Mapping[str, Mapping[str, Any]]:
        return {self.request.spec.spec_digest(): self.request.spec.model_dump(mode="json")}

    def _project(self, store: Store, records: Records) -> Project:
        name, request = self.request.name, self.request
        return Project(
            request=request,
            tree_sha256=self.tree,
            provenance=self.provenance,
            frozen={extent: records[f"{name}/freeze/{extent}"] for extent in request.extents},
            compiled={
                (platform.name, level.name, extent): records[
                    compile_name(request, platform, level, extent)
                ]
                for platform, level, extent in request.variants
            },
            reference=records[f"{name}/reference"],
            store=store,
            quantized=records.get(f"{name}/{QuantizeStep.kind}"),
            profiled=self.profiled,
        )

    def run(self, workspace: Workspace, out: Path) -> None:
        project = self._project(workspace.store, workspace.records)
        write_project_files(project, workspace.model, out)


@dataclass(frozen=True)
class _DistributionStep(ModelStep, LocalStep):
    """Renders the wheel template around the project's files and packs the result."""

    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/project",)

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        return {
            "project": records[self.needs[0]].hashes,
            "template": template_digest(self.template),
            **self.tools(),
        }

    @property
    def template(self) -> Template:
        return model_template(self.bindings, self.request.spec.package.interfaces)

    def run(self, workspace: Workspace, out: Path) -> None:
        project = out.with_name(f"{out.name}-project")
        # Copies: links are for readers that never write, and a build works in this directory.
        workspace.store.materialize(workspace.records[self.needs[0]], project)
        render_project(project)
        self.pack(project, workspace, out)

    @abc.abstractmethod
    def tools(self) -> dict[str, Any]:
        """The inputs of the result beside the project and the template."""

    @abc.abstractmethod
    def pack(self, project: Path, workspace: Workspace, out: Path) -> None:
        """Builds the distribution of a rendered project."""


@dataclass(frozen=True)
class WheelStep(_DistributionStep):
    """Builds the wheel for this machine and Python."""

    kind = "wheel"

    @property
    def needs(self) -> tuple[str, ...]:
        objects = (_objects_name(self),) if self.bindings == "extension" else ()
        return (*super().needs, f"{self.request.name}/kernels", *objects)

    def tools(self) -> dict[str, Any]:
        # Neither objects nor kernels: with and without them, the wheel has the same bytes.
        return {"environment": build_environment(self.bindings)}

    def pack(self, project: Path, workspace: Workspace, out: Path) -> None:
        settings = dict(linked_kernels(self, workspace, out))
        if self.bindings == "extension":
            settings |= _linked_objects(self, workspace, out)
        build_wheel(project, out, settings)


@dataclass(frozen=True)
class ObjectsStep(ModelStep, LocalStep):
    """Compiles what the extensions of all models have in common, for this Python."""

    kind = "objects"

    # A model that cannot be frozen is refused before anything is compiled, and a plan asks for no compiler, whose version
    # is in the key. Then it is compiled beside the model.
    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/freeze/{self.request.extents[0]}",)

    @property
    def lineage(self) -> str:
        return self.kind

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        return objects_inputs()

    @property
    def template(self) -> Template:
        return objects_template()

    def run(self, workspace: Workspace, out: Path) -> None:  # noqa: ARG002
        build_objects(out)


def _objects_name(step: ModelStep) -> str:
    return f"{step.request.name}/{ObjectsStep.kind}"


def _linked_objects(step: ModelStep, workspace: Workspace, out: Path) -> Mapping[str, str]:
    """Settings with which a build backend links the result of `ObjectsStep`."""
    objects = out.with_name(f"{out.name}-objects")
    workspace.store.materialize(workspace.records[_objects_name(step)], objects, link=True)
    return objects_settings(objects)


@dataclass(frozen=True)
class RuntimeStep(ModelStep, LocalStep):
    """Builds modelwheel-runtime, which wheels with `bindings: shared` need, for this Python."""

    kind = "runtime"

    @property
    def needs(self) -> tuple[str, ...]:
        return (_objects_name(self),)

    @property
    def waits_for(self) -> tuple[str, ...]:
        # A model that is refused needs no wheels.
        return (f"{self.request.name}/reference",)

    @property
    def lineage(self) -> str:
        return self.kind

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        return runtime_inputs()

    @property
    def template(self) -> Template:
        return runtime_template()

    def run(self, workspace: Workspace, out: Path) -> None:
        build_runtime("wheel", out, _linked_objects(self, workspace, out))


@dataclass(frozen=True)
class VerifyStep(ModelStep, LocalStep):
    """Installs the wheel into an empty environment and compares it with TensorFlow's outputs."""

    kind = "verify"

    @property
    def needs(self) -> tuple[str, ...]:
        name = self.request.name
        runtime = (f"{name}/runtime",) if self.bindings == "shared" else ()
        return (f"{name}/reference", f"{name}/wheel", *runtime)

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        reference, *wheels = (records[name] for name in self.needs)
        return {
            "wheels": [wheel.hashes for wheel in wheels],
            "reference": reference.files[ARRAYS].sha256,
            # Only levels that this machine's CPU has are verified.
            "cpu": cpu_level().name,
        }

    def run(self, workspace: Workspace, out: Path) -> None:
        reference, *records = (workspace.records[name] for name in self.needs)
        directory = out.with_name(f"{out.name}-wheel")
        for record in records:
            workspace.store.materialize(record, directory)
        wheel, *needed = (directory / name for record in records for name in record.files)
        opened = open_wheel(wheel)
        report = verify_wheel(
            opened,
            workspace.sandbox,
            workspace.store.path(reference, ARRAYS),
            needed,
            python=workspace.take_environment(),
        )
        require_passed(report, wheel.name, replaced_in(opened.manifest))
        (out / REPORT).write_bytes(dump_report(report))


@dataclass(frozen=True)
class SdistStep(_DistributionStep):
    """Packs the rendered project without building it."""

    kind = "sdist"

    def tools(self) -> dict[str, Any]:
        return {
            "needed": needed_sources(self.bindings),
            "backend": installed_version("scikit-build-core"),
        }

    def pack(self, project: Path, workspace: Workspace, out: Path) -> None:  # noqa: ARG002
        add_needed_sources(self.bindings, project)
        # After everything else, because it lists every file.
        write_checksums(project)
        build_sdist(project, out)
