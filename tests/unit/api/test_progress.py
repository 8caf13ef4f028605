"""Progress: a bar on a terminal and in a notebook, nothing in a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from modelwheel.api import progress
from modelwheel.api.progress import Display
from modelwheel.errors import CompileError
from modelwheel.model.findings import Finding


def shown(*, terminal: bool = False, wanted: bool = True) -> str:
    """What is written while a step runs and another one fails."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100)
    with Display(shown=wanted, console=console) as display:
        display.planned(["net-1.0.0/fetch", "net-1.0.0/[red]", "net-1.0.0/x86-64/b1"])
        display.started("net-1.0.0/[red]")
        display.finished("net-1.0.0/fetch", 0.0, cached=True)
        display.failed("net-1.0.0/[red]", CompileError("no"))
        display.started("net-1.0.0/x86-64/b1")
    return out.getvalue()


def test_a_terminal_shows_what_runs() -> None:
    text = shown(terminal=True)
    assert "2/3" in text
    assert "x86-64/b1" in text


def test_names_are_harmless() -> None:
    out = io.StringIO()
    with Display(console=Console(file=out, force_terminal=True, width=100)) as display:
        display.planned(["net"])
        display.started("[red]net\x1b]0;title\x07")
    assert "\x1b]0" not in out.getvalue()
    assert r"[red]net\x1b]0;title\x07" in out.getvalue()


def test_a_log_shows_nothing() -> None:
    assert shown() == ""
    assert shown(terminal=True, wanted=False) == ""


def test_a_notebook_without_widgets_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda _: None)
    out = io.StringIO()
    console = Console(file=out, width=100)
    console.is_jupyter = True
    display = Display(console=console)
    console.is_jupyter = False  # else Rich would call IPython
    with display:
        display.planned(["net-1.0.0/a", "net-1.0.0/b"])
        display.finished("net-1.0.0/a", 2.0, cached=False)
        display.finished("net-1.0.0/b", 0.0, cached=True)
    assert out.getvalue().splitlines() == ["net-1.0.0/a (2 s)"]


def test_findings_are_kept_for_the_result() -> None:
    display = Display(shown=False)
    display.findings("net", [Finding("warning", "x", "one")])
    display.findings("net", [Finding("note", "y", "two")])
    assert [str(finding) for finding in display.found] == ["one", "two"]
