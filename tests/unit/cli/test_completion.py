"""What a shell proposes."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.cli import completion
from modelwheel.levels import LEVELS
from modelwheel.release.cross.targets import CROSS_TARGETS
from tests.support.commands import Modelwheel


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory with specs, models and wheels."""
    for name in (
        "model_specs/digits.yaml",
        "model_specs/parity.json",
        "model_specs/notes.md",
        "dist/model_digits-1.0.0.whl",
        "dist/model_digits-1.0.0.tar.gz",
        "net.onnx",
        "net.txt",
        "[odd].yaml",
        ".hidden.yaml",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    monkeypatch.chdir(tmp_path)


def test_levels_and_platforms() -> None:
    assert list(completion.levels("x86-64-v")) == [n for n in LEVELS if n.startswith("x86-64-v")]
    assert list(completion.platforms("mac")) == ["macos-arm64", "macos-x86_64"]
    assert list(completion.platforms("macos-arm64,mac")) == ["macos-arm64,macos-x86_64"]
    assert list(completion.cross_tags("")) == list(CROSS_TARGETS)


def test_specs() -> None:
    assert list(completion.specs("model_specs/")) == [
        "model_specs/digits.yaml",
        "model_specs/parity.json",
    ]
    # A shell adds no blank behind a directory if there is more than one proposal.
    assert list(completion.specs("mod")) == [
        "model_specs/",
        "model_specs/digits.yaml",
        "model_specs/parity.json",
    ]
    assert set(completion.specs("")) == {
        "[odd].yaml",
        "dist/",
        "model_specs/",
        "model_specs/digits.yaml",
        "model_specs/parity.json",
    }
    assert list(completion.specs("[")) == ["[odd].yaml"]
    assert ".hidden.yaml" not in list(completion.specs(""))


def test_models_and_wheels() -> None:
    assert list(completion.models("net")) == ["net.onnx"]
    assert list(completion.wheels("dist/")) == ["dist/model_digits-1.0.0.whl"]
    assert list(completion.source_distributions("dist/")) == ["dist/model_digits-1.0.0.tar.gz"]
    assert len(list(completion.distributions("dist/m"))) == 2
    assert list(completion.specs_and_wheels("dist/")) == ["dist/model_digits-1.0.0.whl"]


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("build --level x86-64-v3", ["x86-64-v3"]),
        ("compile --platform win", ["windows-amd64"]),
        ("check model_specs/par", ["model_specs/parity.json"]),
        ("new digits --model net", ["net.onnx"]),
        ("verify dist/", ["dist/model_digits-1.0.0.whl"]),
        ("profile --level armv8", [name for name in LEVELS if name.startswith("armv8")]),
    ],
)
def test_the_shell_asks_for_them(tmp_path: Path, line: str, proposed: list[str]) -> None:
    words = f"modelwheel {line}"
    done = Modelwheel(tmp_path / "cache", prefix=("env",))(
        _MODELWHEEL_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" "))
    )
    assert done.out.split() == proposed
