"""The step that makes a bundle: a model's static library for programs in C and C++, without Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...assembly.manifest import Manifest
from ...model.reference_result import ARRAYS
from ...packaging.backend import build_environment
from ...packaging.bundle import (
    build_library,
    build_programs,
    remove_programs,
    render_bundle,
    write_memory_header,
)
from ...packaging.checksums import write_checksums
from ...packaging.project import MANIFEST_FILE
from ...packaging.template import Template, bundle_template, template_digest
from ...platforms import WHEEL_PLATFORMS, Platform, host_platform
from ...store.store import Store
from ...util.files import digest_file
from ...util.remembering import installed_version
from ...verify.program import require_passing
from .base import LocalStep, Records, Workspace
from .model import ModelStep


@dataclass(frozen=True)
class BundleStep(ModelStep, LocalStep):
    """Renders a bundle, builds its library for each platform, and runs its test for this one."""

    kind = "bundle"
    static_arena: bool = False
    """Whether the library is one that allocates no memory."""

    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/project", f"{self.request.name}/reference")

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        project, reference = (records[name] for name in self.needs)
        here = host_platform()
        crossed = any(platform != here for platform in self.request.platforms)
        return {
            "project": project.hashes,
            "reference": reference.files[ARRAYS].sha256,
            "template": template_digest(self.template),
            "environment": build_environment("shared") if here in self.request.platforms else None,
            "static_arena": self.static_arena,
            "zig": _cross_compiler() if crossed else None,
        }

    @property
    def template(self) -> Template:
        return bundle_template(self.request.spec.package.interfaces)

    def run(self, workspace: Workspace, out: Path) -> None:
        project, reference = (workspace.records[name] for name in self.needs)
        workspace.store.materialize(project, out)
        reference_arrays = workspace.store.path(reference, ARRAYS)
        render_bundle(out, reference_arrays, static_arena=self.static_arena)
        build = {
            platform: out.with_name(f"{out.name}-build-{platform.name}")
            for platform in self.request.platforms
        }
        for platform in self.request.platforms:
            build_library(out, platform.name, _environment(platform), build[platform])
        write_memory_header(out)
        here = host_platform()
        if here in build:
            build_programs(out, build[here])
            program = build[here] / f"{self.request.spec.module}_test"
            manifest = Manifest.load(out / "platforms" / here.name / MANIFEST_FILE)
            reference_file = out / "tests/reference.bin"
            require_passing(program, reference_file, workspace.sandbox, self.request.name, manifest)
        remove_programs(out, static_arena=self.static_arena)
        # After everything else, because it lists every file.
        write_checksums(out)


def _cross_compiler() -> tuple[str, str]:
    """The inputs of libraries for other systems: the version of zig, and how it is called."""
    from ...release.cross.build import TOOLCHAIN  # of the extra `cross`

    return installed_version("ziglang"), digest_file(TOOLCHAIN).sha256


def _environment(platform: Platform) -> Mapping[str, str]:
    """Variables with which CMake builds for a platform: zig's compiler for others than this one."""
    if platform == host_platform():
        return {}
    from ...release.cross import build as cross  # of the extra `cross`

    target = next(
        wheels
        for wheels in WHEEL_PLATFORMS.values()
        if wheels.platform == platform.name and wheels.libc != "musl"
    )
    return cross.build_environment(target)
