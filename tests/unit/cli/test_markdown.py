"""Summaries for pull requests: a table of what was measured, in which no text can become markup."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from modelwheel.accuracy import COLUMNS, Truth
from modelwheel.cli.display.markdown import append, measured_cells, show_errors, show_measurements
from modelwheel.errors import VerifyError
from modelwheel.release.measure import Measurement, Released
from modelwheel.util.markdown import escape, table
from modelwheel.util.text import one_line
from modelwheel.wheelfile.reports import Comparison, Report, Timing
from tests.support.index_wheels import make_manifest, make_wheel

HOSTILE = [
    "| cell | cell |", "a\n\n# heading", "<img src=x onerror=alert(1)>", "[click](javascript:x)",
    "`code`", "**bold** __bold__ ~~gone~~", "&lt;b&gt;", "https://example.org/", "\\", "\\|", "<br>",
    "![](https://example.org/pixel.png)", "<!-- gone -->", "::error::x", "a ##[error]", "\u202eevil", "- item", "1. x",
]  # fmt: skip


def cells(markdown: str) -> list[list[str]]:
    """The rows of the tables in a text, each cell as a reader sees it."""
    tokens = MarkdownIt("commonmark").enable("table").enable("strikethrough").parse(markdown)
    assert tokens[0].type == "table_open"
    assert tokens[-1].type == "table_close"
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            shown = ""
            for child in token.children or ():
                # Nothing but text and our own line ends.
                assert child.type in ("text", "text_special") or child.content == "<br>", child
                shown += "\n" if child.type == "html_inline" else child.content
            rows[-1].append(shown)
    return rows


def plain(text: str) -> str:
    return one_line(" ".join(text.split()))


@given(st.text(max_size=80))
@example("a | b")
def test_any_text_is_shown_as_it_is(text: str) -> None:
    assert cells(table(["a", "b"], [[escape_free(text), "end"]]))[1:] == [[plain(text), "end"]]


def escape_free(text: str) -> str:
    """Without line ends, which a cell keeps."""
    return " ".join(text.split())


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text(text: str) -> None:
    assert cells(table(["x"], [[" ".join(text.split())]]))[1:] == [[plain(text)]]


def test_long_messages_are_cut() -> None:
    assert len(escape("x" * 5000)) < 1100


def _report(*, passed: bool = True, truth: Truth = Truth()) -> Report:  # noqa: B008 - frozen
    compared = Comparison(
        level="x86-64-v3", rows=4, rule="4:4", output="scores|<b>", absolute=4e-6, relative=1e-6,
        limit=1e-5, passed=passed,
    )  # fmt: skip
    return Report(passed=passed, comparisons=(compared,), skipped={}, truth=truth)


def _timing(rows: int, nanoseconds: float, framework: str = "") -> Timing:
    return Timing(
        level="" if framework else "x86-64-v3",
        rows=rows,
        rule=f"{rows}:{rows}",
        nanoseconds=nanoseconds,
        framework=framework,
    )


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = make_wheel(tmp_path, "digits", version="1.1.0")
    path.write_bytes(bytes(6000))
    return path


def test_a_wheel_beside_the_released_one(wheel: Path) -> None:
    manifest = make_manifest("digits", version="1.1.0")
    timings = (_timing(1, 4000.0), _timing(4, 3_970_000.0))
    measurement = Measurement(
        wheel,
        wheel.stat().st_size,
        manifest,
        _report(),
        timings,
        Released("1.0.0", 5000, (_timing(1, 6000.0),)),
        framework=(_timing(4, 39_700_000.0, "TensorFlow 2.21.0"),),
    )
    head, row = cells(show_measurements([measurement]))
    columns, errors = cells(show_errors([measurement]))
    assert head == ["model", "wheel", "largest error", "time of a call"]
    assert row == [
        "digits 1.1.0\nreleased: 1.0.0",
        "6 kB\nreleased: 5 kB (+20.0%)",
        "4e-06 of 1e-05 (40.0%)\nscores|<b>, x86-64-v3, 4 rows",
        (
            "1 row: 4 µs, released 6 µs (1.50 x as fast)\n"
            "4 rows: 3.97 ms, TensorFlow 2.21.0: 39.7 ms (10 x as fast)"
        ),
    ]
    assert columns == ["model", *COLUMNS, "tolerance"]
    assert errors == [
        "digits", "scores|<b>", "x86-64-v3", "4", "4.00e-06", "1.00e-06", "", "", "1.00e-05",
    ]  # fmt: skip


def test_what_was_not_compared_follows_the_tables(wheel: Path) -> None:
    report = _report(truth=Truth(undefined={"nan": "output '<b>' differs"}))
    report = report.model_copy(update={"skipped": {"x86-64-v4": "no"}, "emulated": ("x86-64-v3",)})
    text = show_errors([Measurement(wheel, 10, make_manifest("digits"), report)])
    notes = [
        "".join(child.content for child in token.children or ())
        for token in MarkdownIt("commonmark").enable("table").parse(text)
        if token.type == "inline" and token.content.startswith("digits:")
    ]
    assert notes == [
        "digits: Rows of NaN were not compared: output '<b>' differs",
        "digits: Not run: x86-64-v4 (no)",
        "digits: Run by qemu: x86-64-v3",
    ]


def test_a_wheel_without_a_release(wheel: Path) -> None:
    manifest = make_manifest("digits", version="1.1.0")
    measurement = Measurement(
        wheel, wheel.stat().st_size, manifest, _report(), (_timing(1, 4000.0),)
    )
    assert measured_cells(measurement)[:2] == ["digits 1.1.0", "6 kB"]
    assert measured_cells(measurement)[3] == "1 row: 4 µs"


def test_what_is_wrong_is_in_the_summary(wheel: Path) -> None:
    error = VerifyError("2 of 3 exceed\ntheir | tolerance")
    measurement = Measurement(
        wheel, 10, make_manifest("digits"), _report(passed=False), error=error
    )
    assert cells(show_measurements([measurement]))[1][2:] == [
        "4e-06 of 1e-05 (40.0%)\nscores|<b>, x86-64-v3, 4 rows\n2 of 3 exceed their | tolerance [MW620]",
        "",
    ]


def test_summaries_are_appended(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    append(summary, "one\n")
    append(summary, "two\n")
    assert summary.read_text() == "one\n\ntwo\n\n"
