"""`modelwheel check` with a worker that needs no TensorFlow."""

from __future__ import annotations

from pathlib import Path

from modelwheel.engine.check_models import check_models
from modelwheel.engine.planning.plan import plan
from modelwheel.errors import CompileError, SourceError, SpecError, UnsupportedModelError
from modelwheel.request import make_request
from modelwheel.spec import load_spec
from modelwheel.spec.bare import bare_values, make_bare
from modelwheel.store.store import Store
from modelwheel.util.records import as_json
from tests.support.sandboxes import NONE
from tests.support.toy_worker import COMMAND, inspection
from tests.support.toys import Recorder

_SPEC = """
model: {name: NAME, version: "1.0.0", saved_model: ./model}
compilation: {batch_sizes: [1, 4]}
targets: [x86-64, armv8-a]
"""


def _write(directory: Path, name: str, more: str = "", behaviour: str = "") -> Path:
    model = directory / "model"
    model.mkdir(parents=True)
    (model / "saved_model.pb").write_bytes(b"toy")
    (model / "behaviour").write_text(behaviour)
    path = directory / f"{name}.yaml"
    path.write_text(_SPEC.replace("NAME", name) + more)
    return path


def test_findings_of_several_models(tmp_path: Path, store: Store) -> None:
    good = _write(tmp_path / "a", "good")
    wrong = _write(tmp_path / "b", "wrong", "verify: {ranges: {bar: [0.0, 1.0]}}")
    refused = _write(tmp_path / "c", "refused", behaviour="refuse saved_model.pb is damaged")
    gone = _write(tmp_path / "d", "gone")
    (tmp_path / "d" / "model" / "saved_model.pb").unlink()
    costs = _write(tmp_path / "e", "costs")
    costs.with_name("costs.tune.json").write_text("{}")
    specs = [load_spec(path) for path in (good, wrong, refused, gone, costs)]
    checked = check_models(specs, store, NONE, Recorder(), COMMAND)
    assert [model.exit_code for model in checked] == [
        *(0, UnsupportedModelError.exit_code, UnsupportedModelError.exit_code),
        *(SourceError.exit_code, SpecError.exit_code),
    ]
    assert [model.model for model in checked] == [f"{spec.model.name}-1.0.0" for spec in specs]
    assert checked[0].inspection == inspection()
    finding, licence = checked[1].findings
    assert str(finding).startswith(f"{wrong}:")
    assert (licence.severity, licence.kind) == ("warning", "weights-licence")
    assert str(checked[2].error) == "saved_model.pb is damaged"
    shown = as_json(checked)
    keys = ["model", "signature", "error", "code", "inspection", "findings", "verdict"]
    assert list(shown[0]) == keys
    assert [model.verdict for model in checked] == [
        "ok good: 0 kinds of operation, all compiled",
        "refused wrong: verify.ranges names 'bar', which is not an input of the signature",
        "refused refused: saved_model.pb is damaged",
        *(model.verdict for model in checked[3:]),
    ]
    assert all(model.verdict.startswith("refused ") for model in checked[3:])
    assert shown[0]["inspection"]["signatures"][0]["key"] == "serving_default"
    assert shown[1]["findings"][0]["field"] == ["verify", "ranges", "bar"]
    assert shown[2]["error"] == "saved_model.pb is damaged"


def test_a_model_without_a_spec_has_no_licence_to_state(tmp_path: Path, store: Store) -> None:
    model = _write(tmp_path, "bare").parent / "model"
    values = bare_values("bare", model, None)
    (checked,) = check_models([make_bare(values, model)], store, NONE, Recorder(), COMMAND)
    assert checked.verdict.startswith("ok bare: ")
    assert list(checked.findings) == []


def test_a_model_is_inspected_once(tmp_path: Path, store: Store) -> None:
    spec = load_spec(_write(tmp_path, "once"))
    first = check_models([spec], store, NONE, Recorder(), COMMAND)
    # No worker can be started: the inspection is in the store.
    assert check_models([spec], store, NONE, Recorder(), ("no such program",)) == first


def test_each_model_is_compiled_once(tmp_path: Path, store: Store) -> None:
    specs = {
        name: load_spec(_write(tmp_path / name, name, behaviour=behaviour))
        for name, behaviour in {
            "good": "",
            "odd": "when freeze refuse Loop 'body/7' has no end; unroll it",
            "fatal": "when freeze crash F0000 a.cc:1] no such type",
        }.items()
    }
    recorder = Recorder()
    good, odd, fatal = check_models(list(specs.values()), store, NONE, recorder, COMMAND)
    assert good.exit_code == 0
    assert str(odd.error) == "Loop 'body/7' has no end; unroll it"
    assert odd.exit_code == UnsupportedModelError.exit_code
    assert odd.verdict == f"refused odd: {odd.error}"
    assert odd.inspection == inspection()
    assert fatal.exit_code == CompileError.exit_code
    assert str(fatal.error) == (
        "while the TensorFlow SavedModel model was converted, the worker process crashed with signal 6 "
        "(SIGABRT): no such type; TensorFlow itself fails at this file: look for extreme sizes and deep nesting in "
        "it, or export the model again"
    )
    assert "good-1.0.0/freeze/b1" in recorder.of("finished")
    # A build finds what was made, and makes the rest.
    steps = plan(make_request(specs["good"]), store)
    assert [step.kind for step in steps if step.state == "cached"] == [
        *("fetch", "inspect", "freeze", "compile")
    ]
