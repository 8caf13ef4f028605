"""The list of a release: which files there will be, which job makes each, and what is not one of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from modelwheel.errors import PublishError, UsageError, WheelError
from modelwheel.index.release_list import SDIST_JOB, ReleaseList, read_hashes, read_job, read_list
from modelwheel.platforms import PYTHONS, WHEEL_PLATFORMS
from modelwheel.release.cibuildwheel import select
from modelwheel.release.listing import list_release, list_runtime, pick, require_wheels
from modelwheel.spec import Spec
from tests.support.commands import Modelwheel, write_tiny_spec

GLIBC = [name for name in WHEEL_PLATFORMS if not name.startswith("musllinux")]
SDIST = "model_my_digits-1.0.0.tar.gz"


def make_spec(targets: Sequence[str] | None = None, bindings: str = "extension") -> Spec:
    return Spec.model_validate(
        {
            "model": {"name": "my-digits", "version": "1.0.0"},
            "targets": tuple(targets) if targets else None,
            "package": {"bindings": bindings},
        }
    )


@pytest.fixture(scope="module")
def listed() -> ReleaseList:
    return list_release([make_spec()], ["linux-x86_64", "macos-arm64"])


def test_a_job_for_each_platform_that_the_spec_has_levels_of() -> None:
    assert list(list_release([make_spec()]).jobs) == GLIBC
    assert list(list_release([make_spec()], musllinux=True).jobs) == list(WHEEL_PLATFORMS)
    arm = list_release([make_spec(["armv8-a"])]).jobs
    assert list(arm) == ["linux-aarch64", "macos-arm64"]
    assert [job.runner for job in arm.values()] == ["ubuntu-24.04-arm", "macos-15"]


def test_wheels_for_every_python_or_one_for_all(listed: ReleaseList) -> None:
    job = listed.jobs["linux-x86_64"]
    assert job.pythons[-3:] == ("cp314-cp314t", "cp315-cp315", "cp315-cp315t")
    assert len(job.pythons) == len(job.build.split()) == len(PYTHONS)
    shared = list_release([make_spec(bindings="shared")]).jobs["windows-amd64"]
    assert shared.pythons == ("py3-none",)
    assert shared.build.split()[-1] == "cp315-win_amd64"


def test_the_configuration_says_what_is_built() -> None:
    """`[build]` of modelwheel.toml; a platform that is asked for by name is built all the same."""
    allowed = ("linux-x86_64", "musllinux-x86_64", "macos-arm64")
    pythons = ("cp313", "cp314t")

    def names(platforms: Sequence[str] = (), *, musllinux: bool = False) -> list[str]:
        listed = list_release([make_spec()], platforms, allowed=allowed, musllinux=musllinux)
        return list(listed.jobs)

    assert names() == ["linux-x86_64", "macos-arm64", "musllinux-x86_64"]
    assert names(musllinux=True) == names()
    assert names(["linux-x86_64"]) == ["linux-x86_64", "musllinux-x86_64"]
    assert names(["linux-aarch64"]) == ["linux-aarch64"]
    assert names(["linux-aarch64"], musllinux=True) == ["linux-aarch64", "musllinux-aarch64"]
    listed = list_release([make_spec()], allowed=allowed, pythons=pythons)
    job = listed.jobs["macos-arm64"]
    assert job.pythons == ("cp313-cp313", "cp314-cp314t")
    assert job.build == "cp313-macosx_arm64 cp314t-macosx_arm64"
    shared = list_release([make_spec(bindings="shared")], pythons=pythons).jobs["linux-x86_64"]
    assert shared.build == "cp313-manylinux_x86_64"
    with pytest.raises(UsageError, match="there is nothing to build: "):
        list_release([make_spec(["armv8-a"])], allowed=["windows-amd64"])
    with pytest.raises(UsageError, match="has only free-threaded Pythons"):
        list_release([make_spec(bindings="shared")], pythons=["cp314t"])


def test_cibuildwheel_builds_what_the_configuration_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CIBW_BUILD", raising=False)
    assert select("linux", ()).environment == {}
    narrowed = select("linux", (), ["linux-x86_64", "macos-arm64"], ["cp312", "cp313"])
    assert narrowed.environment == {"CIBW_BUILD": "cp312-manylinux_x86_64 cp313-manylinux_x86_64"}
    assert narrowed.options == ("--platform", "linux")  # architectures of this machine
    named = select(None, ["cp310-win_amd64"], ["linux-x86_64"], ["cp312"])
    assert named.environment["CIBW_BUILD"] == "cp310-win_amd64"
    with pytest.raises(
        UsageError, match=r"\[build\] platforms of modelwheel.toml has none of windows"
    ):
        select("windows", (), ["linux-x86_64"])
    monkeypatch.setenv("CIBW_BUILD", "cp311-*")
    assert narrowed.environment == {}


def test_a_release_is_of_one_model() -> None:
    for specs in ([], [make_spec()] * 2):
        with pytest.raises(UsageError, match="a release is of one model, but there are"):
            list_release(specs)


def test_what_cannot_be_listed() -> None:
    with pytest.raises(UsageError, match=r"unknown platform 'linux-riscv64'; "):
        list_release([make_spec()], ["linux-riscv64"])
    with pytest.raises(UsageError, match="there is nothing to build: "):
        list_release([make_spec(["armv8-a"])], ["windows-amd64"])


def test_cibuildwheel_knows_every_identifier() -> None:
    pytest.importorskip("cibuildwheel")  # needs Python 3.11
    tables = resources.files("cibuildwheel").joinpath("resources/build-platforms.toml").read_text()
    identifiers = {name for job in list_runtime().jobs.values() for name in job.build.split()}
    assert len(identifiers) == len(PYTHONS) * len(WHEEL_PLATFORMS)
    assert [name for name in identifiers if f'"{name}"' not in tables] == []


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        (SDIST, SDIST_JOB),
        ("model_my_digits-1.0.0-cp310-cp310-manylinux_2_28_x86_64.whl", "linux-x86_64"),
        ("model_my_digits-1.0.0-cp310-cp310-manylinux2014_x86_64.manylinux_2_17_x86_64.whl", "linux-x86_64"),
        ("model_my_digits-1.0.0-cp314-cp314t-macosx_11_0_arm64.whl", "macos-arm64"),
    ],
)  # fmt: skip
def test_files_of_the_release(listed: ReleaseList, file: str, owner: str) -> None:
    assert listed.owner(file) == owner


@pytest.mark.parametrize(
    "file",
    [
        "model_victim-9.9.9.tar.gz",
        "model_my_digits-1.0.1.tar.gz",
        "model_my_digits-1.0.0.zip",
        "model-my-digits-1.0.0.tar.gz",
        f"../{SDIST}",
        "model_victim-1.0.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "modelwheel_runtime-1.0.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "model_my_digits-1.0.1-cp310-cp310-manylinux_2_28_x86_64.whl",
        "model_my_digits-1.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "Model_My_Digits-1.0.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "model_my_digits-1.0.0-1-cp310-cp310-manylinux_2_28_x86_64.whl",
        "model_my_digits-1.0.0-cp39-cp39-manylinux_2_28_x86_64.whl",
        "model_my_digits-1.0.0-cp310-cp310.cp311-manylinux_2_28_x86_64.whl",
        "model_my_digits-1.0.0-cp314-cp314.cp314t-manylinux_2_28_x86_64.whl",
        "model_my_digits-1.0.0-cp310-abi3-manylinux_2_28_x86_64.whl",
        "model_my_digits-1.0.0-py3-none-manylinux_2_28_x86_64.whl",
        "model_my_digits-1.0.0-py3-none-any.whl",
        "model_my_digits-1.0.0-cp310-cp310-linux_x86_64.whl",
        "model_my_digits-1.0.0-cp310-cp310-musllinux_1_2_x86_64.whl",
        "model_my_digits-1.0.0-cp310-cp310-manylinux_2_28_aarch64.whl",
        "model_my_digits-1.0.0-cp310-cp310-manylinux_2_28_x86_64.any.whl",
        "model_my_digits-1.0.0-cp310-cp310-win_amd64.whl",
        "SHA256SUMS",
    ],
)
def test_what_is_not_on_the_list(listed: ReleaseList, file: str) -> None:
    assert listed.owner(file) is None


# --- hashes ---------------------------------------------------------------------------------------


def wheels(listed: ReleaseList, job: str) -> list[str]:
    """A name for each wheel of a job."""
    platform = {"linux-x86_64": "manylinux_2_28_x86_64", "macos-arm64": "macosx_11_0_arm64"}[job]
    return [f"model_my_digits-1.0.0-{python}-{platform}.whl" for python in listed.jobs[job].pythons]


def needs(listed: ReleaseList) -> dict[str, list[str]]:
    """What all jobs hand on."""
    return {SDIST_JOB: [SDIST], **{job: wheels(listed, job) for job in listed.jobs}}


def as_text(files: dict[str, list[str]]) -> str:
    """GitHub's `needs`, with a hash of each name."""

    def sums(names: list[str]) -> str:
        return "\n".join(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}" for name in names)

    jobs = {name: {"result": "success", "outputs": {"sums": sums(f)}} for name, f in files.items()}
    return json.dumps({"list": {"result": "success", "outputs": {"tag": "x"}}, **jobs}, indent=2)


def test_every_job_hands_on_its_files(listed: ReleaseList) -> None:
    hashes = read_hashes(listed, as_text(needs(listed)))
    assert len(hashes) == 1 + 2 * len(PYTHONS)
    assert hashes[SDIST] == hashlib.sha256(SDIST.encode()).hexdigest()
    # A job that was skipped has no outputs, and none was expected of it.
    skipped = {
        **json.loads(as_text(needs(listed))),
        "windows-amd64": {"result": "skipped"},
    }
    assert read_hashes(listed, json.dumps(skipped)) == hashes


def test_a_job_speaks_for_its_own_files_alone(listed: ReleaseList) -> None:
    """A hostile job names a file of another job, to put its own in that one's place."""
    theirs = wheels(listed, "linux-x86_64")[0]
    files = needs(listed)
    files["macos-arm64"].append(theirs)
    with pytest.raises(
        PublishError, match=r"macos-arm64 hands on .*belongs to the job linux-x86_64"
    ):
        read_hashes(listed, as_text(files))
    files = {**needs(listed), "stranger": ["model_victim-9.9.9.tar.gz"]}
    with pytest.raises(PublishError, match=r"stranger hands on .* which is not on the list"):
        read_hashes(listed, as_text(files))


def test_a_file_that_no_job_hands_on(listed: ReleaseList) -> None:
    files = needs(listed)
    del files["macos-arm64"][0], files[SDIST_JOB]
    with pytest.raises(PublishError) as caught:
        read_hashes(listed, as_text(files))
    assert str(caught.value) == (
        f"the jobs of my-digits-1.0.0 hand on no hash of {SDIST}, no hash of the wheel cp310-cp310 of macos-arm64"
    )
    files = needs(listed)
    files["linux-x86_64"].append(files["linux-x86_64"][0].replace("_2_28_", "_2_17_"))
    with pytest.raises(PublishError, match=r"hand on .*manylinux_2_17_x86_64\.whl twice"):
        read_hashes(listed, as_text(files))


@pytest.mark.parametrize("text", ["", "{}{", "[]", '{"a": 1}', '{"a": {"outputs": {"sums": "x"}}}'])
def test_what_is_not_the_needs_of_a_workflow(listed: ReleaseList, text: str) -> None:
    with pytest.raises(UsageError, match="--github-needs is not the JSON"):
        read_hashes(listed, text)


# --- jobs -----------------------------------------------------------------------------------------


def test_a_job_builds_what_was_compiled_and_nothing_else(
    listed: ReleaseList, tmp_path: Path
) -> None:
    """Another job has replaced the artifact of the source distribution."""
    job = read_job(json.dumps(listed.jobs["macos-arm64"].model_dump(), indent=2))
    sdist = tmp_path / SDIST
    sdist.write_bytes(b"compiled")
    sums = f"{hashlib.sha256(b'compiled').hexdigest()}  {SDIST}"
    assert pick(job, [tmp_path / "model_other-1.tar.gz", sdist], sums) == sdist
    sdist.write_bytes(b"tampered with")
    with pytest.raises(WheelError, match="but the job that compiled has handed on"):
        pick(job, [sdist], sums)
    with pytest.raises(WheelError, match="handed on nothing"):
        pick(job, [sdist], "")
    with pytest.raises(UsageError, match="line 1 of SHA256SUMS is not"):
        pick(job, [sdist], "all good")
    with pytest.raises(
        UsageError, match=f"{SDIST}, which the job macos-arm64 builds, is not among"
    ):
        pick(job, [tmp_path / "model_other-1.tar.gz"], sums)


def test_a_job_hands_on_exactly_its_wheels(listed: ReleaseList) -> None:
    job, names = listed.jobs["macos-arm64"], wheels(listed, "macos-arm64")
    require_wheels(job, names)
    for wrong in (
        names[1:],
        [*names, names[0]],
        [*names[1:], wheels(listed, "linux-x86_64")[0]],
        [],
    ):
        with pytest.raises(
            WheelError, match=r"must build one wheel of .* for each of cp310-cp310, "
        ):
            require_wheels(job, wrong)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"name": 1}', "null"])
def test_what_is_no_job_and_no_list(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this is not a job of") as caught:
        read_job(text)
    assert "\n" not in str(caught.value)
    (tmp_path / "list.json").write_text(text)
    with pytest.raises(UsageError, match="this is not the list of"):
        read_list(str(tmp_path / "list.json"))
    with pytest.raises(UsageError, match=r"--list: cannot read .*absent"):
        read_list(str(tmp_path / "absent"))


# --- the command ----------------------------------------------------------------------------------


def test_the_command_needs_no_model(tmp_path: Path) -> None:
    text = 'model: {name: my-digits, version: "1.0.0"}\nsource: {directory: no-model}\n'
    (tmp_path / "digits.yaml").write_text(text)
    modelwheel, output = Modelwheel(tmp_path / "cache"), tmp_path / "output"
    output.write_text("other=1\n")
    options: tuple[Any, ...] = ("--release-list", "--github-output", output)
    done = modelwheel(
        "plan", tmp_path / "digits.yaml", *options, "--platform", "linux-x86_64,macos-arm64"
    )
    assert read_list(done.out) == list_release([make_spec()], ["linux-x86_64", "macos-arm64"])
    assert output.read_text() == f"other=1\nlist={done.out}tag=my-digits-1.0.0\n"


def test_commands_obey_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`plan` lists what `[build]` of modelwheel.toml leaves of all platforms, as `compile` builds it."""
    write_tiny_spec(tmp_path)
    rules = '[build]\nplatforms = ["linux-x86_64", "musllinux-x86_64"]\npythons = ["cp313"]\n'
    (tmp_path / "modelwheel.toml").write_text(rules)
    monkeypatch.chdir(tmp_path)
    modelwheel = Modelwheel(tmp_path / "cache")
    done = modelwheel("plan", "tiny.yaml", "--release-list", "--musllinux")
    assert {name: job.pythons for name, job in read_list(done.out).jobs.items()} == {
        "linux-x86_64": ("cp313-cp313",),
        "musllinux-x86_64": ("cp313-cp313",),
    }
    steps = modelwheel("plan", "tiny.yaml", "--platform", "").out
    assert "linux-x86_64" in steps
    assert "aarch64" not in steps
    assert "macos" not in steps
