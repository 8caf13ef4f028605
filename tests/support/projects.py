"""Projects of models, as far as they come from the template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modelwheel.assembly.manifest import Manifest, Model
from modelwheel.packaging.project import render_project
from modelwheel.spec.package import DEFAULT_INTERFACES
from tests.support.index_wheels import make_manifest


def render_model(
    directory: Path,
    bindings: str,
    described: Manifest | None = None,
    interfaces: Sequence[str] = DEFAULT_INTERFACES,
) -> Path:
    """Renders the template for a model without machine code; returns the directory."""
    described = described or make_manifest("digits").model_copy(update={"levels": ("x86-64",)})
    chosen = {"bindings": bindings, "interfaces": interfaces}
    model = Model.model_validate({**described.model.model_dump(), **chosen})
    platform = directory / "platforms" / "linux-x86_64"
    platform.mkdir(parents=True)
    described.model_copy(update={"model": model}).save(platform / "manifest.json")
    render_project(directory)
    return directory
