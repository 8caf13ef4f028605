"""The matrix of a release: every wheel in exactly one job, few enough jobs, and all of about the same length."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelwheel.errors import UsageError
from modelwheel.levels import LEVELS
from modelwheel.platforms import PLATFORMS, PYTHONS, WHEEL_PLATFORMS
from modelwheel.release import matrix as github_matrix
from modelwheel.release.matrix import (
    MAX_JOBS,
    MAX_OUTPUT_BYTES,
    PYTHON_GROUPS,
    WheelJob,
    as_matrix,
    plan_jobs,
    read_job,
    sdist_name,
)
from modelwheel.spec import Spec
from tests.support.commands import Modelwheel

GITHUB_JOBS = 256
GLIBC = [name for name in WHEEL_PLATFORMS if not name.startswith("musllinux")]


def make_spec(
    name: str,
    targets: Sequence[str] | None = None,
    batch_sizes: Sequence[int] | None = None,
    bindings: str = "extension",
) -> Spec:
    return Spec.model_validate(
        {
            "model": {"name": name, "version": "1.0.0"},
            "targets": tuple(targets) if targets else None,
            "compilation": {"batch_sizes": tuple(batch_sizes) if batch_sizes else None},
            "package": {"bindings": bindings},
        }
    )


def make_specs(count: int) -> list[Spec]:
    """Specs as different as real ones: one to four levels, one to eight batch sizes."""
    levels = [None, ["x86-64"], ["x86-64", "x86-64-v3", "armv8-a"], ["armv8-a"]]
    return [
        make_spec(f"model-{i}", levels[i % 4], [2**k for k in range(1 + i % 8)])
        for i in range(count)
    ]


def parts(job: WheelJob) -> tuple[str, str]:
    """Platform and Python group of a job, as its identifiers tell them."""
    pythons, tags = zip(*(identifier.split("-") for identifier in job.build.split()), strict=True)
    (tag,) = set(tags)
    (platform,) = [p.name for p in WHEEL_PLATFORMS.values() if p.cibuildwheel == tag]
    (group,) = [name for name, members in PYTHON_GROUPS.items() if members == pythons]
    return platform, group


def costs(job: WheelJob, by_sdist: Mapping[str, Spec]) -> list[float]:
    """What the plan thinks that each source distribution of a job takes."""
    name, group = parts(job)
    platform, pythons = WHEEL_PLATFORMS[name], len(PYTHON_GROUPS[group])
    specs = [by_sdist[sdist] for sdist in job.sdists.split()]
    return [github_matrix._wheel_seconds(spec, platform) * pythons for spec in specs]


spec_lists = st.lists(
    st.tuples(
        st.none() | st.lists(st.sampled_from(sorted(LEVELS)), min_size=1, unique=True),
        st.none() | st.lists(st.integers(1, 64), min_size=1, max_size=8, unique=True),
        st.sampled_from(["extension", "shared"]),
    ),
    min_size=1,
    max_size=60,
).map(lambda drawn: [make_spec(f"model-{i}", *options) for i, options in enumerate(drawn)])


@given(
    spec_lists,
    st.lists(st.sampled_from(sorted(PLATFORMS)), unique=True),
    st.booleans(),
    st.sampled_from([github_matrix.JOB_SECONDS, 30.0]),
)
@settings(max_examples=60, deadline=None)
def test_every_wheel_is_in_exactly_one_job(
    specs: list[Spec], platforms: list[str], musllinux: bool, job_seconds: float
) -> None:
    expected = Counter(
        (sdist_name(spec), name, group)
        for spec, (name, platform), group in product(specs, WHEEL_PLATFORMS.items(), PYTHON_GROUPS)
        if spec.resolve_levels(platform.objects.architecture)
        and (group == "py3") == (spec.package.bindings == "shared")
        and (not platforms or platform.objects.name in platforms)
        and (musllinux or name in GLIBC)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(github_matrix, "JOB_SECONDS", job_seconds)
        if not expected:
            with pytest.raises(UsageError, match="there is nothing to build"):
                plan_jobs(specs, platforms, musllinux=musllinux)
            return
        jobs = plan_jobs(specs, platforms, musllinux=musllinux)
    assert Counter((sdist, *parts(job)) for job in jobs for sdist in job.sdists.split()) == expected
    assert len({job.name for job in jobs}) == len(jobs) <= MAX_JOBS < GITHUB_JOBS
    assert all(job.sdists for job in jobs)
    for job in jobs:
        platform = WHEEL_PLATFORMS[parts(job)[0]]
        assert (job.runner, job.platform) == (platform.runner, platform.objects.name)


@pytest.mark.parametrize("count", [1, 2, 500, 3000])
def test_few_enough_jobs_of_about_the_same_length(count: int) -> None:
    specs = make_specs(count)
    jobs = plan_jobs(specs, musllinux=True)
    assert len(jobs) <= MAX_JOBS
    by_sdist = {sdist_name(spec): spec for spec in specs}
    cells: dict[tuple[str, str], list[list[float]]] = {}
    for job in jobs:
        cells.setdefault(parts(job), []).append(costs(job, by_sdist))
    for shards in cells.values():
        lengths = [sum(shard) for shard in shards]
        assert max(lengths) - min(lengths) <= max(map(max, shards))  # what Graham's rule promises
    if count == 500:
        assert len(jobs) > MAX_JOBS * 0.8  # what GitHub allows is used


def test_a_small_release_is_a_job_for_each_platform_and_group() -> None:
    jobs = plan_jobs(make_specs(3))
    assert [parts(job) for job in jobs] == list(product(GLIBC, ["cp310-cp313", "cp314-cp315t"]))


def test_one_wheel_for_every_python() -> None:
    jobs = plan_jobs([make_spec("digits", bindings="shared")], ["windows-amd64"])
    assert [parts(job) for job in jobs] == [("windows-amd64", "py3")]


def test_five_hundred_specs_fit_into_an_output() -> None:
    specs = [make_spec(f"{'a-long-name-' * 4}{i}") for i in range(500)]
    text = as_matrix(plan_jobs(specs))
    assert len(text.encode("utf-16")) < MAX_OUTPUT_BYTES
    assert "\n" not in text
    with pytest.raises(UsageError, match="Release fewer specs at once"):
        as_matrix(plan_jobs([make_spec(f"{'a-long-name-' * 4}{i}") for i in range(2000)]))


def test_the_order_of_specs_does_not_matter() -> None:
    specs = make_specs(40)
    assert plan_jobs(specs) == plan_jobs(specs[::-1])


def test_cibuildwheel_knows_every_identifier() -> None:
    pytest.importorskip("cibuildwheel")  # needs Python 3.11
    tables = resources.files("cibuildwheel").joinpath("resources/build-platforms.toml").read_text()
    jobs = plan_jobs(make_specs(1), musllinux=True)
    identifiers = {identifier for job in jobs for identifier in job.build.split()}
    assert len(identifiers) == len(PYTHONS) * len(WHEEL_PLATFORMS)
    assert [name for name in identifiers if f'"{name}"' not in tables] == []


def test_a_platform_that_is_not_known() -> None:
    with pytest.raises(UsageError, match=r"unknown platform 'linux-riscv64'; "):
        plan_jobs(make_specs(1), ["linux-riscv64"])


def test_a_job_finds_its_source_distributions(tmp_path: Path) -> None:
    specs = make_specs(3)
    for spec in specs:
        (tmp_path / sdist_name(spec)).touch()
    job = plan_jobs(specs)[0]
    assert read_job(json.dumps(asdict(job), indent=2)) == job
    expected = [tmp_path / name for name in job.sdists.split()]
    assert job.pick(sorted(tmp_path.iterdir())[::-1]) == expected
    problem = rf"{expected[0].name}, which the job linux-x86\S* builds, is not among the 2 source"
    with pytest.raises(UsageError, match=problem):
        job.pick([file for file in tmp_path.iterdir() if file != expected[0]])


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"name": 1}', "null"])
def test_what_is_no_job(text: str) -> None:
    with pytest.raises(UsageError, match="this is not a job of") as caught:
        read_job(text)
    assert "\n" not in str(caught.value)


# --- the command ----------------------------------------------------------------------------------

SPEC = 'model: {{name: {name}, version: "1.2"}}\nsource: {{directory: no-model}}\n'


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    directory = tmp_path / "specs"
    directory.mkdir()
    for name in ("alpha", "be-ta"):
        (directory / f"{name}.yaml").write_text(SPEC.format(name=name))
    return directory


def test_the_command_needs_no_model(specs: Path, tmp_path: Path) -> None:
    modelwheel, output = Modelwheel(tmp_path / "cache"), tmp_path / "output"
    output.write_text("other=1\n")
    done = modelwheel("plan", specs, "--github-matrix", "--github-output", output)
    jobs: list[dict[str, Any]] = done.json["include"]
    assert {job["sdists"] for job in jobs} == {"model_alpha-1.2.tar.gz model_be_ta-1.2.tar.gz"}
    assert output.read_text() == f"other=1\nmatrix={done.out}"
    narrowed = modelwheel(
        "plan", specs / "alpha.yaml", "--github-matrix", "--platform", "macos-arm64,linux-aarch64",
        "--musllinux",
    ).json["include"]  # fmt: skip
    assert {job["runner"] for job in narrowed} == {"macos-15", "ubuntu-24.04-arm"}
    assert json.loads(json.dumps(asdict(WheelJob(**narrowed[0])))) == narrowed[0]
