"""What follows from a spec: above all, where its model is and what is told of that place."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.request import source_of
from modelwheel.source import fetch as source
from modelwheel.spec import load_spec

COMMIT = "0123456789" * 4


@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_a_relative_repository_is_found_but_not_told_of(tmp_path: Path, place: str) -> None:
    spec = tmp_path / place / "model.yaml"
    spec.parent.mkdir()
    spec.write_text(
        'model: {name: m, version: "1"}\n'
        f'source: {{git: ../data, commit: "{COMMIT}", path: saved_model}}\n',
        encoding="utf-8",
    )
    origin = source_of(load_spec(spec))
    assert isinstance(origin, source.GitSource)
    assert Path(origin.url).resolve() == (tmp_path / "data").resolve()
    told = source.provenance(origin, "ab" * 32)
    assert told["url"] == "../data"
    assert str(tmp_path) not in str(told)


def test_a_remote_repository_is_told_of(tmp_path: Path) -> None:
    spec = tmp_path / "model.yaml"
    spec.write_text(
        'model: {name: m, version: "1"}\n'
        f'source: {{git: "https://example.org/data.git", commit: "{COMMIT}"}}\n',
        encoding="utf-8",
    )
    told = source.provenance(source_of(load_spec(spec)), "ab" * 32)
    assert told["url"] == "https://example.org/data.git"
    assert told["commit"] == COMMIT
