"""The tables and the last lines that commands print."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from modelwheel.cli.display.console import print_below
from modelwheel.cli.display.markdown import show_builds
from modelwheel.cli.display.tables import (
    print_checked,
    print_diagnosis,
    print_failures,
    print_measurements,
    print_results,
)
from modelwheel.engine.build import BuildResult
from modelwheel.engine.check_models import CheckedModel
from modelwheel.engine.doctor import Finding
from modelwheel.errors import CompileError, UnsupportedModelError
from modelwheel.model.findings import Finding as Found
from modelwheel.request import make_request
from modelwheel.spec import load_spec


@pytest.fixture
def failed(tmp_path: Path) -> BuildResult:
    (tmp_path / "dtln.yaml").write_text(
        'model: {name: dtln, version: "1.0.0"}\nsource: {directory: model}\n'
    )
    result = BuildResult(make_request(load_spec(tmp_path / "dtln.yaml")))
    result.errors.append(("dtln-1.0.0/reference", CompileError("shapes [1] and [2]")))
    return result


def test_a_failure_is_one_line(failed: BuildResult, capsys: pytest.CaptureFixture[str]) -> None:
    print_failures([failed])
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "dtln 1.0.0 was not built: reference failed: shapes [1] and [2] [MW500]\n"


def test_several_failures_are_one_block(
    failed: BuildResult, capsys: pytest.CaptureFixture[str]
) -> None:
    for step in ("dtln-1.0.0/linux-x86_64/x86-64/b1", "dtln-1.0.0/linux-x86_64/x86-64/b4"):
        failed.errors.append((step, CompileError("no such op")))
    print_failures([failed])
    assert capsys.readouterr().err.splitlines() == [
        "dtln 1.0.0 was not built: reference failed: shapes [1] and [2] [MW500]",
        "  linux-x86_64/x86-64/b1, linux-x86_64/x86-64/b4 failed: no such op [MW500]",
    ]


def test_failures_in_the_summary(failed: BuildResult) -> None:
    assert r"reference failed: shapes \[1\] and \[2\]" in show_builds([failed])
    assert "not built" in show_builds([failed])


def test_what_failed_is_not_among_the_results(
    failed: BuildResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_results([failed])
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_what_a_build_is_for(
    failed: BuildResult,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("modelwheel.cli.display.tables._sizes", lambda _: "sizes")
    failed.wheel = tmp_path / "model_dtln-1.0.0-py3-none-any.whl"
    failed.needed = (tmp_path / "modelwheel_runtime-1.0.0.whl",)
    print_results([failed])
    shown = capsys.readouterr()
    assert "Requires modelwheel_runtime-1.0.0.whl (in the same directory)\n" in shown.out
    assert shown.err == "For this machine; `modelwheel wheel` makes wheels to share.\n"


def test_the_last_lines_of_a_diagnosis(capsys: pytest.CaptureFixture[str]) -> None:
    fine = Finding("disk", ok=True, found="9 GB", fix=None, required=True)
    compiler = Finding("C++ compiler", ok=False, found="none", fix="install", required=True)
    engine = Finding("containers", ok=False, found="none", fix="install", required=False)
    print_diagnosis([fine])
    assert capsys.readouterr().out.splitlines()[-1] == "Ready to build wheels"
    print_diagnosis([fine, compiler, engine])
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "Not ready to build wheels: C++ compiler",
        "Missing, but only some commands need it: containers",
    ]


def test_nothing_to_measure(capsys: pytest.CaptureFixture[str]) -> None:
    print_measurements([])
    assert capsys.readouterr().out == "no wheel for this machine\n"


CHECKED = [
    CheckedModel("net-1.0.0", "net", "serving", verdict="ok net: 2 kinds of operation, all compiled"),
    CheckedModel(
        "text-1.0.0",
        "text",
        "serving",
        findings=(
            Found("error", "string-tensor", "input 'words' is a string", "map it to numbers"),
            Found("note", "range", "input 'n' takes 0 <= x < 9"),
        ),
        verdict="refused text: input 'words' is a string",
    ),
    CheckedModel("odd-1.0.0", "odd", "serving", UnsupportedModelError("no such op"), verdict="refused odd"),
]  # fmt: skip


def test_the_verdict_comes_before_its_errors_and_totals_come_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_checked(CHECKED)
    assert capsys.readouterr().out.splitlines() == [
        "ok net: 2 kinds of operation, all compiled",
        "refused text: 1 error",
        "  error text: input 'words' is a string; map it to numbers [MW403]",
        "  note text: input 'n' takes 0 <= x < 9",
        "refused odd: 1 error",
        "  error odd: no such op [MW400]",
        "3 models: 1 ok, 2 refused (text, odd)",
    ]


def test_one_model_has_no_totals(capsys: pytest.CaptureFixture[str]) -> None:
    print_checked(CHECKED[:1])
    assert capsys.readouterr().out.splitlines() == ["ok net: 2 kinds of operation, all compiled"]


def test_lines_below_another_are_indented_on_a_terminal() -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=40, soft_wrap=True, no_color=True)
    path = "/a/path/that/is/longer/than/the/terminal/is/wide.yaml"
    print_below(console, "error net:", f"the first words of a long sentence name {path} and go on")
    lines = terminal.getvalue().splitlines()
    assert lines[0] == "  error net: the first words of a long"
    assert lines[1:] == ["    sentence name", f"    {path}", "    and go on"]
