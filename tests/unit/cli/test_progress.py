"""The progress of a build, as terminals of different widths show it."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from modelwheel.cli import output
from modelwheel.cli.display.progress import BuildDisplay
from modelwheel.errors import CompileError
from modelwheel.model.findings import Finding
from modelwheel.util.watching import step

_CONTROL = re.compile(r"\x1b\[[^A-Za-z]*[A-Za-z]")

STEPS = [
    "digits-1.0.0/fetch",
    "digits-1.0.0/linux-x86_64/x86-64/b1",
    "digits-1.0.0/linux-x86_64/x86-64-v3/b32",
    "digits-1.0.0/linux-x86_64/x86-64-v4/b32",
]


def lines_of(width: int, *, others: tuple[str, ...] = ()) -> list[str]:
    """What a terminal shows while one of four steps is done and three are running."""
    terminal = io.StringIO()
    display = BuildDisplay(Console(file=terminal, force_terminal=True, width=width))
    with display:
        display.planned([*STEPS, *others])
        for step in STEPS:
            display.started(step)
        display.finished(STEPS[0], 0.1, cached=True)
    lines = re.split(r"[\r\n]+", _CONTROL.sub("", terminal.getvalue()))
    return [line.rstrip() for line in lines if line.strip()]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_bar_count_and_time_are_always_visible(width: int) -> None:
    lines = lines_of(width)
    for line in lines:
        assert len(line) <= width
        assert re.match(r"[━╸╺]{20} +\d+/\d+ 0:00:00", line), line
    assert lines[-1].endswith(" 1/4 0:00:00 linux-x86_64/x86-64/b1 (+2)")


def test_long_names_are_cut_before_the_number_of_other_steps() -> None:
    assert lines_of(50)[-1].endswith(" 1/4 0:00:00 linux-x86_6… (+2)")


def test_the_name_of_the_model_is_shown_where_there_are_several() -> None:
    text = "\n".join(lines_of(120, others=("parity-1.0.0/fetch",)))
    assert "digits-1.0.0/linux-x86_64/x86-64/b1 (+2)" in text
    assert "digits-1.0.0" not in "\n".join(lines_of(120))


def test_how_far_a_step_is_fits_a_terminal_of_80_columns() -> None:
    terminal = io.StringIO()
    with BuildDisplay(Console(file=terminal, force_terminal=True, width=80)) as display:
        display.planned(STEPS[:1])
        display.started(STEPS[0])
        display.progressed(STEPS[0], "1.25 GB of 3.5 GB, 12.5 MB/s")
        display.progressed("another step", "of which nobody knows")
    shown = _CONTROL.sub("", terminal.getvalue())
    assert "0/1 0:00:00 fetch: 1.25 GB of 3.5 GB, 12.5 MB/s" in shown
    assert "nobody" not in shown


def test_a_log_file_gets_a_line_for_each_event() -> None:
    log = io.StringIO()
    with BuildDisplay(Console(file=log, width=120)) as display:
        display.planned(STEPS)
        display.started(STEPS[0])
        display.finished(STEPS[0], 0.1, cached=True)
        display.started(STEPS[1])
        display.finished(STEPS[1], 2.5, cached=False)
        display.started(STEPS[2])
        display.failed(STEPS[2], CompileError("no such [op]"))
    assert log.getvalue().splitlines() == [
        f"done    {STEPS[1]} (2.5 s)",
        f"failed  {STEPS[2]}: no such [op] [MW500]",
    ]


def test_a_dumb_terminal_and_a_quiet_command_get_no_display(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def shown() -> str:
        terminal = io.StringIO()
        with BuildDisplay(Console(file=terminal, force_terminal=True, width=80)) as display:
            display.planned(STEPS)
            display.started(STEPS[0])
            display.finished(STEPS[0], 2.5, cached=False)
        return _CONTROL.sub("", terminal.getvalue()).strip()

    assert "1/4" in shown()
    monkeypatch.setenv("TERM", "dumb")
    assert shown() == f"done    {STEPS[0]} (2.5 s)"
    monkeypatch.setattr(output, "_quiet", True)
    assert shown() == ""
    monkeypatch.setenv("TERM", "xterm")
    assert shown() == ""


def test_warnings_are_shown_even_if_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_quiet", True)
    log = io.StringIO()
    with BuildDisplay(Console(file=log, width=120)) as display:
        display.findings("digits-1.0.0/inspect", [Finding("warning", "range", "no range")])
    assert log.getvalue() == "warning digits-1.0.0/inspect: no range\n"


def test_results_are_printed_where_the_display_was() -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=80)
    with BuildDisplay(console) as display:
        display.planned(STEPS[:2])
        display.started(STEPS[0])
        with display.paused():
            console.print("a result")
        display.started(STEPS[1])
    # It is alone in its line, and the display goes on below it.
    before, _, after = terminal.getvalue().partition("a result\n")
    assert before.endswith("\x1b[2K")
    assert STEPS[1].partition("/")[2] in after or "(+1)" in after


def test_a_step_without_a_model_keeps_its_name() -> None:
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=80)
    with BuildDisplay(console) as display, step("inspecting the model", display):
        pass
    assert "inspecting the model" in terminal.getvalue()


def test_workers_queue_and_time_left_fit_80_columns() -> None:
    terminal = io.StringIO()
    names = [f"model-{n}-1.0.0/linux-x86_64/x86-64-v3/b{n}" for n in range(9000)]
    with BuildDisplay(Console(file=terminal, force_terminal=True, width=80)) as display:
        display.connected("tls://10.0.0.1:8786", "http://10.0.0.1:8787/status")
        display.planned(names)
        for number in range(100):
            display.worker_joined(f"tls://10.0.0.2:{number}", 4)
        for name in names[:401]:
            display.started(name)
        display.finished(names[0], 120.0, cached=False)
    shown = _CONTROL.sub("", terminal.getvalue())
    assert "cluster tls://10.0.0.1:8786; its dashboard is at http://10.0.0.1:8787/status" in shown
    lines = [line.rstrip() for line in re.split(r"[\r\n]+", shown) if line.strip()]
    assert max(map(len, lines)) <= 80
    assert lines[-2].endswith("1/9000 0:00:00 model-1-1.0.0/linux-x86_64/x86-64… (+399)")
    assert lines[-1] == "100 workers, 400 running, 8599 in the queue, about 45 min left"


def test_a_log_says_what_happens_to_workers_and_each_minute_how_far_it_is() -> None:
    log, now = io.StringIO(), [0.0]
    with BuildDisplay(Console(file=log, width=120), clock=lambda: now[0]) as display:
        display.connected("tcp://scheduler:8786", None)
        display.worker_joined("w-1", 2)
        display.planned(STEPS)
        display.started(STEPS[0], "w-1")
        display.worker_lost("w-1", "killed [9]")
        display.retried(STEPS[0], "w-1", 2)
        now[0] = 61.0
        display.finished(STEPS[0], 2.0, cached=True)
        display.started(STEPS[1])
        now[0] = 122.0
        display.finished(STEPS[1], 30.0, cached=False)
    assert log.getvalue().splitlines() == [
        "cluster tcp://scheduler:8786",
        "joined  w-1, which runs 2 steps at once",
        "lost    w-1: killed [9]",
        f"again   {STEPS[0]}: attempt 2, after w-1",
        "so far  1 of 4 steps, 0 running, 3 in the queue",
        f"done    {STEPS[1]} (30 s)",
        "so far  2 of 4 steps, 0 running, 2 in the queue, about 1 min left",
    ]


def test_a_check_has_no_lines_of_steps_but_those_of_its_cluster() -> None:
    log = io.StringIO()
    with BuildDisplay(Console(file=log, width=120), results=False) as display:
        display.connected("tcp://scheduler:8786", "http://scheduler:8787/status")
        display.finished(STEPS[0], 2.0, cached=False)
        display.failed(STEPS[1], CompileError("no"))
    said = "cluster tcp://scheduler:8786; its dashboard is at http://scheduler:8787/status\n"
    assert log.getvalue() == said
