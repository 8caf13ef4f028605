"""The comment on a pull request: its mark, its length, what it says, and that no text in it can be markup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from modelwheel.cli.display.pull_request import MARKER, show_report, write_comment
from modelwheel.release.measure import Measurement, Released
from modelwheel.release.pictures import draw_times
from modelwheel.wheelfile.reports import Timing
from tests.support.hostile_text import EVERYTHING, require_harmless
from tests.support.index_wheels import make_manifest, make_wheel


def _times(*nanoseconds: float, framework: str = "") -> tuple[Timing, ...]:
    return tuple(
        Timing(level="v3", rows=4**n, rule="", nanoseconds=value, framework=framework)
        for n, value in enumerate(nanoseconds)
    )


@pytest.fixture
def measured(tmp_path: Path) -> Measurement:
    wheel = make_wheel(tmp_path, "digits", version="1.1.0")
    changes = ("input image is gone: float32 [batch]", "CPU level added: x86-64-v4")
    return Measurement(
        wheel,
        6000,
        make_manifest("digits", version="1.1.0"),
        timings=_times(4000, 9000),
        framework=_times(90_000, 400_000, framework="TensorFlow 2.21.0 on one thread"),
        released=Released("1.0.0", 5000, _times(5000, 9900), differences=changes),
    )


def test_a_comment(measured: Measurement, tmp_path: Path) -> None:
    file = tmp_path / "comment.md"
    write_comment(file, show_report([measured], "not compared: why"))
    text = file.read_text()
    assert text.startswith("<!-- modelwheel -->\n\n| model | wheel |")
    assert (
        "1 row: 4 µs, released 5 µs (1.25 x as fast), TensorFlow 2.21.0 on one thread: 90 µs"
        in text
    )
    assert "\nnot compared: why\n" in text
    assert "- digits 1.1.0, compared with 1.0.0\n  - input image is gone: float32 " in text
    assert "  - CPU level added: x86-64-v4\n" in text


def test_the_chart_is_one_that_github_draws(measured: Measurement) -> None:
    (fence,) = [
        token.content
        for token in MarkdownIt().parse("\n".join(show_report([measured], "")))
        if token.type == "fence" and token.info == "mermaid"
    ]
    assert fence.splitlines() == [
        "xychart-beta",
        '    title "digits_1.1.0: time of a call"',
        '    x-axis "rows" [1, 4]',
        '    y-axis "µs"',
        "    bar [4, 9]",
        "    line [90, 400]",
        "    line [5, 9.9]",
    ]


def test_nothing_is_drawn_without_something_to_compare(measured: Measurement) -> None:
    alone = replace(measured, framework=(), released=None)
    assert "mermaid" not in "".join(show_report([alone], ""))


def test_a_version_that_changes_nothing_says_so(measured: Measurement) -> None:
    same = replace(measured, released=Released("1.0.0", 5000, ()))
    assert "  - the same inputs, outputs, levels" in "".join(show_report([same], ""))


def test_a_comment_fits_and_says_what_does_not(measured: Measurement, tmp_path: Path) -> None:
    file = tmp_path / "comment.md"
    write_comment(file, show_report([measured] * 300, ""))
    text = file.read_text()
    assert len(text) <= 65_536
    assert text.startswith(f"{MARKER}\n")
    assert text.endswith("the summary of the check has everything.\n")


def test_there_is_a_comment_without_a_wheel(tmp_path: Path) -> None:
    file = tmp_path / "comment.md"
    write_comment(file, show_report([], ""))
    assert file.read_text() == f"{MARKER}\n\nNo wheel was built for this machine.\n"


def test_hostile_names_stay_text(measured: Measurement) -> None:
    manifest = measured.manifest
    model = manifest.model.model_copy(update={"name": EVERYTHING, "version": "1`\n```\n<img>"})
    released = Released(EVERYTHING, 1, _times(5000, 9900), differences=(EVERYTHING,))
    hostile = replace(
        measured, manifest=manifest.model_copy(update={"model": model}), released=released
    )
    text = "\n".join(show_report([hostile], EVERYTHING))
    require_harmless(text)
    kinds = {token.type for token in MarkdownIt("commonmark").enable("table").parse(text)}
    assert not kinds & {"html_block", "heading_open", "hr", "blockquote_open"}
    require_harmless(draw_times(hostile))
    assert "<img" not in draw_times(hostile)


def test_a_picture_has_a_bar_for_each_time(measured: Measurement) -> None:
    picture = draw_times(measured)
    assert picture.count("<rect x=") == 6
    assert ">4 rows, TensorFlow 2.21.0<" in picture
    assert ">400 µs<" in picture
    assert draw_times(replace(measured, timings=())) == ""
