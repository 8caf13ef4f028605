"""The steps of a real spec: names, needs and keys; nothing runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from modelwheel.engine.steps import Goal, steps_of
from modelwheel.engine.steps.base import JobStep, LocalStep, Step, Workspace
from modelwheel.engine.steps.model import InspectStep, ReferenceStep
from modelwheel.model.inspection import INSPECTION
from modelwheel.request import Request, make_request
from modelwheel.spec import load_spec
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from modelwheel.workers.jobs import CompileJob, FreezeJob, InspectJob, ReferenceJob
from tests.support.sandboxes import NONE
from tests.support.stores import make
from tests.support.toy_worker import inspection

_SPEC = """
model: {name: tiny, version: "1.0.0", saved_model: ./model}
compilation: {batch_sizes: [1, 4]}
targets: [x86-64, x86-64-v3]
"""
_TREE = "ab" * 32


def _request(directory: Path, *more: str) -> Request:
    path = directory / "tiny.yaml"
    path.write_text("\n".join([_SPEC, *more]))
    return make_request(load_spec(path), platforms=["linux-x86_64"])


def _steps(request: Request, goal: Goal = "wheel") -> dict[str, Step]:
    steps = steps_of(request, _TREE, {"kind": "directory"}, goal)
    return {step.name.partition("/")[2]: step for step in steps}


def _publish(store: Store, tmp_path: Path, name: str, *files: str) -> Record:
    directory = tmp_path / "made" / name
    directory.mkdir(parents=True)
    return store.publish(name, make(directory, {file: name.encode() for file in files}))


@pytest.fixture
def inspected(store: Store, tmp_path: Path) -> dict[str, Record]:
    """The result of the inspect step."""
    directory = tmp_path / "inspected"
    directory.mkdir()
    inspection().save(directory / INSPECTION)
    return {"tiny-1.0.0/inspect": store.publish("00", directory)}


COMPILED = [f"linux-x86_64/{level}/b{size}" for level in ("x86-64", "x86-64-v3") for size in (1, 4)]


@pytest.mark.parametrize(
    ("goal", "last"),
    [("wheel", ["objects", "kernels", "wheel", "verify"]), ("sdist", ["sdist"]), ("project", [])],
)
def test_the_steps_of_a_spec(tmp_path: Path, goal: Goal, last: list[str]) -> None:
    steps = _steps(_request(tmp_path), goal)
    first = ["inspect", "reference", "freeze/b1", "freeze/b4"]
    assert list(steps) == [*first, *COMPILED, "project", *last]
    for position, step in enumerate(steps.values()):
        earlier = {f"tiny-1.0.0/{name}" for name in list(steps)[:position]}
        assert {*step.needs, *step.waits_for} <= earlier


def test_shared_bindings_need_the_runtime(tmp_path: Path) -> None:
    steps = _steps(_request(tmp_path, "package: {bindings: shared}"))
    assert list(steps)[-3:] == ["wheel", "runtime", "verify"]
    assert "tiny-1.0.0/objects" in steps["runtime"].needs
    assert "tiny-1.0.0/objects" not in steps["wheel"].needs
    assert "tiny-1.0.0/runtime" in steps["verify"].needs


def test_everything_needs_the_inspection_and_a_wheel_the_reference(tmp_path: Path) -> None:
    steps = _steps(_request(tmp_path))
    assert {name for name, step in steps.items() if step.vital} == {"inspect", "reference"}
    assert steps["freeze/b4"].needs == steps["reference"].needs == ("tiny-1.0.0/inspect",)
    compiling = steps["linux-x86_64/x86-64/b4"]
    assert compiling.needs == ("tiny-1.0.0/freeze/b4",)
    assert compiling.waits_for == ("tiny-1.0.0/reference",)
    assert set(steps["project"].needs) == {
        *("tiny-1.0.0/freeze/b1", "tiny-1.0.0/freeze/b4", "tiny-1.0.0/reference"),
        *(f"tiny-1.0.0/{name}" for name in COMPILED),
    }


def test_workers_do_what_needs_tensorflow(tmp_path: Path) -> None:
    steps = _steps(_request(tmp_path))
    local = {name for name, step in steps.items() if isinstance(step, LocalStep)}
    assert local == {"project", "objects", "kernels", "wheel", "verify"}
    assert all(isinstance(steps[name], JobStep) for name in steps if name not in local)


# --- keys -----------------------------------------------------------------------------------------


def _keys(request: Request, store: Store, records: dict[str, Record]) -> dict[str, str]:
    """Keys of all jobs whose needs are known."""
    return {
        name: step.key(store, records)
        for name, step in _steps(request).items()
        if isinstance(step, JobStep) and all(need in records for need in step.needs)
    }


@pytest.mark.parametrize(
    ("more", "changed"),
    [
        ("verify: {seed: 1}", {"reference"}),
        ("verify: {rows: 20}", {"reference"}),
        ("verify: {ranges: {x: [0.0, 1.0]}}", {"reference"}),
        ("verify: {tolerance: {rtol: 1.0e-4}}", set()),
        ("inputs: {x: {shape: [null, 4]}}", {"reference", "freeze/b1", "freeze/b4"}),
        ("allow_pruned_inputs: true", {"freeze/b1", "freeze/b4"}),
        ("keep_state: true", {"reference", "freeze/b1", "freeze/b4"}),
        ("interface_order: sorted", {"inspect", "reference", "freeze/b1", "freeze/b4"}),
        ("package: {summary: Short}", set()),
        ("fast_math: {enable: true}", set(COMPILED)),
    ],
)
def test_a_key_holds_what_the_result_depends_on(
    tmp_path: Path, store: Store, inspected: dict[str, Record], more: str, changed: set[str]
) -> None:
    records = dict(inspected)
    for size in (1, 4):
        name = f"freeze/b{size}"
        record = _publish(store, tmp_path, name.replace("/", "-"), "graph.pb", "config.pb")
        records[f"tiny-1.0.0/{name}"] = record
    before = _keys(_request(tmp_path), store, records)
    after = _keys(_request(tmp_path, more), store, records)
    assert {name for name in before if before[name] != after[name]} == changed
    assert set(before) == {"inspect", "reference", "freeze/b1", "freeze/b4", *COMPILED}
    assert len(set(before.values())) == len(before)


def test_another_model_has_other_keys(
    tmp_path: Path, store: Store, inspected: dict[str, Record]
) -> None:
    step = InspectStep(_request(tmp_path), _TREE)
    assert step.key(store, {}) != replace(step, tree="cd" * 32).key(store, {})
    reference = ReferenceStep(_request(tmp_path), _TREE)
    assert reference.key(store, inspected) != replace(reference, tree="cd").key(store, inspected)


# --- jobs -----------------------------------------------------------------------------------------


def test_the_jobs_of_steps(tmp_path: Path, store: Store, inspected: dict[str, Record]) -> None:
    frozen = _publish(store, tmp_path, "frozen", "graph.pb", "config.pb")
    records = {**inspected, "tiny-1.0.0/freeze/b4": frozen}
    workspace = Workspace(store, tmp_path / "model", records, NONE)
    steps = _steps(_request(tmp_path))

    def job(name: str) -> Any:
        step = steps[name]
        assert isinstance(step, JobStep)
        return step.job(workspace, tmp_path / "out")

    assert isinstance(job("inspect"), InspectJob)
    freeze, reference, compiled = job("freeze/b4"), job("reference"), job(COMPILED[-1])
    assert isinstance(freeze, FreezeJob)
    assert (freeze.request.batch, freeze.inputs.model) == (4, tmp_path / "model")
    assert isinstance(reference, ReferenceJob)
    assert reference.request.rows == (1, 3, 4, 7, 16)
    assert isinstance(compiled, CompileJob)
    assert compiled.request.cpp_class == "mw::tiny_b4_x86_64_v3"
    assert compiled.inputs.graph.read_bytes() == b"frozen"
    assert "--xla_cpu_enable_fast_math=false" in compiled.flags.xla


def test_findings_carry_the_place_in_the_spec(tmp_path: Path) -> None:
    request = _request(tmp_path, "verify:", "  ranges: {bar: [0.0, 1.0]}")
    (finding,) = InspectStep(request, _TREE).check(inspection())
    assert finding.place == f"{tmp_path / 'tiny.yaml'}:7:12"
    assert str(finding) == (
        f"{finding.place}: verify.ranges names 'bar', which is not an input of the signature; "
        "its inputs are: x"
    )
