"""Options are obeyed or refused, never ignored."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from modelwheel.cli.options import append_output, hand_on
from modelwheel.errors import (
    EnvironmentProblemError,
    SourceError,
    SpecError,
    UsageError,
)
from tests.support.commands import GROUP, TINY_SPEC, Modelwheel, write_tiny_spec


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_tiny_spec(tmp_path)


def test_nothing_to_check(modelwheel: Modelwheel) -> None:
    assert "name spec files" in modelwheel("check", code=UsageError.exit_code).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--release-list", "--level", "x86-64"), "cannot be combined with --level: "),
        (("--release-list", "--batch-size", "1"), "cannot be combined with --batch-size: "),
        (("--release-list", "--json"), "cannot be combined with --json: "),
        (("--release-list", "--json", "--level", "x86-64"), "with --level, --json: "),
        (("--musllinux",), "--musllinux has an effect only with --release-list"),
        (("--github-output", "out"), "--github-output has an effect only with --release-list"),
        (("--musllinux", "--github-output", "out"), "--musllinux, --github-output have an effect"),
        (("--platform", "linux-riscv"), "--platform: unknown platform 'linux-riscv'; choose from"),
        (("--release-list", "--platform", "linux-riscv"), "linux-riscv"),
        (("--release-list", "--github-output", "absent/out"), "cannot write to absent/out: "),
    ],
    ids=str,
)
def test_plans_refuse_what_they_would_ignore(
    modelwheel: Modelwheel,
    spec: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(spec.parent)
    done = modelwheel("plan", spec, *arguments, code=UsageError.exit_code)
    assert ("problems" in done.json) if "--json" in arguments else done.out == ""
    assert message in done.err


def test_a_plan_for_platforms_is_the_plan_of_compile(modelwheel: Modelwheel, spec: Path) -> None:
    """No wheel is built and verified for another platform, so none is planned."""
    here, there = modelwheel.plan(spec), modelwheel.plan(spec, "--platform", "linux-aarch64")
    assert list(here)[-5:] == ["project", "objects", "kernels", "wheel", "verify"]
    assert list(there)[-4:] == [
        "linux-aarch64/armv8-a/b1",
        "linux-aarch64/armv8-a/b4",
        "project",
        "sdist",
    ]
    both = modelwheel.plan(spec, "--platform", "linux-aarch64,linux-x86_64")
    assert {name.partition("/")[0] for name in both} >= {"linux-aarch64", "linux-x86_64"}


# --- check ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--spec-only",)])
def test_mistakes_in_specs_as_json(
    modelwheel: Modelwheel, spec: Path, options: tuple[str, ...]
) -> None:
    spec.write_text(TINY_SPEC.replace("version", "versoin").replace("[1, 4]", "[0]"))
    done = modelwheel("check", spec, "--json", *options, code=SpecError.exit_code)
    problems = done.json["problems"]
    assert set(problems[0]) == {"file", "line", "column", "field", "message", "hint", "code"}
    places = [(each["file"], each["line"], each["field"]) for each in problems]
    assert (str(spec), 1, "model.versoin") in places
    assert (str(spec), 4, "compilation.batch_sizes[0]") in places
    (misspelt,) = [each for each in problems if each["field"] == "model.versoin"]
    assert misspelt["column"] == TINY_SPEC.index("version") + 1
    assert "'version'" in misspelt["hint"]
    assert done.err.startswith("error: ")


def test_valid_specs_as_json(modelwheel: Modelwheel, spec: Path) -> None:
    assert modelwheel("check", spec, "--json", "--spec-only").json == {"problems": []}


def test_mistakes_without_a_place_as_json(modelwheel: Modelwheel, tmp_path: Path) -> None:
    done = modelwheel("check", tmp_path / "no", "--json", "--spec-only", code=SpecError.exit_code)
    (problem,) = done.json["problems"]
    assert (problem["file"], problem["line"]) == (None, None)
    assert str(tmp_path / "no") in problem["message"]


def test_text_of_specs_is_escaped_in_json(modelwheel: Modelwheel, spec: Path) -> None:
    spec.write_text(TINY_SPEC.replace("tiny", '"\\u202e\\e[31m"'))
    done = modelwheel("check", spec, "--json", "--spec-only", code=SpecError.exit_code)
    assert done.out.isascii()
    assert "\x1b" not in done.out
    assert json.loads(done.out)["problems"]


# --- before anything slow -------------------------------------------------------------------------


def test_a_summary_that_cannot_be_written_is_refused_first(
    modelwheel: Modelwheel, spec: Path, tmp_path: Path
) -> None:
    summary = tmp_path / "absent" / "summary.md"
    done = modelwheel("build", spec, "--summary", summary, code=UsageError.exit_code)
    assert f"cannot write to {summary}: " in done.err
    assert "fetch" not in done.err


def test_a_work_directory_that_cannot_be_made_is_refused_first(
    modelwheel: Modelwheel, spec: Path
) -> None:
    code = EnvironmentProblemError.exit_code
    done = modelwheel("build", spec, "--keep-work-dir", spec / "work", code=code)
    assert str(spec / "work") in done.err
    assert "fetch" not in done.err


def test_a_work_directory_that_stays_empty_is_explained(
    modelwheel: Modelwheel, spec: Path, tmp_path: Path
) -> None:
    """Steps that are cached, or that failed to start, have no files to keep."""
    (spec.parent / "model" / "saved_model.pb").unlink()
    work = tmp_path / "work"
    done = modelwheel("build", spec, "--keep-work-dir", work, code=SourceError.exit_code)
    assert f"nothing was kept in {work}: no step ran\n" in done.err
    assert done.err.splitlines()[-1].startswith("tiny 1.0.0 was not built: fetch failed: ")


# --- names ----------------------------------------------------------------------------------------


def options_of(command: str) -> set[str]:
    return {option for parameter in GROUP.commands[command].params for option in parameter.opts}


def test_an_option_has_one_meaning() -> None:
    """`--platform` is a platform of modelwheel everywhere, and a CPU level is `--level` everywhere."""
    for name in GROUP.commands:
        assert "--target" not in options_of(name)
    assert {name for name in GROUP.commands if "--platform" in options_of(name)} == {
        *("plan", "compile", "bundle"),
    }
    assert {name for name in GROUP.commands if "--level" in options_of(name)} == {
        *("plan", "build", "compile", "bundle", "bench", "profile"),
    }
    assert "--system" in options_of("wheel")


# --- what jobs of a release hand on ---------------------------------------------------------------


def test_a_job_hands_on_its_files_and_nothing_else(tmp_path: Path) -> None:
    """A hostile model has dropped a source distribution of another one while it was compiled."""
    out, output = tmp_path / "sdists", tmp_path / "output"
    out.mkdir()
    made = out / "model_harmless-1.0.0.tar.gz"
    made.write_bytes(b"made")
    made.with_name(f"{made.name}.bench.json").write_bytes(b"[]")  # the times of the framework
    hand_on([made], out, output)
    assert output.read_text() == f"sums={hashlib.sha256(b'made').hexdigest()}  {made.name}\n"
    output.unlink()
    (out / "model_victim-9.9.9.tar.gz").write_bytes(b"dropped")
    with pytest.raises(
        UsageError, match=r"has model_victim-9\.9\.9\.tar\.gz, which this job has not made"
    ):
        hand_on([made], out, output)
    assert not output.exists()


def test_an_output_of_several_lines_ends_where_nobody_can_guess(tmp_path: Path) -> None:
    output = tmp_path / "output"
    append_output(output, first="a\nEOF\nlist=forged", second="b")
    append_output(output, first="c\nd")
    lines = output.read_text().splitlines()
    end = lines[0].removeprefix("first<<")
    assert lines[1:6] == ["a", "EOF", "list=forged", end, "second=b"]
    assert lines[6] not in (lines[0], "first<<EOF")
