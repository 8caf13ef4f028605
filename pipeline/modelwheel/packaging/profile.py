"""Builds the program that times each step of a model, from a project whose code reads a clock."""

from __future__ import annotations

import os
from pathlib import Path

from .bundle import run_cmake
from .project import load_manifests, project_context
from .template import PROFILE_OVERLAYS, combine_overlays, render


def build_profile(project: Path, build: Path) -> Path:
    """Builds the program; gives its file.

    Args:
        project: The files of a model, with profiled code; the template is rendered around them.
        build: A directory for the build.

    Raises:
        WheelError: The compiler failed.
    """
    render(combine_overlays(PROFILE_OVERLAYS), project_context(load_manifests(project)), project)
    run_cmake(project, build, [], {})
    return build / ("profile.exe" if os.name == "nt" else "profile")
