"""Unusual inputs and outputs, new names and several lengths: from TensorFlow to the installed wheel."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError
from tests.support.commands import Modelwheel
from tests.support.laboratory import run_script
from tests.support.static_arena import run_trapped
from tests.support.tools import path_without_python
from tests.support.wheels import LOWEST, make_environment

pytestmark = pytest.mark.slow

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}}}
targets: [{level}]
package: {{bindings: shared}}
"""
_MORE = {
    "batched": """\
compilation: {batch_sizes: [1, 3]}
names: {input_1: image, output_0: probabilities, again: output_0}
allow_pruned_inputs: keep
verify: {ranges: {count: [-9, 9], image: [-1, 1]}, outputs: {probabilities: {rtol: 2.0e-5}}}
""",
    "whole": "verify: {ranges: {k: [-5, 5]}}\n",
    "lengths": """\
compilation: {batch_sizes: [1, 2]}
names: {tokens: words}
inputs:
  words: {shape: [null, {buckets: [4, 7], pad: 6}]}
  mask: {shape: [null, {buckets: [4, 7], pad: 0}]}
  bias: {shape: [{buckets: [4, 7], pad: 0}]}
verify: {ranges: {words: [0, 7]}}
""",
    "sampled": """\
compilation: {batch_sizes: [1, 2]}
inputs:
  tokens: {shape: [null, {buckets: [4, 7], pad: 6}]}
  mask: {shape: [null, {buckets: [4, 7], pad: 0}]}
  bias: {shape: [{buckets: [4, 7], pad: 0}]}
verify: {samples: rows.npz}
""",
    "unmasked": "inputs: {x: {shape: [null, {buckets: [4, 7], pad: 0}, 3]}}\n",
    "halves": "inputs: {x: {shape: [null, {buckets: [4, 7], pad: 0}, 3]}}\n",
}
_REFUSED = ("unmasked", "halves")


def _write_rows(path: Path) -> None:
    """Real rows of a length that is not compiled: they are filled up."""
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, 7, (3, 5)).astype(np.int32)
    mask, bias = np.ones((3, 5), np.float32), rng.normal(size=5).astype(np.float32)
    np.savez(path, tokens=tokens, mask=mask, bias=bias)


@pytest.fixture(scope="module")
def built(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome of building every model."""
    work = tmp_path_factory.mktemp("interfaces")
    run_script("interfaces", work)
    _write_rows(work / "lengths" / "rows.npz")
    for name, more in _MORE.items():
        directory = work / ("lengths" if name == "sampled" else name)
        text = _SPEC.format(name=name, directory=directory, level=LOWEST) + more
        (work / f"{name}.yaml").write_text(text, encoding="utf-8")
    specs = [work / f"{name}.yaml" for name in _MORE]
    results = modelwheel.build("--out", work / "dist", *specs, code=UnsupportedModelError.exit_code)
    return {entry["model"].partition("-")[0]: entry for entry in results}


@pytest.mark.parametrize("name", [name for name in _MORE if name not in _REFUSED])
def test_every_output_agrees_with_tensorflow(built: dict[str, Any], name: str) -> None:
    assert built[name]["errors"] == []
    report = built[name]["report"]
    assert report["passed"], [c for c in report["comparisons"] if not c["passed"]]
    if name in ("lengths", "sampled"):
        compared = {(c["length"], c["rows"]) for c in report["comparisons"]}
        assert compared >= {(n, rows) for n in (1, 2, 4, 5, 6) for rows in (1, 2)}


def test_rows_of_a_file_are_filled_up(built: dict[str, Any], tmp_path: Path) -> None:
    with zipfile.ZipFile(built["sampled"]["wheel"]) as wheel:
        file = wheel.extract("model_sampled/_reference.npz", tmp_path)
    _write_rows(tmp_path / "rows.npz")
    with np.load(file) as arrays, np.load(tmp_path / "rows.npz") as given:
        rows = len(arrays["in/tokens"])
        assert rows > 3
        assert np.array_equal(arrays["in/tokens"][:3, :5], given["tokens"])
        assert np.array_equal(
            arrays["in/tokens"][3:, :5], np.resize(given["tokens"], (rows, 5))[3:]
        )
        assert (arrays["in/tokens"][:, 5:] == 6).all()
        assert arrays["in/bias"].tolist() == [*given["bias"].tolist(), 0, 0]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("unmasked", "output 'mean' changes when inputs of length 1 are padded to 4"),
        ("halves", "axis 1 of output 'half' does not follow the length of the inputs"),
    ],
)
def test_padding_that_changes_a_result_is_refused(
    built: dict[str, Any], name: str, sentence: str
) -> None:
    (error,) = built[name]["errors"]
    assert error["step"] == f"{name}-1.0.0/reference"
    assert sentence in error["message"]


_SCRIPT = """
import numpy as np
import model_batched, model_lengths, model_whole

batched = model_batched.Model()
assert [spec.name for spec in batched.inputs] == ["image", "flag", "count", "nothing", "unused", "shared"]
given = dict(count=np.ones((5, 2), int), flag=np.ones(5, bool), nothing=np.ones((5, 0), np.float32),
             image=np.arange(15, dtype=np.float32).reshape(5, 3), shared=np.float32(2))
first, second = (batched.predict({**given, "unused": np.full((5, 5), n, np.int16)}) for n in (0, 9))
assert all(np.array_equal(first[name], second[name]) for name in first)
assert np.array_equal(first["copy"], given["image"])
assert np.array_equal(first["probabilities"], first["output_0"])
assert first["several"].shape == (15, 2) and first["empty_part"].shape == (5, 0)
for wrong, kind in ((np.zeros((5, 5), np.int32), TypeError), (np.zeros((5, 4), np.int16), ValueError)):
    try:
        batched.predict({**given, "unused": wrong})
        raise SystemExit("the unused input was not checked")
    except kind as error:
        assert "input 'unused' must" in str(error), error

lengths = model_lengths.Model()
assert lengths.lengths == (4, 7)
assert "words: int32 [batch, length]" in repr(lengths), repr(lengths)
def run(rows, n):
    return lengths(words=np.arange(rows * n, dtype=np.int32).reshape(rows, n) % 7,
                   mask=np.ones((rows, n), np.float32), bias=np.linspace(0, 1, n, dtype=np.float32))
for n in range(1, 8):
    found = run(3, n)
    shapes = {name: array.shape for name, array in found.items()}
    assert shapes == {"each": (3, n, 4), "flat": (3 * n, 4), "mean": (3, 4),
                      "pairs": (3, n, n), "twice": (3, 2 * n)}, shapes
    assert np.allclose(found["pairs"].sum(-1), 1, atol=1e-6)
    assert np.array_equal(found["flat"].reshape(3, n, 4), found["each"])
for rows, n, words in ((1, 8, "has the length 8 along axis"), (1, 0, "has the length 0")):
    try:
        run(rows, n)
        raise SystemExit("a wrong length was accepted")
    except ValueError as error:
        assert words in str(error) and "from 1 to 7" in str(error), error
try:
    lengths(words=np.zeros((1, 3), np.int32), mask=np.ones((1, 5), np.float32), bias=np.ones(3, np.float32))
    raise SystemExit("two lengths were accepted")
except ValueError as error:
    assert "must have the shape" in str(error), error

whole = model_whole.Model()
found = whole(x=np.ones((2, 3), np.float32), k=np.int32(4), a=np.bool_(False), empty=np.zeros((0, 4), np.float32))
assert found["scalar"].shape == () and found["scalar"] == 24
assert found["k"] == found["k_again"] == 4 == -found["either"]
assert found["empty_constant"].shape == (3, 0)
assert found["constant"].tolist() == [[1.5, -2.0]]
"""


def test_the_installed_wheels_take_what_they_promise(built: dict[str, Any], tmp_path: Path) -> None:
    # With the runtime, which all of them share.
    wheels = sorted(Path(built["whole"]["wheel"]).parent.glob("*.whl"))
    python = make_environment(tmp_path / "environment", *wheels)
    done = subprocess.run(
        [python, "-c", _SCRIPT], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.exhaustive
def test_several_lengths_with_a_static_arena_allocate_nothing(
    modelwheel: Modelwheel, built: dict[str, Any], tmp_path: Path
) -> None:
    modelwheel("bundle", built["lengths"]["spec"], "--static-arena", "--out", tmp_path)
    (tmp_path / "path").mkdir()
    path = path_without_python(tmp_path / "path")
    printed = run_trapped(tmp_path / "model_lengths-1.0.0", tmp_path, path)
    assert "\npassed\n" in printed
    assert printed.count("  hash ") >= 10
