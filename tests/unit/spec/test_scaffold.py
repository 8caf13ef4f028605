"""The spec that `modelwheel new` writes: it loads as it stands, whatever the model is called."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.errors import SpecError
from modelwheel.spec import DirectorySource, GitSource, Spec, load_spec
from modelwheel.spec.reading.read import read_document
from modelwheel.spec.scaffold import ModelDescription, Origin, TensorDescription, scaffold_spec
from modelwheel.spec.sources import FileSource

IMAGE = TensorDescription("image", "float32", (None, 8, 8, 1))
TOKENS = TensorDescription("tokens", "int32", (None, None))
SCORE = TensorDescription("score", "float32", (None, 10))
FIXED = TensorDescription("x", "float32", (1, 3))


def describe(*inputs: TensorDescription, key: str = "serving_default") -> ModelDescription:
    return ModelDescription((key, "train"), key, inputs, (SCORE,))


def load(directory: Path, text: str) -> Spec:
    path = directory / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    return load_spec(path)


def test_a_scaffold_reads_as_intended() -> None:
    assert (
        scaffold_spec("jet-tagger", Path("../data/jets"), describe(IMAGE, TOKENS))
        == """\
# yaml-language-server: $schema=schema.json
model:
  name: jet-tagger  # the wheel is called model-jet-tagger
  version: "1.0.0"
  saved_model: ../data/jets  # relative to this file
  serving_key: serving_default  # also in this model: train
  # inputs:
  #   image: float32 [batch, 8, 8, 1]
  #   tokens: int32 [batch, ?]
  # outputs:
  #   score: float32 [batch, 10]
  # author: Your Name
  # description: What the model does.

# The batch sizes that are compiled follow from the model: `modelwheel check` says which. To choose them:
# compilation:
#   batch_sizes: [1, 4, 16]

# To fill in: these inputs have free axes in addition to the batch; machine code needs their
# lengths. Replace each `?` by a number, or by several as {buckets: [32, 128], pad: 0}, or by the word batch
# where that is the axis of the rows; then remove the `# ` in front of these lines.
# inputs:
#   tokens: {shape: [null, ?]}

package:
  license: Apache-2.0  # of the generated code
  # weights_license: CC-BY-4.0  # of the weights; SPDX expression
  # summary: One line for listings.

verify:
  # Accepted difference from TensorFlow: atol + rtol * largest absolute output.
  tolerance: {atol: 0.0, rtol: 1.0e-5}
"""
    )


def test_a_file_has_a_source(tmp_path: Path) -> None:
    text = scaffold_spec("jets", Path("../my data/a b.onnx"), describe(IMAGE), is_file=True)
    spec = load(tmp_path, text)
    assert isinstance(spec.source, DirectorySource)
    assert (spec.source.directory, spec.source.path) == ("../my data", "a b.onnx")
    assert spec.source.model_format == "onnx"


def test_a_pin_takes_the_place_of_a_path(tmp_path: Path) -> None:
    fields = {"file": "https://example.org/a.onnx", "sha256": "1e2" + "3" * 61}
    origin = Origin({**fields, "beside": {"a.onnx.data": "9" * 62 + "e1"}})
    text = scaffold_spec("jets", Path(), describe(IMAGE), is_file=True, origin=origin)
    spec = load(tmp_path, text)
    assert isinstance(spec.source, FileSource)
    assert (spec.source.file, spec.source.sha256) == tuple(fields.values())
    assert spec.source.beside == origin.source["beside"]
    # A SavedModel, too.
    pin = {"git": "https://example.org/a.git", "commit": "1" * 40, "path": "models/jets"}
    text = scaffold_spec("jets", Path("../jets"), describe(IMAGE), origin=Origin(pin))
    assert isinstance(load(tmp_path, text).source, GitSource)
    assert "saved_model" not in text


def test_why_there_is_no_pin_is_said(tmp_path: Path) -> None:
    origin = Origin(note="it has changes\nthat are not committed")
    for is_file in (True, False):
        text = scaffold_spec(
            "jets", Path("../a.onnx"), describe(IMAGE), is_file=is_file, origin=origin
        )
        assert "  # it has changes\\x0athat are not committed\n" in text
        load(tmp_path, text)


def test_a_graph_has_feeds_and_fetches_in_order(tmp_path: Path) -> None:
    feeds = {"zeta": "z:0", "alpha": "a/b:0", 'b": {x} #': "c:1"}
    ports: dict[str, dict[str, str | bool]] = {
        "feeds": {**feeds},
        "fetches": {"y": "y:0"},
        "constants": {"keras_learning_phase": False},
    }
    model = replace(describe(IMAGE), ports=ports)
    spec = load(tmp_path, scaffold_spec("jets", Path("../frozen.pb"), model, is_file=True))
    assert spec.source is not None
    assert list(spec.source.feeds.values()) == list(feeds.values())
    assert list(spec.source.feeds)[:2] == ["zeta", "alpha"]
    assert dict(spec.source.fetches) == ports["fetches"]
    assert dict(spec.source.constants) == ports["constants"]


def test_a_scaffold_loads(tmp_path: Path) -> None:
    spec = load(tmp_path, scaffold_spec("jets", Path("my data/1.0"), describe(IMAGE, key="yes")))
    assert spec.model.name == "jets"
    assert spec.model.saved_model == "my data/1.0"
    assert spec.model.serving_key == "yes"
    assert spec.compilation.batch_sizes is None


def test_a_fixed_batch_is_left_to_the_model(tmp_path: Path) -> None:
    spec = load(tmp_path, scaffold_spec("jets", Path("/data"), describe(FIXED)))
    assert spec.compilation.batch_sizes is None


def test_filling_in_free_axes(tmp_path: Path) -> None:
    unknown = TensorDescription("un: known", "float32", None)
    lines = scaffold_spec("jets", Path("/data"), describe(TOKENS, unknown)).splitlines()
    start = lines.index("# inputs:")
    block = [line.removeprefix("# ").replace("?", "7") for line in lines[start : start + 3]]
    spec = load(tmp_path, "\n".join(lines[:start] + block + lines[start + 3 :]))
    assert {name: given.shape for name, given in spec.inputs.items()} == {
        "tokens": (None, 7),
        "un: known": (None, 7),
    }


_NAMES = st.text(min_size=1, max_size=20) | st.sampled_from(
    ["null", "a\nb: 1", "# x", "{?}", "\ud800"]
)
_SHAPES = st.none() | st.lists(st.none() | st.integers(1, 99), max_size=3).map(tuple)
_TENSORS = st.lists(st.builds(TensorDescription, _NAMES, _NAMES, _SHAPES), max_size=3).map(tuple)


@given(st.lists(_NAMES, max_size=3).map(tuple), _NAMES, _TENSORS, _TENSORS, _NAMES)
def test_no_model_breaks_its_scaffold(
    tmp_path_factory: pytest.TempPathFactory,
    signatures: tuple[str, ...],
    key: str,
    inputs: tuple[TensorDescription, ...],
    outputs: tuple[TensorDescription, ...],
    path: str,
) -> None:
    model = ModelDescription(signatures, key, inputs, outputs)
    try:
        text = scaffold_spec("jets", Path(path), model)
    except SpecError:
        return  # the sentence is tested below
    spec = load(tmp_path_factory.getbasetemp(), text)
    assert spec.model.serving_key == key
    assert Path(spec.model.saved_model) == Path(path)
    keys = set(read_document(spec.path).values)
    assert keys <= {"model", "compilation", "package", "verify"}


def test_a_bad_name_is_refused() -> None:
    with pytest.raises(
        SpecError, match=r"name: may contain only lower-case .* Did you mean 'jet-tagger'\?"
    ):
        scaffold_spec("Jet Tagger", Path("/data"), describe(IMAGE))


def test_what_a_spec_cannot_hold_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        scaffold_spec("jets", Path("~/a"), describe(IMAGE, key="a\x1b\n"))
    assert str(caught.value).splitlines() == [
        "saved_model: `~` is not expanded. Write the path out, or relative to the spec file",
        "serving_key: must be a single line without tabs. Write it in one line",
    ]


def test_a_batch_on_another_axis_is_written_as_that(tmp_path: Path) -> None:
    windows = TensorDescription("windows", "float32", (100, None, 64), 1)
    text = scaffold_spec("jets", Path("a.onnx"), describe(windows), is_file=True)
    assert "#   windows: float32 [100, batch, 64]" in text
    assert "batch_sizes: [1, 4, 16]" in text
    assert load(tmp_path, text).inputs == {}
    unclear = TensorDescription("windows", "float32", (100, None, 64))
    text = scaffold_spec("jets", Path("a.onnx"), describe(unclear), is_file=True)
    assert "#   windows: {shape: [100, ?, 64]}" in text
    longer = TensorDescription("windows", "float32", (None, None, 64), 1)
    assert "#   windows: {shape: [?, batch, 64]}" in scaffold_spec(
        "jets", Path("a.onnx"), describe(longer), is_file=True
    )


def test_a_repository_may_want_shared_bindings(tmp_path: Path) -> None:
    model = replace(describe(IMAGE), shared=True)
    assert load(tmp_path, scaffold_spec("jets", Path("/data"), model)).package.bindings == "shared"
