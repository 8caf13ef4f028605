"""Facts in templates: rendered into the files of a project, and part of the keys of what is made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.levels import cmake_flags
from modelwheel.packaging import template
from modelwheel.packaging.facts import template_facts
from modelwheel.packaging.template import model_template, template_digest
from tests.support.projects import render_model


def test_a_project_has_the_options_of_the_levels(tmp_path: Path) -> None:
    render_model(tmp_path, "shared")
    assert cmake_flags() in (tmp_path / "cmake" / "levels.cmake").read_text()


@pytest.mark.parametrize("fact", template_facts())
def test_another_fact_makes_another_wheel(fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = model_template("extension", ["python"])
    before = template_digest(files)
    changed = {**template_facts(), fact: "changed"}
    monkeypatch.setattr(template, "template_facts", lambda: changed)
    assert template_digest(files) != before
