"""`publish --release` on a real index: what jobs of a release tamper with is refused, whatever else they are trusted with."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.errors import PublishError
from modelwheel.index.plan import Release
from modelwheel.index.publish import Publisher
from modelwheel.index.release_list import SDIST_JOB, ReleaseList, WheelJob, read_hashes
from modelwheel.util.http import Patience
from modelwheel.wheelfile.collect import find_distributions
from tests.support.commands import Done, Modelwheel
from tests.support.indexes import PASSWORD, USER, Index, make_sdist, make_wheel, serve_index

QUICK = Patience(attempts=4, first_wait=0.01, longest_wait=0.2, timeout=5)

SDIST = "model_a-1.0.tar.gz"
LINUX, WINDOWS = (
    "model_a-1.0-py3-none-manylinux_2_28_x86_64.whl",
    "model_a-1.0-py3-none-win_amd64.whl",
)


def job(name: str, tag: str) -> WheelJob:
    build = f"cp310-{tag}"
    return WheelJob(
        name=name, runner="any", tag=tag, build=build, pythons=("py3-none",), sdist=SDIST
    )


LIST = ReleaseList(
    tag="a-1.0",
    project="model-a",
    version="1.0",
    sdist=SDIST,
    jobs={
        "linux-x86_64": job("linux-x86_64", "manylinux_x86_64"),
        "windows-amd64": job("windows-amd64", "win_amd64"),
    },
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with serve_index(tmp_path_factory.mktemp("index")) as index:
        yield index


class Run:
    """A run of release.yml up to its plan: the artifacts in one directory, and what jobs have handed on."""

    def __init__(self, directory: Path, index: Index) -> None:
        self.dist = directory / "dist"
        self.modelwheel = Modelwheel(directory / "cache")
        self.index = index
        for name in (LINUX, WINDOWS):
            self.make(name)
        make_sdist(self.dist, "model-a")
        owners = {SDIST_JOB: SDIST, "linux-x86_64": LINUX, "windows-amd64": WINDOWS}
        self.sums = {owner: self.line(name) for owner, name in owners.items()}

    def make(self, name: str, content: str = "") -> Path:
        """A wheel under any name, whatever it is tagged with inside."""
        project, version = name.split("-")[:2]
        path = make_wheel(self.dist, project.replace("_", "-"), version, content)
        return path.replace(self.dist / name)

    def line(self, name: str) -> str:
        return f"{hashlib.sha256((self.dist / name).read_bytes()).hexdigest()}  {name}"

    @property
    def needs(self) -> str:
        """What GitHub would hand over."""
        return json.dumps({name: {"outputs": {"sums": sums}} for name, sums in self.sums.items()})

    def publish(self) -> list[str]:
        """Plans and uploads; the names of what was uploaded."""
        with Publisher(self.index.url, patience=QUICK) as publisher:
            release = Release(LIST, read_hashes(LIST, self.needs))
            return publisher.publish(publisher.plan(find_distributions([self.dist]), release))

    def refusal(self) -> str:
        """Why nothing is uploaded."""
        before = self.index.release()
        with pytest.raises(PublishError) as caught:
            self.publish()
        assert self.index.release() == before
        return str(caught.value)

    def command(self, *options: str | Path, code: int = 0) -> Done:
        """`modelwheel publish` as the workflow calls it."""
        url = ("--repository-url", self.index.url)
        return self.modelwheel("publish", self.dist, *url, *options, code=code)


@pytest.fixture
def release(server: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("TWINE_USERNAME", USER)
    monkeypatch.setenv("TWINE_PASSWORD", PASSWORD)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    for path in server.directory.iterdir():
        path.unlink()
    return Run(tmp_path, server)


def test_a_release_is_published_once(release: Run, tmp_path: Path) -> None:
    output = tmp_path / "output"
    bound = (
        "--release",
        "a-1.0",
        "--list",
        LIST.to_json().decode(),
        "--github-needs",
        release.needs,
    )
    release.command(*bound, "--dry-run", "--github-output", output)
    name, *lines, end = output.read_text().splitlines()
    assert name == f"sums<<{end}"
    assert lines == [release.line(file) for file in (LINUX, WINDOWS, SDIST)]
    assert "3 uploaded, 3 compared" in release.command(*bound).out
    assert release.publish() == []


def test_an_interrupted_upload_is_continued(release: Run) -> None:
    """Source distributions are last: without it, the release is not complete."""
    shutil.copy(release.dist / LINUX, release.index.directory)
    assert release.publish() == [WINDOWS, SDIST]


@pytest.mark.parametrize(
    "name",
    [
        "model_victim-9.9.9-py3-none-any.whl",  # another model
        "model_a-2.0-py3-none-win_amd64.whl",  # another version
        "modelwheel_runtime-1.9-py3-none-any.whl",
        "model_a-1.0-py3-none-macosx_11_0_arm64.whl",  # a platform that was not asked for
        "model_a-1.0-cp310-cp310-win_amd64.whl",  # a Python that was not asked for
    ],
)
def test_a_job_adds_a_file(release: Run, name: str) -> None:
    """In an artifact of its own, or in one of another job that it has replaced."""
    release.make(name)
    assert f"{name}: is not on the list of the release a-1.0" in release.refusal()


def test_a_hostile_model_drops_a_source_distribution_of_another(release: Run) -> None:
    """As finding A1 had it: into the directory that the job of the source distribution uploads."""
    make_sdist(release.dist, "model-victim", "9.9.9")
    assert "model_victim-9.9.9.tar.gz: is not on the list" in release.refusal()
    # Also if it is not a distribution at all: what is not on the list is not opened.
    (release.dist / "model_victim-9.9.9.tar.gz").write_bytes(b"\x1f\x8b rubbish")
    assert "model_victim-9.9.9.tar.gz: is not on the list" in release.refusal()


@pytest.mark.parametrize("name", [LINUX, SDIST])
def test_a_job_replaces_the_artifact_of_another(release: Run, name: str) -> None:
    handed = release.sums[SDIST_JOB if name == SDIST else "linux-x86_64"].split()[0]
    if name == SDIST:
        path = release.dist / SDIST
        path.write_bytes(path.read_bytes() + b"\0")
    else:
        release.make(name, "import os\n")
    assert f"made {handed}" in release.refusal()


def test_a_job_hands_on_the_hash_of_what_it_has_replaced(release: Run) -> None:
    release.make(LINUX, "import os\n")
    release.sums["windows-amd64"] += f"\n{release.line(LINUX)}"
    assert "the job windows-amd64 hands on" in release.refusal()


@pytest.mark.parametrize("name", [LINUX, SDIST])
def test_a_file_is_missing(release: Run, name: str) -> None:
    (release.dist / name).unlink()
    what = "the wheel py3-none of linux-x86_64" if name == LINUX else SDIST
    assert f"{what} of the release a-1.0 is missing" in release.refusal()


def test_a_job_that_hands_on_nothing(release: Run) -> None:
    release.sums["windows-amd64"] = ""
    assert "hand on no hash of the wheel py3-none of windows-amd64" in release.refusal()


def test_nothing_is_added_to_a_released_version(release: Run) -> None:
    """A tag was moved: its changed bytes are refused anyway, but not names that the index does not have."""
    release.publish()
    (release.index.directory / WINDOWS).unlink()
    told = release.refusal()
    assert (
        f"{WINDOWS} is new for the released version a-1.0; a published version never changes"
        in told
    )


def test_what_somebody_else_has_added_to_the_version(release: Run) -> None:
    foreign = "model_a-1.0-py3-none-any.whl"
    make_wheel(release.index.directory, "model-a")
    make_wheel(release.index.directory, "model-a", "0.9")  # an older version does not matter
    assert (
        f"the index has {foreign} of this version, which is not part of a-1.0" in release.refusal()
    )


def test_by_names_alone(release: Run, tmp_path: Path) -> None:
    """Where no workflow has handed hashes on: a list in a file."""
    (tmp_path / "list.json").write_bytes(LIST.to_json())
    release.make("model_b-1.0-py3-none-win_amd64.whl")
    given = ("--release", "a-1.0", "--list", tmp_path / "list.json", "--dry-run")
    done = release.command(*given, code=PublishError.exit_code)
    assert "model_b-1.0-py3-none-win_amd64.whl: is not on the list" in done.err
