"""The overlays of `wheel_template/`: which projects they make, and that no file hides another."""

from __future__ import annotations

from collections import Counter

import pytest

from modelwheel.packaging.template import (
    BAZEL_OVERLAYS,
    BUNDLE_OVERLAYS,
    KERNELS_OVERLAYS,
    MODEL_OVERLAYS,
    OBJECTS_OVERLAYS,
    PROFILE_OVERLAYS,
    RUNTIME_OVERLAYS,
    combine_overlays,
    list_overlay,
    model_template,
    template_digest,
    template_directory,
)

CMSSW = {f"{name} for CMSSW": (*overlays, "cmssw") for name, overlays in MODEL_OVERLAYS.items()}
PYBIND11 = {
    f"{name} for pybind11": (*overlays, "pybind11") for name, overlays in MODEL_OVERLAYS.items()
}
PROJECTS = {
    **MODEL_OVERLAYS,
    **CMSSW,
    **PYBIND11,
    "runtime": RUNTIME_OVERLAYS,
    "objects": OBJECTS_OVERLAYS,
    "kernels": KERNELS_OVERLAYS,
    "bundle": BUNDLE_OVERLAYS,
    "profile": PROFILE_OVERLAYS,
    "bazel": BAZEL_OVERLAYS,
}


@pytest.mark.parametrize("project", PROJECTS)
def test_no_place_occurs_in_two_overlays_of_a_project(project: str) -> None:
    counts = Counter(place for name in PROJECTS[project] for place, _ in list_overlay(name))
    assert [place for place, count in counts.items() if count > 1] == []
    assert len(combine_overlays(PROJECTS[project])) == counts.total() > 12


def test_every_file_of_the_template_belongs_to_a_project() -> None:
    used = {path for names in PROJECTS.values() for path in combine_overlays(names).values()}
    files = (path for path in template_directory().rglob("*") if path.is_file())
    assert {path for path in files if "__pycache__" not in path.parts} == used


def test_interfaces_choose_overlays() -> None:
    places = {str(place) for place in model_template("shared", ["c", "cpp", "python", "cmssw"])}
    places -= set(map(str, model_template("shared", ["c", "cpp", "python"])))
    assert places == {str(place) for place, _ in list_overlay("cmssw")}
    assert "package/tfaot-model-__name__.xml.in" in places


def test_every_project_has_its_own_digest() -> None:
    assert len({template_digest(combine_overlays(names)) for names in PROJECTS.values()}) == len(
        PROJECTS
    )
