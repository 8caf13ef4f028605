"""The file of events: whole lines, whatever happens to the build, and read back as what happened."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from modelwheel.errors import CompileError, UsageError
from modelwheel.telemetry.events import FIELDS, Event, EventsFile, read_events
from tests.support.pages import ROOT


def say_all(reporter: EventsFile) -> None:
    """Every event once."""
    reporter.planned(["m-1/fetch", "m-1/freeze/b1"])
    reporter.connected("tls://scheduler:8786", "http://scheduler:8787/status")
    reporter.worker_joined("w-1", 2)
    reporter.started("m-1/fetch")
    reporter.progressed("m-1/fetch", "1 of 2 MB")
    reporter.finished("m-1/fetch", 1.23456, cached=True, size=10)
    reporter.started("m-1/freeze/b1", "w-1")
    reporter.worker_lost("w-1", "killed\n::error::")
    reporter.retried("m-1/freeze/b1", "w-1", 2)
    reporter.finished("m-1/freeze/b1", 2.0, cached=False, size=20)
    reporter.failed("m-1/wheel", CompileError("no \x1b[2J"))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def test_every_event_has_the_fields_that_are_documented(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventsFile(path, pytest.fail) as reporter:
        say_all(reporter)
    written = lines(path)
    assert {line["event"] for line in written} == set(FIELDS)
    for line in written:
        assert set(line) - {"time", "build", "event"} <= set(FIELDS[str(line["event"])]), line
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", str(line["time"]))
    assert len({line["build"] for line in written}) == 1
    steps = [line for line in written if line["event"] in ("cached", "finished")]
    assert [(s["kind"], s["seconds"], s["bytes"], s.get("worker")) for s in steps] == [
        ("fetch", 1.235, 10, None),
        ("freeze", 2.0, 20, "w-1"),
    ]
    assert written[-1]["result"] == "failed"


def test_the_page_has_every_event_and_field() -> None:
    page = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ((?:`\w+`(?:, )?)+|-) \|", page, re.MULTILINE))
    assert {event: tuple(re.findall(r"\w+", rows.get(event, ""))) for event in FIELDS} == FIELDS
    for name, field in Event.model_fields.items():
        assert f"| `{name}` | {field.description} |" in page


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with EventsFile(path, pytest.fail) as reporter:
        say_all(reporter)
    events = list(read_events(path))
    assert [event.event for event in events] == [line["event"] for line in lines(path)]
    assert events[0].time.utcoffset() == timedelta(0)
    assert events[-2].message == "no \x1b[2J"


@pytest.mark.parametrize(
    ("error", "result"),
    [(None, "done"), (ValueError(), "failed"), (KeyboardInterrupt(), "interrupted")],
)
def test_how_a_build_ended(tmp_path: Path, error: BaseException | None, result: str) -> None:
    path = tmp_path / "events.jsonl"
    reporter = EventsFile(path, pytest.fail)
    reporter.__exit__(None if error is None else type(error), error, None)
    assert lines(path)[-1]["result"] == result


def test_builds_share_a_file_and_begin_lines_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"time": "2026-01-01T00:00:00Z", "build": "012345678')  # its machine stopped
    with EventsFile(path, pytest.fail) as one, EventsFile(path, pytest.fail) as two:
        threads = [
            threading.Thread(
                target=lambda r=reporter: [r.started("m-1/x", "w") for _ in range(200)]
            )
            for reporter in (one, two, one)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = list(read_events(path))
    assert len(events) == 2 + 600 + 2
    assert len({event.build for event in events}) == 2


_KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from modelwheel.telemetry.events import EventsFile
for _ in range(40):
    child = os.fork()
    if not child:
        reporter = EventsFile(Path(sys.argv[1]), print)
        while True:
            reporter.planned(["model-1.0.0/linux-x86_64/x86-64-v3/b%d" % n for n in range(20)])
            reporter.started("model-1.0.0/fetch")
    time.sleep(random.uniform(0.003, 0.02))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_killed_build_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=True)
    content = path.read_bytes()
    whole = [line for line in content.split(b"\n")[:-1] if line]
    builds = {event.build for event in read_events(path)}
    assert len(builds) > 20
    # A kill may cut a line between two pages of the file; the next build ended it, and readers leave it out.
    broken = len(whole) - len(list(read_events(path)))
    assert broken <= 2
    assert len(whole) > 1000


def test_a_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write to .*: No such file or directory"):
        EventsFile(tmp_path / "missing" / "events.jsonl", pytest.fail)
    with pytest.raises(UsageError, match=r"cannot write to .*: Is a directory"):
        EventsFile(tmp_path, pytest.fail)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_once_and_stops_no_build() -> None:
    told: list[str] = []
    with EventsFile(Path("/dev/full"), told.append) as reporter:
        say_all(reporter)
    assert told == ["no more events are written to /dev/full: No space left on device"]


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"[]\n{}\n", b"\xff\xfe\n", b'{"event": "began"}\n']
)
def test_a_file_without_events_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.txt"
    path.write_bytes(content)
    with pytest.raises(
        UsageError, match=r"has no events of a build; name a file that --json-events"
    ):
        list(read_events(path))
    with pytest.raises(UsageError, match=r"cannot read .*missing"):
        list(read_events(tmp_path / "missing"))


def test_events_of_later_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    line = {"time": "2027-01-01T00:00:00Z", "build": "0123456789ab", "event": "paused", "new": [1]}
    path.write_text(json.dumps(line) + "\n")
    (event,) = read_events(path)
    assert event.event == "paused"


@pytest.mark.parametrize("build", ["../../0123456", "0123456789ab\n", "0123456789AB", "", "0" * 13])
def test_a_build_is_named_by_digits_alone(tmp_path: Path, build: str) -> None:
    """The name of its page is made of it."""
    path = tmp_path / "events.jsonl"
    line = {"time": "2027-01-01T00:00:00Z", "build": build, "event": "began"}
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(UsageError, match="has no events"):
        list(read_events(path))
