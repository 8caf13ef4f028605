"""The option `--sandbox`: every command that runs a model has it, and none ignores it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer

from modelwheel.cli import app
from modelwheel.cli.sandboxes import open_sandbox
from modelwheel.errors import EnvironmentProblemError, UsageError
from modelwheel.sandbox import choose
from modelwheel.sandbox.policy import Limits, Policy, SandboxError
from tests.support.commands import Modelwheel

RUN_MODELS = [
    *("adopt", "bench", "build", "bundle", "check", "compile", "inspect", "new", "plan", "profile"),
    *("rebuild", "report", "tune", "verify"),
]


def test_the_commands_that_have_it() -> None:
    command = typer.main.get_command(app)
    having = [
        name
        for name, each in vars(command)["commands"].items()
        if any("--sandbox" in parameter.opts for parameter in each.params)
    ]
    assert sorted(having) == RUN_MODELS


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `modelwheel.toml` that counts, on a machine without a sandbox."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(choose, "find_sandbox", lambda: (None, ("there is none",)))
    return tmp_path / "modelwheel.toml"


def test_the_option_overrides_the_file(rules: Path) -> None:
    assert open_sandbox(Policy.PREFERRED).kind == "partial"
    with pytest.raises(SandboxError, match="there is none"):
        open_sandbox(Policy.REQUIRED)
    rules.write_text(
        '[sandbox]\nmode = "preferred"\nseconds = 7\nreading_seconds = 2\nmemory_gb = 1.5\n'
    )
    assert open_sandbox(None).kind == "partial"
    chosen = open_sandbox(Policy.OFF)
    assert chosen.kind == "none"
    assert chosen.limits == Limits(wall_seconds=7, reading_seconds=2, memory_bytes=1_500_000_000)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sandbox")
def test_without_a_word_a_sandbox_is_required(rules: Path) -> None:
    assert not rules.exists()
    with pytest.raises(SandboxError, match="there is none"):
        open_sandbox(None)


def test_plan_says_where_models_would_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"graph")
    spec = tmp_path / "tiny.yaml"
    spec.write_text("model: {name: tiny, version: '1'}\nsource: {directory: model}\n")
    (tmp_path / "modelwheel.toml").write_text('[sandbox]\nmode = "off"\n')
    monkeypatch.chdir(tmp_path)
    modelwheel = Modelwheel(tmp_path / "cache")
    assert modelwheel("plan", spec).out.endswith("\nsandbox: none (switched off)\n")
    shown = modelwheel("plan", spec, "--sandbox", "preferred").out.splitlines()[-1]
    assert shown == f"sandbox: {choose.choose_sandbox(Policy.PREFERRED).name}"
    refused = modelwheel("check", spec, "--spec-only", "--sandbox", "off", code=2)
    assert "--spec-only cannot be combined with --sandbox: it reads no model" in refused.err
    refused = modelwheel("inspect", spec, "--sandbox", "off", code=UsageError.exit_code)
    assert "--sandbox has an effect only with --replay" in refused.err
    assert SandboxError.exit_code == EnvironmentProblemError.exit_code
