"""`modelwheel new`: from a SavedModel to a spec that the other commands take."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from modelwheel.errors import SpecError, UnsupportedModelError
from modelwheel.spec import GitSource, load_spec
from modelwheel.spec.schema import schema_text
from tests.support.commands import Modelwheel
from tests.support.repositories import Repository, isolate_git

pytestmark = pytest.mark.slow


def new(modelwheel: Modelwheel, model: Path, out: Path, *options: str, code: int = 0) -> str:
    """Writes `out/my-model.yaml`; gives what was said."""
    done = modelwheel("new", "my-model", "--model", model, "--out", out, *options, code=code)
    return done.out if code == 0 else done.err


_LONGER = [pytest.param(name, marks=pytest.mark.exhaustive) for name in ("kinds", "fixed")]


@pytest.mark.parametrize("name", ["mlp", *_LONGER])
def test_what_it_writes_is_a_sound_spec(
    modelwheel: Modelwheel, models: Path, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "specs" / "my-model.yaml"
    said = new(modelwheel, models / name, path.parent)
    assert said == f"wrote {path}; next: modelwheel check {path}\n"
    # What its first line names is beside it.
    assert (path.parent / "schema.json").read_text() == schema_text()
    assert "ok my-model: " in modelwheel("check", path).out.splitlines()[0]
    # Other tests may have done more with the same model, but never under this name.
    assert {"inspect", "wheel"} & set(modelwheel.missing(path)) == {"wheel"}


def test_where_it_was_written_as_json(modelwheel: Modelwheel, models: Path, tmp_path: Path) -> None:
    said = new(modelwheel, models / "mlp", tmp_path, "--json")
    assert json.loads(said) == {"spec": str(tmp_path / "my-model.yaml")}


def test_free_axes_are_left_to_be_filled_in(
    modelwheel: Modelwheel, models: Path, tmp_path: Path
) -> None:
    new(modelwheel, models / "sequence", tmp_path)
    path = tmp_path / "my-model.yaml"
    done = modelwheel("check", path, code=UnsupportedModelError.exit_code)
    assert "input 'tokens' has the free axis 1 in [batch, ?, 4]" in done.out
    filled = path.read_text().replace("# inputs:\n#   tokens: {shape: [null, ?, 4]}",
                                      "inputs:\n  tokens: {shape: [null, 6, 4]}")  # fmt: skip
    path.write_text(filled)
    modelwheel("check", path)


def test_an_unused_input_is_told_by_check(
    modelwheel: Modelwheel, models: Path, tmp_path: Path
) -> None:
    new(modelwheel, models / "unused_input", tmp_path)
    path = tmp_path / "my-model.yaml"
    # What only freezing finds, and the build would refuse.
    done = modelwheel("check", path, code=UnsupportedModelError.exit_code)
    assert "no output depends on the input 'unused'; set allow_pruned_inputs: true" in done.out
    path.write_text(f"{path.read_text()}allow_pruned_inputs: true\n")
    assert "ok my-model: " in modelwheel("check", path).out.splitlines()[0]
    assert modelwheel.plan(path)["freeze/b1"] == "cached"


def test_a_graph_without_signature_gets_what_is_found_in_it(
    modelwheel: Modelwheel, graphs: Path, tmp_path: Path
) -> None:
    new(modelwheel, graphs / "tagger.pb", tmp_path)
    path = tmp_path / "my-model.yaml"
    source = load_spec(path).source
    assert source is not None
    assert dict(source.feeds) == {"input": "input:0"}
    assert dict(source.fetches) == {"id_probabilities": "output/id_probabilities:0"}
    assert dict(source.constants) == {"keras_learning_phase": False}
    assert "ok my-model: " in modelwheel("check", path).out.splitlines()[0]


def test_an_existing_spec_is_left_alone(
    modelwheel: Modelwheel, models: Path, tmp_path: Path
) -> None:
    path = tmp_path / "my-model.yaml"
    path.write_text("mine")
    said = new(modelwheel, models / "mlp", tmp_path, code=SpecError.exit_code)
    assert said == f"error: {path} exists; remove it or choose another name [MW117]\n"
    assert path.read_text() == "mine"


def test_names_and_signatures_that_are_not_fit(
    modelwheel: Modelwheel, models: Path, tmp_path: Path
) -> None:
    options = ("--signature", "serving_defalt")
    said = new(modelwheel, models / "mlp", tmp_path, *options, code=SpecError.exit_code)
    assert "no signature 'serving_defalt'; did you mean 'serving_default'?" in said
    command = ("new", "../My Model", "--model", models / "mlp", "--out", tmp_path)
    assert "Did you mean 'my-model'?" in modelwheel(*command, code=SpecError.exit_code).err
    assert list(tmp_path.iterdir()) == []


def test_a_model_in_a_checkout_is_pinned(
    modelwheel: Modelwheel, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate_git(monkeypatch, tmp_path / "gitconfig")
    repository = Repository(tmp_path / "data")
    shutil.copytree(models / "mlp", repository.directory / "mlp")
    commit = repository.commit({"README": b""})
    repository.git("init", "--quiet", "--bare", str(tmp_path / "hosted.git"))
    repository.git("remote", "add", "origin", str(tmp_path / "hosted.git"))
    said = modelwheel("new", "my-model", "--model", repository.directory / "mlp", "--out", tmp_path)
    assert f"{commit} is on no branch of the remote: push it" in said.err
    (tmp_path / "my-model.yaml").unlink()
    repository.git("push", "--quiet", "origin", "main")
    new(modelwheel, repository.directory / "mlp", tmp_path)
    path = tmp_path / "my-model.yaml"
    source = load_spec(path).source
    assert isinstance(source, GitSource)
    assert (source.git, source.commit, source.path) == (str(tmp_path / "hosted.git"), commit, "mlp")
    modelwheel("check", path)
