"""What `check` and `build` refuse before anything slow, and what they leave behind."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import modelwheel
from modelwheel import errors, extras
from modelwheel.api import building
from tests.support.commands import write_tiny_spec


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without anything, and a store; what a build needs is not installed here."""
    monkeypatch.setenv("MODELWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(extras, "require", lambda *_, **__: None)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def build(model: Any, **arguments: Any) -> Any:
    return modelwheel.build(model, sandbox="off", **arguments)


@pytest.mark.parametrize(
    ("model", "arguments", "error", "said"),
    [
        (object(), {}, errors.UsageError, "name: a model object needs one"),
        (object(), {"name": "Two Words"}, errors.SpecError, "Did you mean 'two-words'"),
        (object(), {"name": "../up"}, errors.SpecError, "name: may contain only"),
        (object(), {"name": "net"}, errors.UsageError, "is not a model; pass a path"),
        ("nothing.onnx", {}, errors.SpecError, "there is no model 'nothing.onnx'"),
        ("nothing.yaml", {}, errors.SpecError, "no spec 'nothing.yaml'"),
        ("net.onnx", {"example_inputs": 1}, errors.UsageError, "example_inputs: leave it out"),
        ("net.onnx", {"spec_dir": "specs"}, errors.UsageError, "spec_dir: a file is saved already"),
        ("tiny.yaml", {"name": "x"}, errors.UsageError, "name: tiny.yaml is a spec"),
        ("tiny.yaml", {"batch_sizes": [3]}, errors.UsageError, "3 is not a batch size of"),
        ("tiny.yaml", {"options": {}, "version": "1"}, errors.UsageError, "version, options: tiny"),
        ("net.onnx", {"jobs": 0}, errors.UsageError, "jobs: must be at least 1"),
        ("net.onnx", {"batch_sizes": 4}, errors.UsageError, "batch_sizes: must be a list"),
        ("net.onnx", {"targets": "x86-64"}, errors.UsageError, "targets: must be a list"),
        ("net.onnx", {"options": "x"}, errors.UsageError, "options: must be a dict"),
        (".", {}, errors.UsageError, "one model at a time: '.' has 2 specs"),
    ],
)
def test_what_is_refused(
    model: object,
    arguments: dict[str, Any],
    error: type[errors.ModelwheelError],
    said: str,
    place: Path,
) -> None:
    work = place / "work"
    write_tiny_spec(work)
    (work / "other.yaml").write_text('model: {name: other, version: "1.0.0"}\n')
    (work / "net.onnx").write_bytes(b"")
    with pytest.raises(error, match=said):
        build(model, **arguments)


def test_an_interruption_leaves_nothing_behind(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*call: Any) -> Path:
        (call[-1].directory / "half").write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(building, "save_object", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(object(), name="net")
    assert list((place / "work").iterdir()) == []
    assert [path for path in (place / "cache").rglob("*") if path.is_dir()] == [
        place / "cache" / "tmp"
    ]


def test_messages_do_not_show_where_an_object_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(specs: Any, *_: Any) -> Any:
        raise errors.SpecError(f"{specs[0].path}: targets: none of these")

    def save(*call: Any) -> Path:
        path: Path = call[-1].file(".onnx")
        path.write_bytes(b"")
        return path

    monkeypatch.setattr(building, "save_object", save)
    monkeypatch.setattr(building, "make_specs", refuse)
    with pytest.raises(errors.SpecError) as caught:
        build(object(), name="net")
    assert str(caught.value) == "net.onnx: targets: none of these"


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(errors.UsageError, match="sandbox: 'on' is none of required, preferred"):
        modelwheel.check("net.onnx", sandbox="on")  # type: ignore[arg-type]


def test_it_runs_inside_an_event_loop() -> None:
    async def cell() -> None:
        build("nothing.onnx")

    with pytest.raises(errors.SpecError, match="there is no model"):
        asyncio.run(cell())
