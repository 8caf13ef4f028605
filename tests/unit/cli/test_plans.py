"""What `modelwheel plan` answers: why, since when, and for how much."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.cli.display.plans import cost_lines
from modelwheel.engine.planning.cost import Cost
from modelwheel.errors import UsageError
from modelwheel.request import make_request
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from tests.support.commands import Modelwheel, write_tiny_spec
from tests.support.histories import pretend_build
from tests.support.repositories import Repository, isolate_git

_PLATFORM = ("--platform", "linux-x86_64", "--sandbox", "off")


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


def _build(modelwheel: Modelwheel, spec: Path, seconds: float = 1.0) -> None:
    """Leaves the store as if `modelwheel compile` had run."""
    store = Store(modelwheel.cache)
    request = make_request(load_spec(spec), platforms=["linux-x86_64"])
    pretend_build(request, store, "sdist", seconds)
    store.close()


def test_every_answer_before_anything_was_built(modelwheel: Modelwheel, tmp_path: Path) -> None:
    spec = write_tiny_spec(tmp_path)
    lines = modelwheel("plan", "--why", "--cost", *_PLATFORM, spec).out.splitlines()
    assert lines == [
        "inspect, reference, 2 freeze, 4 compile, project, sdist of tiny-1.0.0: never built",
        "11 steps, 1 cached, 10 to run",
        "nothing is known of what steps take: none of these kinds has run yet",
        "sandbox: none (switched off)",
    ]


def test_a_reason_has_one_line_whatever_the_number_of_steps(
    modelwheel: Modelwheel, tmp_path: Path
) -> None:
    spec = write_tiny_spec(tmp_path)
    _build(modelwheel, spec)
    assert modelwheel("plan", "--why", *_PLATFORM, spec).out.splitlines() == [
        "11 steps, 11 cached, 0 to run",
        "sandbox: none (switched off)",
    ]
    flag = 'xla_flags: ["--xla_cpu_prefer_vector_width=128"]'
    spec.write_text(spec.read_text().replace("[1, 4]}", f"[1, 4], {flag}}}"))
    lines = modelwheel("plan", "--why", *_PLATFORM, spec).out.splitlines()
    assert lines[0] == (
        "4 compile, project of tiny-1.0.0: flag xla_cpu_prefer_vector_width was added (128)"
    )
    assert lines[1].startswith(
        "project tiny-1.0.0/project: spec field compilation.xla_flags changed"
    )
    assert lines[2] == "sdist tiny-1.0.0/sdist: made from results that are missing"


def test_the_same_as_json(modelwheel: Modelwheel, tmp_path: Path) -> None:
    spec = write_tiny_spec(tmp_path)
    _build(modelwheel, spec, 2.0)
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"other")
    found = modelwheel("plan", "--why", "--cost", "--workers", "2", "--json", *_PLATFORM, spec).json
    (inspected,) = [step for step in found["steps"] if step["kind"] == "inspect"]
    assert [reason["text"] for reason in inspected["why"]] == ["model file saved_model.pb changed"]
    assert {reason["what"] for reason in inspected["why"]} == {"model"}
    assert found["reasons"][0]["text"] == "model file saved_model.pb changed"
    assert found["cost"]["steps"] == found["cost"]["measured"] == 10
    assert found["cost"]["seconds"] == 20.0
    # inspect; reference and a freeze; the other freeze and a compile; ...
    assert 10.0 <= found["cost"]["makespan"] <= 20.0
    # Only what was asked for.
    alone = modelwheel("plan", "--cost", "--json", *_PLATFORM, spec).json
    assert (alone["reasons"], alone["steps"][0]["why"]) == (None, None)


def test_since_a_tag(
    modelwheel: Modelwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    repository = Repository(tmp_path / "repository")
    spec = write_tiny_spec(repository.directory)
    repository.commit({})
    repository.git("tag", "tiny-1.0.0")
    _build(modelwheel, spec)
    spec.write_text(spec.read_text() + "verify: {seed: 4}\n")
    lines = modelwheel("plan", "--since", "tiny-1.0.0", *_PLATFORM, spec).out.splitlines()
    assert lines == [
        "reference tiny-1.0.0/reference: seed changed from 0 to 4",
        "project tiny-1.0.0/project: spec field verify.seed changed from 0 to 4",
        "sdist tiny-1.0.0/sdist: made from results that are missing",
        "3 of 11 steps differ from tiny-1.0.0",
        "11 steps, 8 cached, 3 to run",
        "sandbox: none (switched off)",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workers", "2"), "--workers has an effect only with --cost"),
        (("--since", "x", "--why"), "--since cannot be combined with --why"),
        (("--release-list", "--why"), "--release-list cannot be combined with --why"),
        (("--release-list", "--cost"), "--release-list cannot be combined with --cost"),
        (("--since", "x"), "is not in a git checkout"),
    ],
)
def test_options_that_do_not_fit(
    modelwheel: Modelwheel, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    spec = write_tiny_spec(tmp_path)
    assert words in modelwheel("plan", *options, spec, code=UsageError.exit_code).err


def test_how_much_is_measured() -> None:
    cost = Cost(
        steps=9_000,
        measured=8_000,
        estimated=900,
        unknown={"verify": 100},
        seconds=100_000.0,
        measured_seconds=90_000.0,
        bytes=12_300_000_000,
        workers=8,
        makespan=13_000.0,
        shortest=700.0,
        hosts=("CPU A", "CPU B"),
    )
    assert list(cost_lines(cost)) == [
        "9000 steps: 27 h 47 min of work; 3 h 37 min with 8 workers, 11 min 40 s at least; 12.3 GB to store at most",
        "90.0 % of the time is measured (8000 steps); estimated from steps of the same kind and size: 900 steps",
        "not counted, because no step of the kind has run yet: 100 verify",
        "measured on CPU A, CPU B",
    ]
