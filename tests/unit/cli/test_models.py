"""Models where a command takes specs: said to be models, or refused by one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel import extras
from modelwheel.cli import models
from modelwheel.cli.models import load_any
from modelwheel.engine import bare_models
from modelwheel.errors import SpecError, UsageError
from modelwheel.spec import Spec
from modelwheel.spec.bare import bare_values, make_bare, name_of_model
from modelwheel.spec.scaffold import ModelDescription, TensorDescription
from tests.support.commands import Modelwheel, write_tiny_spec

FOUND = ModelDescription(("s",), "s", (TensorDescription("x", "float32", (None, 8)),), ())


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a spec and models that nobody reads."""

    def make_specs(named: list[bare_models.BareModel], *_: object) -> list[Spec]:
        return [
            make_bare(bare_values(name_of_model(one.path), one.path, FOUND), one.path)
            for one in named
        ]

    monkeypatch.setenv("MODELWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(bare_models, "make_specs", make_specs)
    monkeypatch.setattr(extras, "require", lambda *_, **__: None)
    monkeypatch.setattr(models, "open_sandbox", lambda _: None)
    work = tmp_path / "work"
    (work / "other").mkdir(parents=True)
    for path in (work / "net.onnx", work / "my net.onnx", work / "other" / "net.onnx"):
        path.write_bytes(b"\x08")
    write_tiny_spec(work)
    monkeypatch.chdir(work)
    return work


@pytest.mark.usefixtures("work")
def test_specs_and_models_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    specs = load_any(["net.onnx", "tiny.yaml", "net.onnx"], None)
    assert [(spec.model.name, spec.is_bare) for spec in specs] == [("tiny", False), ("net", True)]
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "net.onnx has no spec: name net, version 1.0.0, licence Apache-2.0 of the code and none "
        "of the weights, no pinned source.\nTo set them: modelwheel new net --model net.onnx\n"
    )


@pytest.mark.usefixtures("work")
def test_the_command_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    load_any(["my net.onnx"], None)
    assert "\nTo set them: modelwheel new my-net --model 'my net.onnx'\n" in capsys.readouterr().err


@pytest.mark.usefixtures("work")
def test_two_models_of_one_name() -> None:
    with pytest.raises(SpecError, match=r"other/net.onnx and net.onnx would make the same wheel"):
        load_any(["net.onnx", "other/net.onnx"], None)


def test_a_directory_with_both(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "saved_model.pb").write_bytes(b"")
    assert [spec.model.name for spec in load_any([str(work)], None)] == ["tiny"]
    assert "has specs and a SavedModel: this reads the specs" in capsys.readouterr().err


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "--spec-only", "net.onnx"), "--spec-only is for specs, and net.onnx is a model"),
        (("check", "--released-once", "net.onnx"), "--released-once is for specs"),
        (("check", "--on-branch", "main", "net.onnx"), "--on-branch is for specs"),
        (("build", "--tag", "net-1.0.0", "net.onnx"), "--tag is for specs, and net.onnx is"),
        (("build", "--changed-since", "main", "net.onnx"), "--changed-since is for specs"),
    ],
)
def test_options_for_specs(
    modelwheel: Modelwheel, arguments: tuple[str, ...], message: str
) -> None:
    assert message in modelwheel(*arguments, code=UsageError.exit_code).err


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("command", ["plan", "compile", "tune"])
def test_commands_for_specs(modelwheel: Modelwheel, command: str) -> None:
    said = modelwheel(command, "net.onnx", code=SpecError.exit_code).err
    assert "net.onnx is a model, and this takes specs: `modelwheel new NAME" in said


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")
