"""Builds with a worker that speaks the protocol without TensorFlow: what is refused, and when."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from modelwheel.engine.build import BuildOptions, BuildResult, build, exit_code, summarise
from modelwheel.engine.steps.model import InspectStep
from modelwheel.errors import EnvironmentProblemError, SourceError, UnsupportedModelError
from modelwheel.request import make_request
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from tests.support.sandboxes import NONE
from tests.support.toy_worker import COMMAND, inspection
from tests.support.toys import Recorder

pytestmark = pytest.mark.usefixtures("nothing_ahead")

_SPEC = """
model: {name: tiny, version: "1.0.0", saved_model: ./model}
compilation: {batch_sizes: [1, 4]}
targets: [x86-64, armv8-a]
"""


class _Reporter(Recorder):
    """Remembers findings too."""

    def findings(self, name: str, findings: object) -> None:
        self.events.append(("findings", f"{name}: {findings}"))


def write_spec(directory: Path, *more: str, behaviour: str = "", name: str = "tiny") -> Path:
    model = directory / "model"
    model.mkdir(exist_ok=True)
    (model / "saved_model.pb").write_bytes(b"toy")
    (model / "behaviour").write_text(behaviour)
    path = directory / f"{name}.yaml"
    path.write_text("\n".join([_SPEC.replace("tiny", name), *more]))
    return path


def build_specs(
    store: Store, *specs: Path, reporter: Recorder, out: Path | None = None
) -> list[BuildResult]:
    """Builds with workers of toys."""
    options = BuildOptions(out or store.root.parent / "dist", NONE, max_workers=2, worker=COMMAND)
    requests = [make_request(load_spec(spec)) for spec in specs]
    return build(requests, store, options, reporter)


def _build(
    store: Store, *specs: Path, out: Path | None = None
) -> tuple[list[BuildResult], _Reporter]:
    reporter = _Reporter()
    return build_specs(store, *specs, reporter=reporter, out=out), reporter


MISTAKES = [
    ("verify: {ranges: {bar: [0.0, 1.0]}}", "verify.ranges names 'bar', which is not an input"),
    ("verify: {outputs: {nope: {atol: 1.0}}}", "verify.outputs names 'nope', which is not an out"),
    ("inputs: {z: {shape: [null, 4]}}", "inputs names 'z', which is not an input"),
    ('batching: {rules: ["5:4,1"], emulate: false}', "the batch rule '5:4,1' cannot be kept"),
]


@pytest.mark.parametrize(("more", "words"), MISTAKES)
def test_check_and_build_refuse_the_same_before_anything_is_compiled(
    tmp_path: Path, store: Store, more: str, words: str
) -> None:
    spec = write_spec(tmp_path, more)
    checked = InspectStep(make_request(load_spec(spec)), "").check(inspection())
    (found,) = [finding for finding in checked if finding.severity == "error"]
    assert words in str(found)
    assert str(found).startswith(f"{spec}:")

    (result,), reporter = _build(store, spec)
    ((step, error),) = result.errors
    assert (step, str(error)) == ("tiny-1.0.0/inspect", str(found))
    assert isinstance(error, UnsupportedModelError)
    assert exit_code([result]) == UnsupportedModelError.exit_code
    assert reporter.of("started") == ["tiny-1.0.0/fetch", "tiny-1.0.0/inspect"]


def test_a_model_that_is_not_there_does_not_stop_the_others(tmp_path: Path, store: Store) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    first = write_spec(other, name="gone")
    (other / "model" / "saved_model.pb").unlink()
    results, reporter = _build(store, first, write_spec(tmp_path, behaviour="refuse not this one"))
    gone, tiny = results
    assert isinstance(gone.errors[0][1], SourceError)
    assert [(step, str(error)) for step, error in tiny.errors] == [
        ("tiny-1.0.0/inspect", "not this one")
    ]
    assert exit_code(results) == SourceError.exit_code
    assert reporter.events[0][0] == "planned"


def test_the_results_for_machines_and_for_the_last_lines(tmp_path: Path, store: Store) -> None:
    (result,), _ = _build(store, write_spec(tmp_path, behaviour="refuse no signature"))
    (shown,) = summarise([result])
    assert shown["errors"] == [
        {"step": "tiny-1.0.0/inspect", "message": "no signature", "code": "MW400"}
    ]
    assert (shown["wheel"], shown["run"], shown["cached"]) == (None, [], [])
    assert isinstance(shown["skipped"], list)
    assert "tiny-1.0.0/verify" in shown["skipped"]
    assert result.failures() == [("no signature [MW400]", ("tiny-1.0.0/inspect",))]


def test_an_output_directory_that_cannot_be_written(tmp_path: Path, store: Store) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        EnvironmentProblemError, match=r"cannot write to .*choose another directory"
    ):
        _build(store, write_spec(tmp_path), out=tmp_path / "file" / "dist")


def test_temporary_files_go_below_the_store_only_during_a_build(
    tmp_path: Path, store: Store
) -> None:
    before = os.environ.get("TMPDIR"), tempfile.gettempdir()
    seen: list[str] = []
    reporter = _Reporter(on_event=lambda *_: seen.append(tempfile.mkdtemp()))
    options = BuildOptions(tmp_path / "dist", NONE, max_workers=1, worker=COMMAND)
    spec = write_spec(tmp_path, behaviour="refuse it")
    build([make_request(load_spec(spec))], store, options, reporter)
    assert seen
    assert all(Path(path).is_relative_to(store.root) for path in seen)
    assert not any(Path(path).exists() for path in seen)
    assert (os.environ.get("TMPDIR"), tempfile.gettempdir()) == before
