"""Pages of the last builds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from modelwheel.telemetry.events import EventsFile, read_events
from modelwheel.telemetry.history import collect
from tests.support.builds import write
from tests.support.commands import COMMAND, Done, run
from tests.support.html_pages import Page
from tests.unit.telemetry.test_events import say_all


def runs(*arguments: str | Path, code: int = 0) -> Done:
    return run(*COMMAND, "runs", *arguments, code=code)


def show(*paths: Path, out: Path, last: str = "50") -> None:
    assert runs(*paths, "--out", out, "--last", last).err == ""


def test_a_page_says_what_became_of_a_build(tmp_path: Path) -> None:
    show(write(tmp_path / "events.jsonl"), out=tmp_path / "out")
    overview = Page(tmp_path / "out" / "index.html")
    row = "2026-03-01 10:00:00 UTC failed 2 1 1 1 3 2 min 1 tls://scheduler:8786"
    assert row in overview.words
    (link,) = [a["href"] for a in overview.find("a") if str(a["href"]).startswith("builds/")]
    page = Page(tmp_path / "out" / str(link))
    for text in (
        "Result failed Took 2 min Time of all steps 30 s Ran 1 step From the store 1 step, 50 %",
        "Workers 2, 1 lost modelwheel 1.2.0",
        "Failures Step Code Why bad-1/inspect MW400 no\\u202e",
        "freeze 1 0 0 30 s 30 s 30 s 2 MB",
        "Longest steps Step Took Size Worker net-1/freeze/b1 30 s 2 MB w-2",
        "Unfinished steps Step State Worker net-1/freeze/b4 running w-2 bad-1/fetch not started -",
        "Repeated steps Step Attempts Result net-1/freeze/b1 2 has its result",
        "Lost workers Worker When Why w-1 10:00:03 <b>killed</b>",
    ):
        assert text in page.words
    assert page.find("b") == [], "what workers say is text"


def test_the_last_builds_the_newest_first(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", build="0" * 12, day=1)
    write(one, build="2" * 12, day=20, ended=False)
    two = write(tmp_path / "two.jsonl", build="1" * 12, day=3)
    show(one, two, out=tmp_path / "out", last="2")
    links = [a["href"] for a in Page(tmp_path / "out" / "index.html").find("a")]
    builds = [str(link) for link in links if str(link).startswith("builds/")]
    assert builds == [f"builds/{'2' * 12}.html", f"builds/{'1' * 12}.html"]
    killed = Page(tmp_path / "out" / builds[0]).words
    assert "Result unfinished Took 34 s" in killed, "until something was last heard of it"


def test_pages_need_no_other_file_and_no_script(tmp_path: Path) -> None:
    show(write(tmp_path / "events.jsonl"), out=tmp_path / "out")
    for path in (tmp_path / "out").rglob("*.html"):
        page = Page(path)
        assert page.find("script") == []
        assert [html["lang"] for html in page.find("html")] == ["en"]
        assert len(page.find("h1")) == 1
        assert all(th.get("scope") in ("col", "row") for th in page.find("th"))
        for found in [a["href"] for a in page.find("a")] + [s["href"] for s in page.find("link")]:
            target = str(found)
            if not target.startswith(("#", "data:")):
                assert (path.parent / target).is_file(), target
        ids = re.findall(r' id="([^"]*)"', path.read_text())
        assert len(ids) == len(set(ids))


def test_what_a_build_writes_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventsFile(path, pytest.fail) as reporter:
        say_all(reporter)
    (build,) = collect(read_events(path), 1)
    assert (build.result, len(build.steps)) == ("failed", 3)
    done = runs(path, "--out", tmp_path / "out", "--json")
    written = json.loads(done.out)
    assert written["builds"] == [build.id]
    assert all((tmp_path / "out" / name).is_file() for name in written["files"])


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    done = runs(tmp_path / "missing", "--out", tmp_path / "out", code=2)
    assert (
        done.err
        == f"error: cannot read {tmp_path / 'missing'}: No such file or directory [MW203]\n"
    )
    (tmp_path / "file").touch()
    done = runs(write(tmp_path / "e.jsonl"), "--out", tmp_path / "file", code=2)
    assert done.err.startswith(f"error: cannot write to {tmp_path / 'file'}")
    assert done.err.count("\n") == 1
