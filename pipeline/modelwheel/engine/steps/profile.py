"""The step that builds the program which times each step of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...packaging.backend import build_environment
from ...packaging.profile import build_profile
from ...packaging.template import (
    PROFILE_OVERLAYS,
    Template,
    combine_overlays,
    template_digest,
)
from ...store.store import Store
from .base import LocalStep, Records, Workspace
from .model import ModelStep

PROGRAM = "profile"
"""What the step puts into its result."""


@dataclass(frozen=True)
class ProfileStep(ModelStep, LocalStep):
    """Compiles the profiled project into a program for this machine."""

    kind = "profile"

    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/project/profiled",)

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        return {
            "project": records[self.needs[0]].hashes,
            "template": template_digest(self.template),
            "environment": build_environment("shared"),
        }

    @property
    def template(self) -> Template:
        return combine_overlays(PROFILE_OVERLAYS)

    def run(self, workspace: Workspace, out: Path) -> None:
        project = out.with_name(f"{out.name}-project")
        workspace.store.materialize(workspace.records[self.needs[0]], project)
        program = build_profile(project, out.with_name(f"{out.name}-build"))
        program.rename(out / PROGRAM)
