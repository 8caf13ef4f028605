"""Builds of tiny models: what comes out, what is run again after a change, what survives a kill."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError
from modelwheel.levels import cpu_name
from modelwheel.spec import load_spec
from modelwheel.spec.tune_lock import read_lock, write_lock
from modelwheel.wheelfile.reports import read_timings
from modelwheel.wheelfile.wheel import open_wheel
from tests.support.commands import Modelwheel
from tests.support.faults.disks import mounting, read_only
from tests.support.interrupting import Rebuilt
from tests.support.wheels import EVERYWHERE, HOST, LEVELS, LOWEST, REFUSED, SPECS, Built

pytestmark = pytest.mark.slow

HIDDEN = np.random.default_rng((4, 8)).standard_normal((4, 8)).astype(np.float32)
"""The first weights of most models."""

AT_END = ["project", "kernels", "wheel", "verify"]
"""Which kernels are needed is known once there is a project; those of another one need no compiling."""


def rows(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)


def copy_spec(built: Built, name: str, directory: Path) -> Path:
    """A spec with its model in another place."""
    text = built.spec(name).read_text()
    model = text.partition("directory: ")[2].partition("}")[0]
    shutil.copytree(built.directory / model, directory / model)
    return Path(shutil.copy(built.spec(name), directory))


def edit(spec: Path, old: str, new: str) -> None:
    text = spec.read_text()
    assert text.count(old) == 1
    spec.write_text(text.replace(old, new))


# --- several specs at once ------------------------------------------------------------------------


def test_every_sound_spec_is_built_and_verified(built: Built) -> None:
    for name in SPECS:
        result = built.results[name]
        assert result["errors"] == []
        assert result["report"]["passed"]
        assert Path(result["wheel"]).stat().st_size == result["wheel_bytes"]
        compared = {comparison["level"] for comparison in result["report"]["comparisons"]}
        assert compared | set(result["report"]["skipped"]) == set(
            LEVELS if name == "mlp" else [LOWEST]
        )


def test_the_time_of_the_framework_is_beside_each_wheel(built: Built) -> None:
    for name in SPECS:
        theirs = [timing for timing in read_timings(built.wheel(name)) if timing.framework]
        assert [timing.rows for timing in theirs] == [1, 4]
        assert all(timing.nanoseconds > 0 and timing.cpu == cpu_name() for timing in theirs)
        (framework,) = {timing.framework for timing in theirs}
        assert re.fullmatch(r"TensorFlow \S+ on one thread", framework)


def test_what_extensions_have_in_common_is_compiled_once(built: Built) -> None:
    results = [built.results[name] for name in SPECS]
    run, cached = (
        [step for result in results for step in result[key] if step.endswith("/objects")]
        for key in ("run", "cached")
    )
    assert len(run) <= 1  # none if another test came first
    assert len(run + cached) == len(SPECS)


def test_a_model_that_fails_does_not_stop_the_others(built: Built) -> None:
    assert set(built.results) == {*SPECS, *REFUSED}
    for error in built.results["unused"]["errors"]:
        assert error["step"] in {"unused-1.0.0/freeze/b1", "unused-1.0.0/freeze/b4"}
        assert "input 'unused'; set allow_pruned_inputs" in error["message"]
    (error,) = built.results["text"]["errors"]
    assert error["step"] == "text-1.0.0/inspect"
    assert "string" in error["message"]
    for name in REFUSED:
        assert built.results[name]["wheel"] is None


def test_check_tells_the_same_before_anything_is_compiled(
    modelwheel: Modelwheel, built: Built
) -> None:
    specs = [built.spec("text"), built.spec("mlp")]
    code = UnsupportedModelError.exit_code
    text, mlp = modelwheel("check", "--json", *specs, code=code).json["models"]
    assert {finding["kind"] for finding in text["findings"]} >= {"string-tensor"}
    assert [f for f in mlp["findings"] if f["severity"] == "error"] == []
    plain = modelwheel("check", *specs, code=code).out
    # The verdict, then its errors, with the name of the model; the totals come last.
    lines = plain.splitlines()
    assert re.fullmatch(r"refused text: \d+ errors?", lines[0])
    assert lines[1].startswith("  error text: ")
    assert re.search(r"^ok mlp: \d+ kinds of operation, all compiled$", plain, re.MULTILINE)
    assert lines[-1] == "2 models: 1 ok, 1 refused (text)"
    assert "MatMul" not in plain
    shown = modelwheel("check", "--ops", *specs, code=code).out
    for words in ("x    │ float32 │ [batch, 4]", "│ MatMul", "removed by freezing", "error text: "):
        assert words in shown


# --- what models are like -------------------------------------------------------------------------


def test_rows_that_interact_run_at_compiled_batch_sizes_alone(built: Built) -> None:
    reason = built.manifest("batch-mean").batching.no_emulation_reason
    assert reason is not None
    assert reason.startswith("a row of output 'y' changes")
    model = built.package("batch-mean").Model()
    for count in (1, 4):
        x = rows(count)
        expected = (x - x.mean(axis=0)) @ HIDDEN
        np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-5)
    for count in (2, 3, 5, 8):
        with pytest.raises(ValueError, match=f"not {count} rows: {reason}"):
            model(rows(count))
    with pytest.raises(ValueError, match=reason):
        model.set_batch_rule("5:4,1")


def test_element_types_and_names_with_slashes(built: Built) -> None:
    model = built.package("kinds").Model()
    assert {spec.name: spec.dtype.name for spec in model.inputs} == {
        "cut/flag": "bool",
        "cut/count": "int32",
        "cut/id": "int64",
        "track/half": "float16",
        "track/exact": "float64",
    }
    for count in (0, 1, 4, 6):
        inputs = {
            "cut/flag": np.arange(count) % 2 == 0,
            "cut/count": np.arange(2 * count, dtype=np.int32).reshape(count, 2) - 3,
            "cut/id": np.arange(count) + (1 << 40),
            "track/half": np.linspace(-1, 1, 3 * count, dtype=np.float16).reshape(count, 3),
            "track/exact": np.linspace(0, 1, 2 * count).reshape(count, 2) / 3,
        }
        outputs = model.predict(inputs)
        flag, numbers, number, half, exact = inputs.values()
        for name, expected in {
            "flag/not": ~flag,
            "count/sum": numbers.sum(axis=1, dtype=np.int32),
            "id/next": number + 1,
            "half/twice": half + half,
            "exact/square": exact * exact + numbers,
            "half/points": half.reshape(-1, 1),
        }.items():
            assert outputs[name].dtype == expected.dtype
            np.testing.assert_array_equal(outputs[name], expected)


def test_an_output_of_three_rows_for_each_row(built: Built) -> None:
    per_row = {t.name: t.leading_per_row for t in built.manifest("kinds").signature.outputs}
    assert {name for name, count in per_row.items() if count == 3} == {"half/points"}
    assert set(per_row.values()) == {1, 3}


def test_inputs_that_nothing_depends_on_are_left_out_if_the_spec_says_so(built: Built) -> None:
    model = built.package("options").Model()
    assert [spec.name for spec in model.inputs] == ["x"]
    np.testing.assert_allclose(model(rows(3)), rows(3) @ HIDDEN, rtol=1e-5, atol=1e-5)


def test_rules_and_strategy_of_the_spec(built: Built) -> None:
    model = built.package("options").Model()
    assert model.batch_rule(5) == "5:4,1"
    assert model.batch_rule(3) == "3:1,1,1"
    assert model.batch_rule(6) == "6:1,1,1,1,1,1"  # the smallest, not the cheapest
    cheapest = built.package("mlp").Model()
    assert cheapest.batch_rule(8) == "8:4,4"
    assert sorted(cheapest.batch_rule(6).partition(":")[2].split(",")) in (
        ["1", "1", "4"],
        ["4", "4"],
    )


def test_arithmetic_is_strict_unless_the_spec_relaxes_it(built: Built) -> None:
    strict = {
        "--xla_cpu_enable_fast_math=false",
        "--xla_cpu_fast_math_honor_nans=true",
        "--xla_cpu_fast_math_honor_infs=true",
        "--xla_cpu_fast_math_honor_division=true",
        "--xla_cpu_fast_math_honor_functions=true",
        "--xla_cpu_enable_fast_min_max=false",
    }
    for flags in built.manifest("mlp").compiler.xla_flags.values():
        assert strict <= set(flags)
    (relaxed,) = built.manifest("options").compiler.xla_flags.values()
    assert strict - set(relaxed) == {
        "--xla_cpu_enable_fast_math=false",
        "--xla_cpu_fast_math_honor_functions=true",
    }
    assert "--xla_cpu_enable_fast_math=true" in relaxed
    assert "--xla_cpu_fast_math_honor_functions=false" in relaxed


def test_what_the_package_says_of_itself(built: Built) -> None:
    with zipfile.ZipFile(built.wheel("options")) as archive:
        metadata = archive.read("model_options-1.0.0.dist-info/METADATA")
        texts = "model_options-1.0.0.dist-info/licenses"
        assert archive.read(f"{texts}/licenses/WEIGHTS").startswith(b"Whoever finds")
        assert b"Apache License" in archive.read(f"{texts}/LICENSE")
        assert b"Wenzel Jakob" in archive.read(f"{texts}/third_party/pybind11-LICENSE")
    parsed = BytesParser().parsebytes(metadata)
    assert parsed["License-Expression"] == "MIT AND CC-BY-4.0"
    assert parsed["Summary"] == 'Quotes " and \\ stay'
    assert parsed["Author"] == "A. Author"
    assert parsed["Project-URL"] == "Paper, https://example.org/a?b=c"
    assert parsed["Requires-Dist"].startswith("numpy")


# --- what runs again ------------------------------------------------------------------------------


def test_a_second_build_runs_nothing(modelwheel: Modelwheel, built: Built, tmp_path: Path) -> None:
    (result,) = modelwheel.build(built.spec("mlp"), "--out", tmp_path)
    assert result["run"] == []
    assert {name.partition("/")[2] for name in result["cached"]} == set(
        modelwheel.plan(built.spec("mlp"))
    ) - {"fetch"}
    assert Path(result["wheel"]).read_bytes() == built.wheel("mlp").read_bytes()


COMPILED = [f"{HOST}/{level}/b{size}" for level in LEVELS for size in (1, 4)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("model: {", "# The same with a remark.\nmodel: {", []),
        ("[1, 4]", "[4, 1]", []),
        ("A model of the tests.", "Another model.", AT_END),
        ('version: "1.0.0"', 'version: "1.1"', AT_END),
        ("CC0-1.0}", "CC0-1.0, summary: Short}", AT_END),
        ("CC0-1.0}\n", "CC0-1.0}\nbatching: {strategy: smallest}\n", AT_END),
        ("CC0-1.0}\n", "CC0-1.0}\nverify: {tolerance: {rtol: 1e-6}}\n", AT_END),
        ("CC0-1.0}\n", "CC0-1.0}\nverify: {seed: 1}\n", ["reference", *AT_END]),
        ("[1, 4]", "[1]", ["reference", *AT_END]),
        ("[1, 4]", "[1, 2, 4]",
         ["reference", "freeze/b2", *(f"{HOST}/{level}/b2" for level in LEVELS), *AT_END]),
        ("[1, 4]}", "[1, 4], xla_flags: [--xla_cpu_enable_fast_min_max=true]}",
         [*COMPILED, *AT_END]),
        ("[1, 4]}", "[1, 4], tf_xla_flags: [--tf_xla_min_cluster_size=2]}",
         [*COMPILED, *AT_END]),
        ("CC0-1.0}\n", "CC0-1.0}\nfast_math: {enable: true}\n", [*COMPILED, *AT_END]),
        ("name: mlp", "name: perceptron", [*COMPILED, *AT_END]),
        (f"targets: [{', '.join(EVERYWHERE)}]", f"targets: [{LOWEST}]", AT_END),
    ],
)  # fmt: skip
def test_a_change_of_the_spec_runs_what_depends_on_it(
    modelwheel: Modelwheel,
    built: Built,
    tmp_path: Path,
    old: str,
    new: str,
    expected: list[str],
) -> None:
    spec = copy_spec(built, "mlp", tmp_path)
    edit(spec, old, new)
    assert modelwheel.missing(spec) == expected


def test_a_plan_says_what_changed_and_what_that_takes(
    modelwheel: Modelwheel, built: Built, tmp_path: Path
) -> None:
    spec = copy_spec(built, "mlp", tmp_path)
    edit(spec, "[1, 4]}", "[1, 4], xla_flags: [--xla_cpu_enable_fast_min_max=true]}")
    found = modelwheel("plan", "--why", "--cost", "--json", spec).json
    why = {
        step["name"].partition("/")[2]: [reason["text"] for reason in step["why"]]
        for step in found["steps"]
    }
    said = "flag xla_cpu_enable_fast_min_max changed from false to true"
    assert [why[name] for name in COMPILED] == [[said]] * len(COMPILED)
    assert (why["inspect"], why["freeze/b1"]) == ([], [])
    # All of them ran before, in the build of the fixture.
    cost = found["cost"]
    assert (cost["steps"], cost["estimated"], cost["unknown"]) == (cost["measured"], 0, {})
    assert 0 < cost["shortest"] <= cost["makespan"] <= cost["seconds"]


# --- a changed model, narrowed by options ---------------------------------------------------------


@pytest.fixture(scope="module")
def narrowed(
    modelwheel: Modelwheel, built: Built, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What becomes of `options` at one level and size, once a file of its model has changed."""
    work = tmp_path_factory.mktemp("narrowed")
    spec = copy_spec(built, "options", work)
    shutil.copytree(built.directory / "texts", work / "texts")
    (work / "unused_input" / "fingerprint.pb").write_bytes(b"")
    assert "inspect" in modelwheel.missing(spec)
    options = ("--level", LOWEST, "--batch-size", "1", "--out", work / "dist")
    (result,) = modelwheel.build(spec, *options, "--keep-work-dir", work / "steps")
    return {**result, "steps": work / "steps"}


def test_a_changed_model_is_compiled_anew_only_if_its_graph_changes(
    narrowed: dict[str, Any],
) -> None:
    cached = {name.partition("/")[2] for name in narrowed["cached"]}
    assert cached == {f"{HOST}/{LOWEST}/b1", "objects", "kernels"}
    assert {name.partition("/")[2] for name in narrowed["run"]} == {
        *("inspect", "freeze/b1", "reference", "project", "wheel", "verify"),
    }


def test_the_files_of_every_step_that_runs_are_kept(narrowed: dict[str, Any]) -> None:
    kept = narrowed["steps"] / "options-1.0.0"
    assert (kept / "freeze" / "b1" / "out" / "graph.pb").is_file()
    assert (kept / "project" / "out" / "platforms" / HOST / "manifest.json").is_file()
    assert json.loads((kept / "verify" / "out" / "report.json").read_bytes())["passed"]


def test_rules_that_use_what_options_leave_out_are_left_out(
    narrowed: dict[str, Any],
) -> None:
    wheel = Path(narrowed["wheel"])
    manifest = open_wheel(wheel).manifest
    assert manifest.levels == (LOWEST,)
    assert (manifest.batching.sizes, manifest.batching.rules) == ((1,), ())
    rules = [c["rule"] for c in narrowed["report"]["comparisons"]]
    assert {size for rule in rules for size in rule.partition(":")[2].split(",")} == {"1"}


# --- measured costs -------------------------------------------------------------------------------


def test_measured_costs_are_kept_and_used(
    modelwheel: Modelwheel, built: Built, tmp_path: Path
) -> None:
    spec = copy_spec(built, "kinds", tmp_path / "here")
    assert "commit it with kinds.yaml" in modelwheel("tune", spec).out
    lock = spec.with_name("kinds.tune.json")
    measured = json.loads(lock.read_bytes())["nanoseconds"]
    assert set(measured[LOWEST]) == {"1", "4"}
    assert modelwheel.missing(spec) == AT_END

    (result,) = modelwheel.build(spec, "--out", tmp_path / "dist")
    costs = {str(v.batch_size): v.cost for v in open_wheel(Path(result["wheel"])).manifest.variants}
    assert costs == measured[LOWEST]
    # Nothing is timed again: the same lock file gives the same wheel.
    elsewhere = copy_spec(built, "kinds", tmp_path / "there")
    shutil.copy(lock, elsewhere.parent)
    assert modelwheel.missing(elsewhere) == []
    # A flag in the lock file is for its level alone.
    flags = {LOWEST: ("--xla_llvm_disable_expensive_passes=true",)}
    tuned = read_lock(load_spec(elsewhere)).model_copy(update={"xla_flags": flags})
    write_lock(elsewhere, tuned)
    assert set(modelwheel.missing(elsewhere)) - set(AT_END) == {
        f"{HOST}/{LOWEST}/b{size}" for size in (1, 4)
    }


@pytest.mark.parametrize(
    ("workload", "candidates"),
    [
        ("1:3", {1, 4}),  # those of the spec: its wheel is measured
        pytest.param("1:3,2:1", {1, 2, 4}, marks=pytest.mark.exhaustive),  # and one more is built
    ],
)
def test_batch_sizes_are_proposed_for_a_workload(
    modelwheel: Modelwheel, built: Built, tmp_path: Path, workload: str, candidates: set[int]
) -> None:
    spec, plot = copy_spec(built, "kinds", tmp_path / "here"), tmp_path / "rows.svg"
    options = ("--workload", workload, "--plot", plot, "--json")
    (proposal,) = json.loads(modelwheel("tune", spec, *options).out)
    assert proposal["current"] == [1, 4]
    assert set(proposal["costs"]) == set(proposal["code"]) == {str(size) for size in candidates}
    assert set(proposal["proposed"]) <= candidates
    assert proposal["proposed_time"] <= proposal["current_time"] * 1.03
    assert "proposed" in plot.read_text()
    assert not spec.with_name("kinds.tune.json").exists()


@pytest.mark.exhaustive
def test_flags_are_tried_one_after_the_other(
    modelwheel: Modelwheel, built: Built, tmp_path: Path
) -> None:
    spec = copy_spec(built, "kinds", tmp_path)
    (tuned,) = json.loads(modelwheel("tune", spec, "--flags", "--json").out)
    level = tuned["levels"][LOWEST]
    assert [trial["flag"].partition("=")[0] for trial in level["trials"]][-2:] == [
        "--xla_llvm_disable_expensive_passes",
        "--xla_backend_optimization_level",
    ]
    assert level["flags"] == [trial["flag"] for trial in level["trials"] if trial["taken"]]
    assert read_lock(load_spec(spec)).xla_flags.get(LOWEST, ()) == tuple(level["flags"])


# --- stores of others -----------------------------------------------------------------------------


def test_a_read_only_store_serves_a_build_whose_results_are_all_there(
    modelwheel: Modelwheel, built: Built, tmp_path: Path
) -> None:
    """On a read-only file system, and where another user's store is this one's signed upstream."""
    prefix = mounting(read_only(modelwheel.cache), modelwheel.cache)
    if not prefix:
        pytest.skip("needs the right to mount a file system (unshare)")
    spec, wheel = built.spec("mlp"), built.wheel("mlp")
    (result,) = Modelwheel(modelwheel.cache, prefix).build(spec, "--out", tmp_path / "dist")
    assert (result["run"], Path(result["wheel"]).read_bytes()) == ([], wheel.read_bytes())
    # What is not there fails before any work, in one sentence, and what was built before stays.
    changed = copy_spec(built, "mlp", tmp_path)
    edit(changed, "batch_sizes: [1, 4]", "batch_sizes: [1, 3]")
    said = Modelwheel(modelwheel.cache, prefix)(
        "build", changed, "--out", tmp_path / "dist", code=10
    )
    assert "the file system is read-only: make it writable, or set MODELWHEEL_CACHE_DIR" in said.err


# --- interruptions --------------------------------------------------------------------------------


def test_ctrl_c_leaves_whole_results_and_no_process(rebuilt: Rebuilt) -> None:
    left = rebuilt.interrupted
    assert left.code == 130
    assert left.said.splitlines()[-1] == (
        "interrupted; finished steps are kept, run the command again to continue"
    )
    assert "Traceback" not in left.said
    assert "failed" not in left.said
    assert (left.wheels, left.damaged, left.survivors, left.temporary) == ([], [], [], [])
    assert "mlp-1.0.0/inspect" in left.done
    assert "mlp-1.0.0/project" not in left.done


def test_a_kill_leaves_whole_results(rebuilt: Rebuilt) -> None:
    left = rebuilt.killed
    assert left.code == -9
    assert (left.wheels, left.damaged, left.survivors, left.temporary) == ([], [], [], [])
    assert "mlp-1.0.0/project" in left.done
    assert "mlp-1.0.0/wheel" not in left.done


def test_the_next_run_carries_on(rebuilt: Rebuilt) -> None:
    # The bindings are compiled beside: the kill may have met them too.
    run = [name for name in rebuilt.result["run"] if name != "mlp-1.0.0/objects"]
    assert run == [f"mlp-1.0.0/{step}" for step in AT_END[1:]]
    assert rebuilt.leftovers == [".lock"]
