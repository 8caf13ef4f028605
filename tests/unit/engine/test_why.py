"""Why steps must run, found in a store with earlier results; nothing runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from modelwheel.engine.planning.changes import Reason
from modelwheel.engine.planning.plan import survey
from modelwheel.engine.planning.why import FOLLOWS, Explainer, group
from modelwheel.engine.steps import bundle, distribution, profile
from modelwheel.packaging import kernels, objects, runtime, template
from modelwheel.request import Request, make_request
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from modelwheel.workers import jobs
from tests.support.histories import pretend_build

_SPEC = """
model: {name: NAME, version: "1.0.0", saved_model: ./model}
targets: [x86-64, x86-64-v3]
"""


@pytest.fixture(autouse=True)
def _compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    use_compiler(monkeypatch, "g++ 12")


def use_compiler(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Pretends that wheels are compiled by another compiler."""
    for module in (bundle, distribution, profile, kernels, objects, runtime):
        monkeypatch.setattr(module, "build_environment", lambda _="": {"cxx": version})


def _request(directory: Path, *more: str, name: str = "tiny") -> Request:
    model = directory / "model"
    if not model.exists():
        model.mkdir()
        (model / "saved_model.pb").write_bytes(b"toy")
    path = directory / f"{name}.yaml"
    path.write_text("\n".join([_SPEC.replace("NAME", name), *more]))
    return make_request(load_spec(path), platforms=["linux-x86_64"])


def _why(request: Request, store: Store) -> dict[str, list[str]]:
    """The reasons of each step that must run."""
    found = Explainer(store).why(survey(request, store))
    return {
        name.partition("/")[2]: [reason.text for reason in reasons]
        for name, reasons in found.items()
    }


def test_at_first_nothing_was_ever_built(tmp_path: Path, store: Store) -> None:
    found = _why(_request(tmp_path), store)
    assert {"inspect", "freeze/b1", "linux-x86_64/x86-64/b1", "wheel", "verify"} <= set(found)
    assert {tuple(reasons) for reasons in found.values()} == {("never built",)}


def test_nothing_is_said_of_what_is_there(tmp_path: Path, store: Store) -> None:
    request = _request(tmp_path)
    pretend_build(request, store)
    assert _why(request, store) == {}


def test_a_flag(tmp_path: Path, store: Store) -> None:
    line = 'compilation: {{xla_flags: ["--xla_cpu_prefer_vector_width={}"]}}'
    pretend_build(_request(tmp_path, line.format(128)), store)
    found = _why(_request(tmp_path, line.format(256)), store)
    said = "flag xla_cpu_prefer_vector_width changed from 128 to 256"
    assert found["linux-x86_64/x86-64/b1"] == [said]
    assert found["linux-x86_64/x86-64-v3/b1"] == [said]
    assert found["project"][0] == said
    assert found["project"][1].startswith("spec field compilation.xla_flags changed from")
    assert found["project"][2] == "compile must run first"
    assert found["verify"] == ["wheel must run first"]
    assert "freeze/b1" not in found


def test_a_byte_of_the_model(tmp_path: Path, store: Store) -> None:
    request = _request(tmp_path)
    pretend_build(request, store)
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"Toy")
    found = _why(request, store)
    said = "model file saved_model.pb changed"
    assert found["inspect"] == [said]
    assert found["freeze/b1"] == [said, "inspect must run first"]
    assert found["linux-x86_64/x86-64/b1"] == ["freeze must run first"]
    (tmp_path / "model" / "more").write_bytes(b"")
    assert "model file more was added" in _why(request, store)["inspect"]


def test_tensorflow(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    request = _request(tmp_path)
    monkeypatch.setattr(jobs, "TENSORFLOW_VERSION", "2.1.0")
    pretend_build(request, store)
    monkeypatch.setattr(jobs, "TENSORFLOW_VERSION", "2.2.0")
    found = _why(request, store)
    said = "TensorFlow changed from 2.1.0 to 2.2.0"
    assert found["inspect"] == [said]
    # Also of steps whose own key is not known yet.
    assert found["linux-x86_64/x86-64/b1"] == [said, "freeze must run first"]


def test_a_compiler(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    request = _request(tmp_path)
    pretend_build(request, store)
    use_compiler(monkeypatch, "g++ 13")
    found = _why(request, store)
    said = "the C++ compiler changed from g++ 12 to g++ 13"
    assert (found["objects"], found["wheel"][0]) == ([said], said)


def test_a_file_of_the_template(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "template"
    shutil.copytree(template.template_directory(), own)
    monkeypatch.setattr(template, "template_directory", lambda: own)
    request = _request(tmp_path)
    pretend_build(request, store)
    with (own / "bindings/src/bindings/module.cpp").open("a") as file:
        file.write("// changed\n")
    assert _why(request, store)["objects"] == ["template file src/bindings/module.cpp changed"]


def test_a_result_that_was_removed(tmp_path: Path, store: Store) -> None:
    request = _request(tmp_path)
    pretend_build(request, store)
    (verify,) = [one for one in survey(request, store).planned if one.kind == "verify"]
    assert verify.key is not None
    store.record_path(verify.key).unlink()
    assert _why(request, store) == {"verify": ["its result is not in the store any more"]}


def test_another_version_of_the_model(tmp_path: Path, store: Store) -> None:
    pretend_build(_request(tmp_path), store)
    path = tmp_path / "tiny.yaml"
    path.write_text(path.read_text().replace("1.0.0", "1.1.0"))
    found = _why(make_request(load_spec(path), platforms=["linux-x86_64"]), store)
    assert found["project"] == ["spec field model.version changed from 1.0.0 to 1.1.0"]
    assert "freeze/b1" not in found


def test_other_models_share_what_knows_no_model(tmp_path: Path, store: Store) -> None:
    pretend_build(_request(tmp_path), store)
    found = _why(_request(tmp_path, name="other"), store)
    # The same model: it is compiled again, because its symbols have the model's name.
    assert set(found) == {
        "linux-x86_64/x86-64/b1",
        "linux-x86_64/x86-64-v3/b1",
        "project",
        "kernels",
        "wheel",
        "verify",
    }
    assert found["project"] == ["never built"]


def test_steps_with_the_same_reason_are_one_group(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [_request(tmp_path, name=name) for name in ("a", "b", "c")]
    monkeypatch.setattr(jobs, "TENSORFLOW_VERSION", "2.1.0")
    for request in requests:
        pretend_build(request, store)
    monkeypatch.setattr(jobs, "TENSORFLOW_VERSION", "2.2.0")
    explainer = Explainer(store)
    reasons: dict[str, list[Reason]] = {}
    for request in requests:
        reasons |= explainer.why(survey(request, store))
    first, *others = group(reasons).items()
    assert first[0] == "TensorFlow changed from 2.1.0 to 2.2.0"
    assert "a-1.0.0/inspect" in first[1]
    assert "c-1.0.0/linux-x86_64/x86-64/b1" in first[1]
    # What only follows is told by the step that it waits for.
    assert [text for text, _ in others] == [FOLLOWS]
