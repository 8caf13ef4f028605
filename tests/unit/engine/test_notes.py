"""What records say about the steps that made them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from modelwheel import __version__
from modelwheel.engine.notes import Work, condense
from modelwheel.engine.scheduler import Task, Tools, run_steps
from modelwheel.store.store import Store
from modelwheel.workers.jobs import JobResult
from tests.support.sandboxes import NONE
from tests.support.stores import make
from tests.support.toys import Recorder, ThreadPool, ToyJob, ToyLocal, toy_key


def test_a_note_says_what_a_result_was_made_from_and_what_it_took(tmp_path: Path) -> None:
    model = make(tmp_path / "model", {"a/weights": b"12345", "graph": b"6"})
    work = Work(
        name="net-1.0/x",
        kind="job",
        lineage="net/x",
        inputs={"tensorflow": "1"},
        meanings={},
        model=model,
        used=JobResult(1.23456, 3.5, 1024),
        needs={"net-1.0/y": "key"},
    )
    note = work.note()
    assert isinstance(note["host"], str)
    assert {**note, "host": ""} == {
        "step": "net-1.0/x",
        "kind": "job",
        "inputs": {"tensorflow": "1"},
        "needs": {"net-1.0/y": "key"},
        "seconds": 1.235,
        "cpu_seconds": 3.5,
        "peak_bytes": 1024,
        "model_bytes": 6,
        "host": "",
        "modelwheel": __version__,
    }
    # What nobody has measured is not there.
    assert {"cpu_seconds", "peak_bytes"}.isdisjoint(replace(work, used=JobResult(0)).note())


def test_long_values_are_replaced_by_their_hashes() -> None:
    labels = [f"class {number}" for number in range(1000)]
    found = condense({"labels": {"y": labels}, "text": "x" * 1000, "flags": ["a", 1, None]})
    assert found["flags"] == ["a", 1, None]
    assert found["labels"]["y"].startswith("sha256:")
    assert found["text"].startswith("sha256:")
    assert condense({"y": labels}) != condense({"y": [*labels[1:], "other"]})


def test_the_records_of_a_build_have_notes(store: Store, tmp_path: Path) -> None:
    model = make(tmp_path / "model", {"graph": b"123"})
    steps = [ToyJob("a"), ToyLocal("b", ("a",))]
    with ThreadPool(1) as pool:
        (outcome,) = run_steps([Task(steps, model)], Tools(store, pool, Recorder(), NONE))
    record = store.lookup(toy_key("a"))
    assert record is not None
    assert record.note["inputs"] == {"label": "a", "needs": {}}
    assert record.note["model_bytes"] == 3
    made = outcome.records["b"].note
    assert (made["step"], made["kind"]) == ("b", "local")
    assert made["inputs"]["needs"] == {"a": record.hashes["text"]}
