"""Releases on GitHub: published once, whole, whatever fails on the way; against a server that answers as GitHub does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.errors import PublishError
from modelwheel.index.entries import ENTRIES, read_entries
from modelwheel.index.github import release as releases
from modelwheel.index.github.publish import GithubPublisher
from modelwheel.index.plan import Rules
from modelwheel.util.http import Patience
from tests.support.commands import Modelwheel
from tests.support.github import TOKEN, GitHub, serve_github
from tests.support.index_wheels import add_measurements, make_manifest, make_wheel

TAG = "digits-1.0.0"
QUICK = Patience(attempts=4, first_wait=0.01, longest_wait=2.0, timeout=5)


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    with serve_github(GitHub(tags={TAG})) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    """The release of one model: a measured wheel and another one."""
    tags = ("cp311-cp311-manylinux_2_28_x86_64", "cp312-cp312-manylinux_2_28_x86_64")
    made = [make_wheel(tmp_path / "dist", "digits", tag=tag) for tag in tags]
    add_measurements(made[0])
    return made


@pytest.fixture(autouse=True)
def dist(tmp_path: Path) -> Path:
    (tmp_path / "dist").mkdir()
    return tmp_path / "dist"


def publish(
    github: GitHub, files: list[Path], lines: list[str] | None = None, tag: str = ""
) -> list[str]:
    said: list[str] = [] if lines is None else lines
    with GithubPublisher(
        github.repository, tag=tag or None, patience=QUICK, report=said.append
    ) as publisher:
        uploaded = publisher.publish(publisher.plan(files))
    assert TOKEN not in "".join(said)
    return uploaded


def refusal(github: GitHub, files: list[Path], tag: str = "") -> str:
    with pytest.raises(PublishError) as caught:
        publish(github, files, tag=tag)
    assert TOKEN not in str(caught.value)
    return str(caught.value)


def contents(files: list[Path]) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files}


def published(github: GitHub) -> dict[str, bytes]:
    """The distributions of the release."""
    found = github.release(TAG)
    return {name: content for name, content in found.items() if not name.endswith(ENTRIES)}


def test_a_release_is_published_whole_and_once(github: GitHub, wheels: list[Path]) -> None:
    assert publish(github, wheels) == [path.name for path in wheels]
    assert published(github) == contents(wheels)
    (made,) = github.releases
    assert (made["draft"], made["prerelease"], made["immutable"]) == (False, False, True)
    before = len(github.requests)
    assert publish(github, wheels) == []
    assert {method for method, _, _ in github.requests[before:]} == {"GET"}


def test_nothing_is_public_before_everything_is_there(github: GitHub, wheels: list[Path]) -> None:
    github.faults.uploads = ["", *["502"] * QUICK.attempts]
    said = refusal(github, wheels)
    assert (
        f"{wheels[1].name} failed: GitHub answered 502 (4 attempts); run the same command" in said
    )
    assert github.release(TAG) == {}
    assert github.draft(TAG)[0] == (wheels[0].name, "uploaded")
    assert publish(github, wheels) == [wheels[1].name]
    assert published(github) == contents(wheels)


@pytest.mark.parametrize("fault", ["reset", "502", "limit", "store-502", "store-reset"])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_every_failed_upload_ends_in_the_same_release(
    github: GitHub, wheels: list[Path], fault: str, at: int
) -> None:
    """`at`: the two wheels, and the entries of the release."""
    github.faults.uploads = [*[""] * at, fault]
    publish(github, wheels)
    assert published(github) == contents(wheels)
    assert len(github.release(TAG)) == 3


@pytest.mark.parametrize("fault", ["reset", "500", "store-500", "store-reset"])
@pytest.mark.parametrize("at", [0, 1], ids=["draft", "publication"])
def test_every_failed_change_ends_in_the_same_release(
    github: GitHub, wheels: list[Path], fault: str, at: int
) -> None:
    github.faults.changes = [*[""] * at, fault]
    publish(github, wheels)
    assert published(github) == contents(wheels)
    assert len(github.releases) == 1


@pytest.mark.parametrize("fault", ["reset", "503"])
def test_reading_is_repeated(github: GitHub, wheels: list[Path], fault: str) -> None:
    for at in range(8):
        github.faults.reads += [*[""] * at, fault]
    publish(github, wheels)
    assert published(github) == contents(wheels)


def test_a_limit_of_an_hour_is_not_waited_for(github: GitHub, wheels: list[Path]) -> None:
    github.faults.uploads = ["limit"]
    reset = str(int(time.time()) + 3000)
    github.faults.limit = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    said = refusal(github, wheels)
    assert "GitHub's rate limit is used up for another" in said
    assert "run the same command after that" in said
    publish(github, wheels)
    assert published(github) == contents(wheels)


def test_files_of_a_draft_are_replaced_and_those_of_a_release_are_not(
    github: GitHub, wheels: list[Path], tmp_path: Path
) -> None:
    github.faults.changes = [
        "",
        *["500"] * QUICK.attempts,
    ]  # the draft is complete, but not published
    refusal(github, wheels)
    changed = make_manifest("digits").model_copy(update={"levels": ("x86-64",)})
    tag = "cp311-cp311-manylinux_2_28_x86_64"
    make_wheel(tmp_path / "dist", "digits", tag=tag, manifest=changed)
    with GithubPublisher(github.repository, patience=QUICK) as publisher:
        plan = publisher.plan(wheels)
        assert [(f.action, f.reason) for f in plan.files] == [
            ("upload", "replaces other contents in the draft"),
            ("skip", "already in the draft"),
        ]
        publisher.publish(plan)
    assert published(github) == contents(wheels)
    make_wheel(tmp_path / "dist", "digits", tag=tag)
    assert "in the release with different contents; a published version never" in refusal(
        github, wheels
    )
    assert published(github) != contents(wheels)


def test_a_published_release_gets_and_loses_nothing(
    github: GitHub, wheels: list[Path], dist: Path
) -> None:
    publish(github, wheels)
    more = make_wheel(dist, "digits", tag="cp313-cp313-manylinux_2_28_x86_64")
    assert "not in the release, which is published" in refusal(github, [*wheels, more])
    assert f"the release {TAG} has {wheels[1].name}, too" in refusal(github, wheels[:1])


def test_a_draft_with_something_else(github: GitHub, wheels: list[Path]) -> None:
    github.faults.changes = ["", *["500"] * QUICK.attempts]
    refusal(github, wheels)
    github.add(github.releases[0], "notes.pdf", b"?")
    assert "has notes.pdf, which is none of these files; delete it" in refusal(github, wheels)
    github.releases.append({**github.releases[0], "id": 1})
    assert "has 2 drafts of a release digits-1.0.0; delete all but one" in refusal(github, wheels)


def test_what_github_stored_differently_is_not_published(
    github: GitHub, wheels: list[Path]
) -> None:
    github.faults.uploads = ["corrupt"]
    said = refusal(github, wheels)
    assert f"{wheels[0].name} has SHA-256" in said
    assert "nothing is published" in said
    assert github.release(TAG) == {}


def test_hashes_that_github_does_not_state_are_computed(github: GitHub, wheels: list[Path]) -> None:
    publish(github, wheels)
    for asset in github.releases[0]["assets"]:
        asset["digest"] = None
    github.private = True
    assert publish(github, wheels) == []
    assert len(github.storage) == 2
    assert set(github.storage) == {""}, "the storage is not GitHub's API and gets no token"


def test_a_release_needs_its_tag(github: GitHub, wheels: list[Path]) -> None:
    github.tags.clear()
    assert "has no tag digits-1.0.0; run `modelwheel tag SPEC --push origin`" in refusal(
        github, wheels
    )
    assert github.releases == []
    github.tags.add(TAG)
    github.faults.uploads = ["500"] * QUICK.attempts
    refusal(github, wheels)
    github.tags.clear()
    assert "has no tag" in refusal(github, wheels), "a draft alone would make one somewhere"


def test_files_of_two_releases(github: GitHub, wheels: list[Path], dist: Path) -> None:
    other = make_wheel(dist, "jet-tagger")
    with pytest.raises(
        Exception, match=r"these files are of digits-1.0.0, jet-tagger-1.0.0; publish"
    ):
        publish(github, [*wheels, other])
    assert f"{wheels[0].name}: is of digits-1.0.0, not of x-1" in refusal(github, wheels, tag="x-1")


def test_the_token(github: GitHub, wheels: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "another")
    assert "GitHub does not accept the token (401)" in refusal(github, wheels)
    monkeypatch.delenv("GITHUB_TOKEN")
    assert "no token for GitHub: set GITHUB_TOKEN" in refusal(github, wheels)
    github.private = True
    assert "there is no repository org/models at" in refusal(github, wheels)
    assert github.releases == []


def test_uploads_go_to_the_host_of_the_api_alone(github: GitHub, wheels: list[Path]) -> None:
    github.faults.uploads = ["500"] * QUICK.attempts
    refusal(github, wheels)
    github.releases[0]["upload_url"] = "http://localhost:1/{?name}"
    assert "which is another host; check GITHUB_API_URL" in refusal(github, wheels)


def test_a_server_that_is_not_github(
    github: GitHub, wheels: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:1/api")
    assert "the host refused the connection (3 attempts)" in refusal(github, wheels)
    monkeypatch.setenv("GITHUB_API_URL", f"{github.web}/elsewhere")
    assert "there is no repository org/models" in refusal(github, wheels)


def test_limits_of_a_release(
    github: GitHub, wheels: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "MAX_ASSETS", 2)
    monkeypatch.setattr("modelwheel.index.github.publish.MAX_ASSETS", 2)
    assert "2 files and their entries; GitHub accepts 2 files in a release" in refusal(
        github, wheels
    )
    with GithubPublisher(github.repository, rules=Rules(100)) as publisher:
        assert "accepts 100 bytes" in publisher.plan(wheels).refused[0]


def test_entries_have_all_that_a_site_shows(
    github: GitHub, wheels: list[Path], tmp_path: Path
) -> None:
    publish(github, wheels)
    path = tmp_path / f"{TAG}{ENTRIES}"
    path.write_bytes(github.release(TAG)[path.name])
    assert path.stat().st_size < 5000
    entries = read_entries(path)
    assert entries.tag == TAG
    assert [entry.file for entry in entries.files] == [wheel.name for wheel in wheels]
    assert [len(entry.companions) for entry in entries.files] == [2, 0]


def test_the_command(github: GitHub, wheels: list[Path], tmp_path: Path) -> None:
    modelwheel = Modelwheel(tmp_path / "cache")
    planned = modelwheel("publish", "--mode", "github", *wheels, "--dry-run", "--json").json
    assert [file["action"] for file in planned["files"]] == ["upload", "upload"]
    assert planned["repository_url"] == f"{github.web}/org/models/releases/tag/{TAG}"
    assert github.releases == []
    github.immutable = False
    done = modelwheel("publish", "--mode", "github", *wheels)
    assert f"2 uploaded, 2 compared with the release {github.web}/org/models/releases" in done.out
    assert "turn on immutable releases" in done.err
    refused = modelwheel("publish", "--mode", "github", "--index-url", "http://x/", *wheels, code=2)
    assert "--mode github cannot be combined with --index-url" in refused.err
