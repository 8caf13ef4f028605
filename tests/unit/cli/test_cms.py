"""The commands of CMS's tools: options that cannot be obeyed are refused before anything slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from modelwheel.cli import cms
from modelwheel.errors import ModelwheelError, SpecError, UsageError

CONFIG = 'model: {name: test, version: "1.0.0"}\ncompilation: {batch_sizes: [1]}\n'


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the extra `cms` installs is not needed to refuse."""
    monkeypatch.setattr("modelwheel.extras.require", lambda *_, **__: None)


def refusal(application: object, *arguments: str | Path) -> ModelwheelError:
    """The error in which a command ends."""
    result = CliRunner().invoke(application, list(map(str, arguments)))  # type: ignore[arg-type]
    assert isinstance(result.exception, ModelwheelError), result.output
    return result.exception


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["model", "--devices", "gpu"], "nothing is known about gpu; give cpu"),
        (["model", "-d", "cpu, tpu"], "nothing is known about tpu; give cpu"),
        (["--table", "--devices", "fpga"], "--devices: unknown device 'fpga'; give cpu"),
        ([], "nothing to check: name a model, or list operations with --table"),
        (["--table", "-k", "serve"], "--serving-key has an effect only with PATH; add it"),
    ],
)
def test_a_check_that_cannot_be_made_is_refused(
    arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modelwheel.cms.compatibility.check_table_format", lambda _: None)
    error = refusal(cms.check_app, *arguments)
    assert isinstance(error, UsageError)
    assert sentence in str(error)


def test_a_configuration_must_be_there(tmp_path: Path) -> None:
    error = refusal(cms.compile_app, "-c", tmp_path / "a.yaml", "-o", tmp_path)
    assert isinstance(error, SpecError)
    assert "--aot-config: there is no file" in str(error)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--tool-name", "a b"], "--tool-name: 'a b' must be"),
        (["--tool-name", ""], "--tool-name: '' must be"),
        (["--additional-flags", "--x=1"], "--additional-flags: --x cannot be obeyed"),
        (["--additional-flags=--target_cpu=armv8-a --target_triple=x86_64-linux"], "armv8-a"),
    ],
)
def test_options_are_checked_before_anything_is_compiled(
    tmp_path: Path, options: list[str], sentence: str
) -> None:
    (tmp_path / "aot_config.yaml").write_text(CONFIG)
    config = ("--aot-config", tmp_path / "aot_config.yaml")
    error = refusal(cms.compile_app, *config, "--output-directory", tmp_path / "out", *options)
    assert sentence in str(error)
    assert not (tmp_path / "out").exists()


def test_a_class_that_a_tool_does_not_have_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "aot_config.yaml"
    config.write_text(CONFIG.replace("[1]", '[1], cpp_class: "foo::Bar"'))
    error = refusal(cms.compile_app, "-c", config, "-o", tmp_path / "out")
    assert "compilation.cpp_class: the classes of a tool are NAME_bsN" in str(error)


def test_paths_may_have_variables_of_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CMSSW_BASE", str(tmp_path))
    error = refusal(cms.compile_app, "-c", "$CMSSW_BASE/missing.yaml", "-o", "${CMSSW_BASE}/x")
    assert f"there is no file '{tmp_path}/missing.yaml'" in str(error)
