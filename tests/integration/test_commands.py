"""The command line as far as it goes without TensorFlow: help, plans, and what mistakes lead to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from modelwheel.errors import (
    EnvironmentProblemError,
    SourceError,
    SpecError,
    StoreError,
    UsageError,
    WheelError,
)
from modelwheel.platforms import host_platform
from tests.support.commands import GROUP, TINY_SPEC, Modelwheel, run, write_tiny_spec
from tests.support.stores import KEY, make, open_store

COMMANDS = (
    *("new", "check", "plan", "build", "bundle", "compile", "tune", "doctor", "cache", "config"),
    *("wheel", "verify", "report", "download", "inspect", "runtime", "audit", "index", "publish"),
    *("attest", "rebuild", "bench", "profile", "export", "explain", "schema", "list", "recipe"),
    *("init", "update", "release-plan", "tag", "adopt", "worker", "runs"),
)
HOST = host_platform().name

STEPS = [
    *("fetch", "inspect", "reference", "freeze/b1", "freeze/b4"),
    *(f"{HOST}/{level}/b{size}" for level in ("x86-64", "x86-64-v3") for size in (1, 4)),
    *("project", "objects", "kernels", "wheel", "verify"),
]

_BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {"tensorflow", "numpy"}:
            sys.exit(f"{name} was imported")
sys.meta_path.insert(0, Blocker())
from modelwheel.cli import main
sys.argv = ["modelwheel", *sys.argv[1:]]
main()
"""


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_tiny_spec(tmp_path)


# --- without TensorFlow ---------------------------------------------------------------------------


def test_help_lists_every_command(modelwheel: Modelwheel) -> None:
    assert set(GROUP.commands) == set(COMMANDS)
    overview = modelwheel("--help").out
    for command in COMMANDS:
        assert f" {command} " in overview


@pytest.mark.parametrize(
    "arguments",
    [["--help"], *([name, "--help"] for name in COMMANDS), ["check", "--spec-only", "SPEC"],
     ["plan", "SPEC"], ["plan", "--json", "SPEC"], ["doctor"], ["--version"]],
    ids=" ".join,
)  # fmt: skip
def test_quick_commands_import_neither_tensorflow_nor_numpy(
    arguments: list[str], spec: Path, tmp_path: Path
) -> None:
    given = [str(spec) if argument == "SPEC" else argument for argument in arguments]
    command = (sys.executable, "-c", _BLOCKER, *given)
    done = run(*command, MODELWHEEL_CACHE_DIR=str(tmp_path / "cache"))
    if given[-1] == "--help":
        assert " ".join(["Usage: modelwheel", *given[:-1]]) in done.out


def test_a_plan_lists_every_step_of_this_architecture(modelwheel: Modelwheel, spec: Path) -> None:
    assert list(modelwheel.plan(spec)) == STEPS
    assert modelwheel.missing(spec) == STEPS[1:]  # a local directory needs no fetching
    *_, steps, sandbox = modelwheel("plan", spec).out.splitlines()
    assert steps == f"{len(STEPS)} steps, 1 cached, {len(STEPS) - 1} to run"
    assert sandbox.startswith("sandbox: ")


def test_a_plan_narrowed_by_options(modelwheel: Modelwheel, spec: Path) -> None:
    planned = modelwheel.plan(spec, "--level", "x86-64-v3", "--batch-size", "4")
    assert [name for name in planned if "/" in name] == ["freeze/b4", f"{HOST}/x86-64-v3/b4"]


def test_a_plan_of_several_specs(modelwheel: Modelwheel, spec: Path) -> None:
    (spec.parent / "other.yaml").write_text(TINY_SPEC.replace("tiny", "other"))
    for given in (spec.parent, spec.parent / "*.yaml"):
        steps = modelwheel("plan", "--json", given).json
        assert {step["name"].partition("/")[0] for step in steps} == {"tiny-1.0.0", "other-1.0.0"}


def test_a_spec_is_checked_without_its_model(modelwheel: Modelwheel, spec: Path) -> None:
    (spec.parent / "model" / "saved_model.pb").unlink()
    assert modelwheel("check", "--spec-only", spec).out == "1 spec OK\n"


def test_the_cache_is_shown_and_emptied(modelwheel: Modelwheel, tmp_path: Path) -> None:
    with open_store(modelwheel.cache) as store:
        store.publish(KEY, make(tmp_path / "made", {"file": bytes(3000)}))

    stores: dict[str, object] = {
        "upstream": [],
        "missing": [],
        "trusted_keys": [],
        "signs_with": None,
    }
    said = {"directory": str(modelwheel.cache), "results": 1, "bytes": 3000, **stores}
    assert modelwheel("cache", "--json").json == said
    assert modelwheel("cache", "--remove-unused", "1", "--json").json == said
    for path in modelwheel.cache.glob("*/??/*"):
        os.utime(path, (0, 0))
    assert modelwheel("cache").out == f"1 cached result, 3 kB, in {modelwheel.cache}\n"
    done = modelwheel("cache", "--remove-unused", "1")
    assert done.out == f"0 cached results, 0 bytes, in {modelwheel.cache}\n"


# --- mistakes -------------------------------------------------------------------------------------


def _sentence(message: str) -> str:
    assert message.startswith("error: ")
    assert message.count("\n") == 1
    return message


@pytest.mark.parametrize("command", ["check", "plan", "build", "tune"])
def test_a_spec_that_is_not_there(modelwheel: Modelwheel, spec: Path, command: str) -> None:
    done = modelwheel(command, spec.with_name("tini.yaml"), code=SpecError.exit_code)
    assert "did you mean" in _sentence(done.err).lower()


@pytest.mark.parametrize("command", ["check", "plan", "build", "tune"])
def test_a_broken_spec(modelwheel: Modelwheel, spec: Path, command: str) -> None:
    spec.write_text(TINY_SPEC.replace("version", "versoin"))
    done = modelwheel(command, spec, code=SpecError.exit_code)
    assert f"{spec}:1:" in done.err
    assert "Did you mean 'version'?" in done.err


def test_options_that_the_spec_does_not_have(modelwheel: Modelwheel, spec: Path) -> None:
    for option, value, words in (
        ("--level", "x86-64-v5", "--level: unknown CPU level 'x86-64-v5'; did you mean"),
        ("--level", "armv8-a", f"is not compiled for 'armv8-a' on {HOST}; choose from x86-64"),
        ("--batch-size", "3", "--batch-size: 3 is not a batch size of "),
    ):
        for command in ("plan", "build"):
            done = modelwheel(command, spec, option, value, code=UsageError.exit_code)
            assert words in _sentence(done.err)


def test_levels_of_other_architectures_alone(modelwheel: Modelwheel, spec: Path) -> None:
    spec.write_text(TINY_SPEC.replace("x86-64, x86-64-v3, ", ""))
    done = modelwheel("plan", spec, code=SpecError.exit_code)
    assert f"none of these CPU levels belongs to {HOST}" in _sentence(done.err)


def test_wrong_usage_leads_to_the_help(modelwheel: Modelwheel, spec: Path) -> None:
    for arguments in (
        ["build", "--nonsense", spec],
        ["build", spec, "--batch-size", "four"],
        ["biuld", spec],
        ["plan"],
    ):
        said = modelwheel(*arguments, code=2).err
        assert " --help`" in said or "did you mean" in said
        assert said.endswith(" [MW200]\n")


def test_a_directory_that_is_no_model(modelwheel: Modelwheel, spec: Path) -> None:
    (spec.parent / "model" / "saved_model.pb").rename(spec.parent / "model" / "graph.txt")
    done = modelwheel("build", spec, code=SourceError.exit_code)
    assert "failed  tiny-1.0.0/fetch" in done.err
    assert "it has no saved_model.pb; there is 'graph.txt'" in done.err
    done = modelwheel("new", "tiny", "--model", spec.parent / "model",
                      "--out", spec.parent / "specs", code=SourceError.exit_code)  # fmt: skip
    assert "is not a SavedModel" in _sentence(done.err)


def test_one_model_out_of_reach_does_not_keep_others_from_being_checked(
    modelwheel: Modelwheel, spec: Path
) -> None:
    for name in ("tiny", "other"):
        text = TINY_SPEC.replace("tiny", name).replace("directory: model", f"directory: no-{name}")
        (spec.parent / f"{name}.yaml").write_text(text)
    done = modelwheel("check", "--json", spec.parent, code=SourceError.exit_code)
    assert [model["model"] for model in done.json["models"]] == ["other-1.0.0", "tiny-1.0.0"]
    assert all("there is no directory" in model["error"] for model in done.json["models"])
    plain = modelwheel("check", spec.parent, code=SourceError.exit_code).out
    assert plain.count("  error ") == 2
    assert plain.endswith("2 models: 0 ok, 2 refused (other, tiny)\n")


def test_what_is_not_a_wheel(modelwheel: Modelwheel, spec: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for path, words in (
        (tmp_path / "absent.whl", "absent.whl: no such file or directory"),
        (tmp_path / "empty", "the directory has no .whl files"),
        (spec, "not a .whl file or a directory of them"),
    ):
        done = modelwheel("verify", path, code=UsageError.exit_code)
        assert words in _sentence(done.err)
    cut, misnamed = tmp_path / "model_a-1-py3-none-any.whl", tmp_path / "cut.whl"
    for path in (cut, misnamed):
        path.write_bytes(b"PK\x03\x04")
    both = modelwheel("verify", "--json", cut, misnamed, code=WheelError.exit_code).json
    assert [Path(result["wheel"]) for result in both] == [cut, misnamed]
    assert "is not a valid wheel" in both[0]["error"]
    assert "Invalid wheel filename" in both[1]["error"]


def test_a_place_for_wheels_that_cannot_be_written(modelwheel: Modelwheel, spec: Path) -> None:
    done = modelwheel("build", spec, "--out", spec / "dist", code=EnvironmentProblemError.exit_code)
    assert f"cannot write to {spec / 'dist'}: Not a directory" in _sentence(done.err)


def test_licence_texts_are_looked_for_before_anything_runs(
    modelwheel: Modelwheel, spec: Path
) -> None:
    spec.write_text(TINY_SPEC + "package: {license_files: [a/LICENSE, b/LICENSE]}\n")
    done = modelwheel("build", spec, code=SpecError.exit_code)
    assert "package.license_files[0]: there is no file 'a/LICENSE'" in done.err
    for name in ("a", "b"):
        (spec.parent / name).mkdir()
        (spec.parent / name / "LICENSE").touch()
    done = modelwheel("build", spec, code=SpecError.exit_code)
    assert "'a/LICENSE' and 'b/LICENSE' have the same file name" in done.err


def test_rules_need_batch_sizes(modelwheel: Modelwheel, spec: Path) -> None:
    rules = 'batching: {rules: ["5:4,1"]}\n'
    spec.write_text(TINY_SPEC.replace("compilation: {batch_sizes: [1, 4]}\n", rules))
    done = modelwheel("plan", spec, code=SpecError.exit_code)
    assert "batching.rules: '5:4,1' uses 4, but only 1 will be compiled" in _sentence(done.err)


def test_a_store_that_cannot_be_used(modelwheel: Modelwheel, spec: Path) -> None:
    modelwheel.cache.write_text("")
    done = modelwheel("build", spec, code=StoreError.exit_code)
    assert f"cannot read or write {modelwheel.cache}" in done.err


def test_internal_errors_are_reported_in_a_sentence(spec: Path, tmp_path: Path) -> None:
    script = (
        "import sys, modelwheel.engine.planning.plan\n"
        "modelwheel.engine.planning.plan.survey_all = lambda *_, **__: 1 // 0\n"
        "from modelwheel.cli import main\n"
        "sys.argv[0] = 'modelwheel'\nmain()"
    )
    cache, command = str(tmp_path / "cache"), (sys.executable, "-c", script)
    done = run(*command, "plan", spec, code=1, MODELWHEEL_CACHE_DIR=cache)
    assert "internal error: ZeroDivisionError: " in _sentence(done.err)
    done = run(*command, "--verbose", "plan", spec, code=1, MODELWHEEL_CACHE_DIR=cache)
    assert "Traceback" in done.err
