"""Names and places of a tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.cms.tool import (
    check_tool_name,
    default_tool_base,
    default_tool_name,
    in_release_area,
)
from modelwheel.errors import UsageError
from modelwheel.spec import load_spec

SPEC = 'model: {name: test_simple, version: "1.0.0"}'


def test_the_name_of_a_tool_has_dashes(tmp_path: Path) -> None:
    (tmp_path / "aot_config.yaml").write_text(SPEC)
    assert default_tool_name(load_spec(tmp_path / "aot_config.yaml")) == "tfaot-model-test-simple"


@pytest.mark.parametrize("name", ["", "a b", "../x", "-c", "a--b", 'a"b', "a/b", "1a"])
def test_a_tool_needs_a_plain_name(name: str) -> None:
    with pytest.raises(UsageError, match="--tool-name: "):
        check_tool_name(name)
    assert check_tool_name("tfaot-model-a_b2") == "tfaot-model-a_b2"


def test_places_are_below_the_release_area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CMSSW_BASE", str(tmp_path / "area"))
    assert in_release_area(tmp_path / "area" / "tfaot" / "x") == "$CMSSW_BASE/tfaot/x"
    assert default_tool_base(tmp_path / "area" / "tfaot") == "$CMSSW_BASE/tfaot"
    assert in_release_area(tmp_path / "x") == f"{tmp_path.as_posix()}/x"
    with pytest.raises(UsageError, match="scram would read a variable"):
        default_tool_base(tmp_path / "$HOME")
    monkeypatch.delenv("CMSSW_BASE")
    assert default_tool_base(tmp_path / "area") == f"{tmp_path.as_posix()}/area"
