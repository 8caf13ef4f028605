"""Publishing to a real index, and to one that fails in every way an index can fail."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

import keyring
import keyring.backend
import pytest

from modelwheel.errors import ModelwheelError, PublishError, UsageError
from modelwheel.index.plan import Plan, Rules
from modelwheel.index.publish import Publisher
from modelwheel.util.http import Patience
from tests.support.indexes import (
    PASSWORD,
    USER,
    Faults,
    Index,
    make_sdist,
    make_wheel,
    serve_faulty,
    serve_index,
)

QUICK = Patience(attempts=4, first_wait=0.01, longest_wait=0.2, timeout=0.7)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with serve_index(tmp_path_factory.mktemp("index")) as index:
        yield index


@pytest.fixture
def index(server: Index) -> Index:
    for path in server.directory.iterdir():
        path.unlink()
    return server


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("TWINE_", "PIP_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TWINE_USERNAME", USER)
    monkeypatch.setenv("TWINE_PASSWORD", PASSWORD)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.fixture(autouse=True)
def canary(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[list[str]]:
    """Fails a test that lets the password out; collects what publishers report."""
    caplog.set_level(logging.DEBUG)
    lines: list[str] = []
    yield lines
    assert PASSWORD not in caplog.text + "\n".join(lines) + "".join(capfd.readouterr())


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    return [make_wheel(tmp_path / "dist", name) for name in ("model-a", "model-b")]


def plan(url: str, files: list[Path], rules: Rules | None = None) -> Plan:
    with Publisher(url, patience=QUICK, rules=rules) as publisher:
        return publisher.plan(files)


def publish(url: str, files: list[Path], lines: list[str]) -> list[str]:
    with Publisher(url, patience=QUICK, report=lines.append) as publisher:
        return publisher.publish(publisher.plan(files))


def refusal(url: str, files: list[Path], lines: list[str]) -> str:
    with pytest.raises(PublishError) as caught:
        publish(url, files, lines)
    sentence = str(caught.value)
    assert PASSWORD not in sentence
    assert "\n" not in sentence
    return sentence


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "modelwheel", "--verbose", "publish", *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert PASSWORD not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def contents(files: list[Path]) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files}


def test_a_release_is_planned_uploaded_and_done_once(index: Index, wheels: list[Path]) -> None:
    url = ["--repository-url", index.url]
    done = run(*wheels, *url, "--dry-run", "--json")
    planned = json.loads(done.stdout)
    assert planned["new_projects"] == ["model-a", "model-b"]
    assert [file["action"] for file in planned["files"]] == ["upload", "upload"]
    assert (planned["uploaded"], planned["verified"]) == ([], False)
    assert index.release() == {}

    first = run(*wheels, *url)
    assert first.returncode == 0, first.stderr
    assert "2 new project names" in first.stdout
    assert "2 uploaded, 2 compared" in first.stdout
    assert index.release() == contents(wheels)

    second = json.loads(run(*wheels, *url, "--json").stdout)
    assert (second["uploaded"], second["verified"], second["new_projects"]) == ([], True, [])
    assert [file["action"] for file in second["files"]] == ["skip", "skip"]


def test_pip_installs_what_was_published(index: Index, tmp_path: Path, canary: list[str]) -> None:
    wheel = make_wheel(tmp_path, "model-installed", content="answer = 42\n")
    publish(index.url, [wheel], canary)
    target = tmp_path / "target"
    options = ["--no-cache-dir", "--no-deps", "--disable-pip-version-check", "--target"]
    argv = [sys.executable, "-m", "pip", "install", "--index-url", f"{index.url}simple/", *options]
    subprocess.run([*argv, str(target), "model-installed==1.0"], check=True, capture_output=True)
    assert (target / "model_installed.py").read_text() == "answer = 42\n"


def test_changed_bytes_are_refused(index: Index, wheels: list[Path], canary: list[str]) -> None:
    publish(index.url, wheels[:1], canary)
    before = index.release()
    make_wheel(wheels[0].parent, "model-a", content="changed = True\n")
    done = run(*wheels, "--repository-url", index.url)
    assert done.returncode == PublishError.exit_code
    assert "on the index with different contents; a published version never changes" in done.stderr
    assert index.release() == before  # of the other wheel, nothing is uploaded either


def test_a_file_that_appears_between_plan_and_upload_is_not_overwritten(
    index: Index, wheels: list[Path], canary: list[str]
) -> None:
    with Publisher(index.url, patience=QUICK, report=canary.append) as publisher:
        planned = publisher.plan(wheels)
        make_wheel(index.directory, "model-a", content="somebody else's\n")
        before = index.release()
        with pytest.raises(PublishError, match="with different contents"):
            publisher.publish(planned)
    assert index.release() == before


def test_a_wrong_password_is_one_sentence(
    index: Index, wheels: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWINE_PASSWORD", f"{PASSWORD}-mistyped")
    done = run(*wheels, "--repository-url", index.url)
    assert done.returncode == PublishError.exit_code
    assert "rejects the user name or password (403): set TWINE_USERNAME" in done.stderr
    assert index.release() == {}


def test_missing_credentials_are_told(
    index: Index, wheels: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TWINE_PASSWORD")
    done = run(*wheels, "--repository-url", index.url)
    assert done.returncode == PublishError.exit_code
    assert "no user and password for http://127.0.0.1" in done.stderr


class _Keyring(keyring.backend.KeyringBackend):
    """Keeps passwords in memory."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self._passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._passwords[service, username] = password


def test_the_keyring_is_asked(
    index: Index, wheels: list[Path], canary: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TWINE_PASSWORD")
    before = keyring.get_keyring()
    keyring.set_keyring(_Keyring())
    keyring.set_password(index.url, USER, PASSWORD)
    try:
        publish(index.url, wheels, canary)
    finally:
        keyring.set_keyring(before)
    assert index.release() == contents(wheels)


def test_a_password_in_the_address_is_refused_unseen(wheels: list[Path]) -> None:
    done = run(*wheels, "--repository-url", f"http://{USER}:{PASSWORD}@127.0.0.1:1/")
    assert done.returncode == PublishError.exit_code
    assert (
        "--repository-url http://***@127.0.0.1:1/: an address must not contain credentials"
        in done.stderr
    )


def test_an_index_that_wants_a_password_for_reading(
    tmp_path: Path, wheels: list[Path], canary: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_index(tmp_path / "private", "update,list,download") as private:
        assert publish(private.url, wheels, canary) == [path.name for path in wheels]
        assert private.release() == contents(wheels)
        monkeypatch.delenv("TWINE_PASSWORD")
        assert "access denied (401)" in refusal(private.url, wheels, canary)


@pytest.mark.parametrize(
    "fault",
    ["429", "500", "503", "reset", "hang", "store-500", "store-reset", "store-hang"],
)
def test_every_failure_ends_in_one_identical_release(
    index: Index, wheels: list[Path], canary: list[str], fault: str
) -> None:
    faults = Faults(uploads=[fault])
    with serve_faulty(index, faults) as url:
        assert publish(url, wheels, canary) == [path.name for path in wheels]
        assert faults.posts == (2 if fault.startswith("store-") else 3)
        assert publish(url, wheels, canary) == []
    assert index.release() == contents(wheels)


def test_retry_after_is_honoured_within_a_limit(
    index: Index, wheels: list[Path], canary: list[str]
) -> None:
    with serve_faulty(index, Faults(uploads=["429"])) as url:
        publish(url, wheels, canary)
    assert f"{wheels[0].name}: the index answered 429; trying again in 0.2 s (2 of 4)" in canary
    patience = Patience(first_wait=1, longest_wait=60)
    assert [patience.wait(attempt) for attempt in (0, 1, 2, 9)] == [1, 2, 4, 60]
    assert [patience.wait(0, said) for said in ("7", "3600", "soon", "-5")] == [7, 60, 1, 1]
    in_an_hour = datetime.now(timezone.utc) + timedelta(hours=1)
    assert patience.wait(0, format_datetime(in_an_hour, usegmt=True)) == 60


def test_a_file_that_is_stored_but_not_yet_listed_is_waited_for(
    index: Index, wheels: list[Path], canary: list[str]
) -> None:
    # Page of the plan; after the 500; after the refusal of a second upload; then it is listed.
    faults = Faults(uploads=["store-500"], pages=["", "404", "404"])
    with serve_faulty(index, faults) as url:
        assert publish(url, wheels[:1], canary) == [wheels[0].name]
    assert faults.posts == 2
    assert index.release() == contents(wheels[:1])


def test_a_publication_that_broke_off_goes_on_with_what_is_missing(
    index: Index, wheels: list[Path], canary: list[str]
) -> None:
    faults = Faults(uploads=["", *["reset"] * QUICK.attempts])
    with serve_faulty(index, faults) as url:
        sentence = refusal(url, wheels, canary)
        assert f"{wheels[1].name} could not be uploaded: the connection" in sentence
        assert "run the same command again" in sentence
        assert index.release() == contents(wheels[:1])
        assert publish(url, wheels, canary) == [wheels[1].name]
    assert index.release() == contents(wheels)


def test_reading_is_repeated_too(index: Index, wheels: list[Path], canary: list[str]) -> None:
    faults = Faults(pages=["503", "reset", "429"], downloads=["hang", "500"])
    with serve_faulty(index, faults) as url:
        publish(url, wheels, canary)
    assert (faults.pages, faults.downloads) == ([], [])
    assert index.release() == contents(wheels)


def test_an_index_that_serves_other_bytes_is_found_out(
    index: Index, wheels: list[Path], canary: list[str]
) -> None:
    with serve_faulty(index, Faults(downloads=["corrupt"])) as url:
        assert "the index serves SHA-256" in refusal(url, wheels, canary)


def test_a_final_refusal_is_not_repeated(
    index: Index, wheels: list[Path], canary: list[str]
) -> None:
    faults = Faults(uploads=["413"])
    with serve_faulty(index, faults) as url:
        said = refusal(url, wheels, canary)
    assert said == f"the index rejects {wheels[0].name}: 413 because ***"
    assert faults.posts == 1


def test_other_hosts_are_neither_asked_nor_sent_to(
    index: Index, wheels: list[Path], canary: list[str]
) -> None:
    faults = Faults(uploads=["302"], pages=["302"])  # an index may point at a larger one
    with serve_faulty(index, faults) as url:
        assert plan(url, wheels[:1]).new_projects == ("model-a",)
        assert "redirects uploads (302)" in refusal(url, wheels, canary)
    assert index.release() == {}


def test_a_file_that_changes_after_the_plan_is_not_uploaded(
    index: Index, wheels: list[Path]
) -> None:
    with Publisher(index.url, patience=QUICK) as publisher:
        planned = publisher.plan(wheels)
        make_wheel(wheels[0].parent, "model-a", content="changed = True\n")
        with pytest.raises(PublishError, match="has changed since it was planned"):
            publisher.publish(planned)
    assert index.release() == {}


def test_source_distributions_come_last(
    index: Index, wheels: list[Path], canary: list[str]
) -> None:
    sdist = make_sdist(wheels[0].parent, "model-a")
    in_order = [path.name for path in [*wheels, sdist]]
    assert publish(index.url, [sdist, *reversed(wheels)], canary) == in_order
    assert index.release() == contents([*wheels, sdist])


@pytest.mark.parametrize("url", ["http://[", "ftp://host/", "here", "--here", ""])
def test_malformed_addresses_are_refused(wheels: list[Path], url: str) -> None:
    with pytest.raises(PublishError, match=r"URL|repository"):
        plan(url, wheels)


def test_an_index_that_is_not_there(wheels: list[Path], canary: list[str]) -> None:
    said = refusal("http://127.0.0.1:1/", wheels, canary)
    assert said.startswith(
        "cannot read http://127.0.0.1:1/simple/model-a/: the host refused the connection"
    )


def test_a_dead_index_is_given_up_quickly(
    wheels: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    """With the waits of the command: seven attempts would take more than a minute."""
    with (
        Publisher("http://127.0.0.1:1/") as publisher,
        pytest.raises(PublishError, match="refused the connection"),
    ):
        publisher.plan(wheels)
    attempts = [record.message.rpartition("; ")[2] for record in caplog.records]
    assert attempts == ["trying again in 1 s (2 of 3)", "trying again in 2 s (3 of 3)"]


def test_a_dead_upload_host_is_given_up_quickly(
    index: Index, wheels: list[Path], canary: list[str]
) -> None:
    patience = Patience(first_wait=0.01)
    with (
        Publisher(
            "http://127.0.0.1:1/",
            index_url=f"{index.url}simple/",
            patience=patience,
            report=canary.append,
        ) as publisher,
        pytest.raises(PublishError, match=r"refused the connection \(3 attempts\)"),
    ):
        publisher.publish(publisher.plan(wheels))


def test_wheels_for_this_machine_only_are_refused(index: Index, wheels: list[Path]) -> None:
    native = wheels[0].rename(wheels[0].with_name("model_a-1.0-py3-none-linux_x86_64.whl"))
    (refused,) = plan(index.url, [native]).files
    assert refused.action == "refuse"
    assert "for this machine only; `modelwheel wheel` makes wheels to share" in refused.reason
    done = run(native, "--repository-url", index.url)
    assert done.returncode == PublishError.exit_code
    assert index.release() == {}
    (allowed,) = plan(index.url, [native], Rules(any_index=True)).files
    assert allowed.action == "upload"


def test_files_above_the_limit_are_refused_before_anything_is_sent(
    index: Index, wheels: list[Path]
) -> None:
    planned = plan(index.url, wheels, Rules(max_bytes=100))
    with pytest.raises(
        PublishError, match=r"model_a.*accepts 100 bytes: compile fewer(.|\n)*model_b"
    ):
        planned.require_acceptable()


def test_what_is_no_distribution_is_refused(index: Index, tmp_path: Path) -> None:
    liar = make_wheel(tmp_path, "model-a")
    liar = liar.rename(liar.with_name("model_b-1.0-py3-none-any.whl"))
    broken = tmp_path / "model_c-1.0-py3-none-any.whl"
    broken.write_bytes(b"no zip")
    note = tmp_path / "README.md"
    note.write_text("")
    for path, said in (
        (liar, "contains model-a 1.0"),
        (broken, "is not a valid wheel"),
        (note, "is not a wheel or source distribution"),
        (tmp_path / "absent-1-py3-none-any.whl", "cannot read .*: No such file"),
    ):
        with pytest.raises(ModelwheelError, match=said):
            plan(index.url, [path])
    with pytest.raises(UsageError, match="is given twice"):
        plan(index.url, [liar, liar])
