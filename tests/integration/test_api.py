"""The interface for Python: its page and its notebook run, and what it builds is what the command line builds."""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import modelwheel as public
from modelwheel.api import loading
from tests.support.commands import Modelwheel, run
from tests.support.wheels import HOST, LOWEST, Built

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api.md"
NOTEBOOK = ROOT / "docs" / "examples" / "notebook.ipynb"

pytestmark = pytest.mark.slow


def run_program(
    text: str, modelwheel: Modelwheel, directory: Path, **environment: str
) -> list[str]:
    """Runs a program in a process of its own, with the store of these tests; its lines."""
    path = directory / "program.py"
    path.write_text(text, encoding="utf-8")
    cache = {"MODELWHEEL_CACHE_DIR": str(modelwheel.cache), "JAX_PLATFORMS": "cpu"}
    done = run("env", "-C", directory, sys.executable, path, **cache, **environment)
    return done.out.splitlines()


def blocks_of_page() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def cells_of_notebook() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def as_program(cell: str) -> str:
    """A cell whose last expression is shown, as a notebook shows it."""
    tree = ast.parse(cell)
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    head = cell.splitlines()[: last.lineno - 1]
    shown = f"_shown = ({ast.unparse(last.value)})"
    picture = "print(getattr(_shown, '_repr_html_', _shown.__repr__)().replace(chr(10), ' '))"
    return "\n".join([*head, shown, picture])


NO_TENSORFLOW = "import sys\nassert 'tensorflow' not in sys.modules\n"


@pytest.fixture(scope="module")
def page(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the page prints."""
    program = "\n".join([*blocks_of_page(), NO_TENSORFLOW])
    if HOST != "linux-x86_64":  # the page names a level
        program = program.replace('"x86-64"', repr(LOWEST))
    return run_program(program, modelwheel, tmp_path_factory.mktemp("page"))


def test_the_page(page: list[str]) -> None:
    wheel, error, sizes, verdict, refused = page
    assert re.fullmatch(r"model_score-1\.0\.0-\S+\.whl \(1, 4\) \('\S+',\)", wheel)
    assert re.fullmatch(r"\S+ result0 \d\.\de-\d\d of \d\.\de-\d\d", error)
    assert sizes.endswith(" arg0 (None, 4)")
    assert verdict.startswith("False refused model: ")
    assert refused.startswith("an object of the class numpy.ndarray cannot be compiled")


@pytest.mark.usefixtures("page")  # the notebook finds its steps in the store
def test_the_notebook(modelwheel: Modelwheel, tmp_path: Path) -> None:
    cells = "\n".join(map(as_program, cells_of_notebook()))
    if HOST != "linux-x86_64":
        cells = cells.replace('"x86-64"', repr(LOWEST)).replace("'x86-64'", repr(LOWEST))
    verdict, wheel, model = run_program(cells + "\n" + NO_TENSORFLOW, modelwheel, tmp_path)
    assert "ok model: " in verdict
    assert "score 1.0.0" in wheel
    assert "<svg" in wheel
    assert model.startswith(
        "<score 1.0.0 (arg0: float32 [batch, 4]) -> (result0: float32 [batch, 2])"
    )


KERAS = """
import sys
import keras
import numpy as np
import modelwheel

keras.utils.set_random_seed(1)
first, second = keras.Input((4,), name="first"), keras.Input((3,), name="second")
joined = keras.layers.Concatenate(name="joined")([first, second])
model = keras.Model([first, second], keras.layers.Dense(2, name="scores")(joined), name="pair")
options = {{"package": {{"bindings": "shared"}}}}
wheel = modelwheel.build(
    model, name="pair", batch_sizes=(1, 2), targets=[{level!r}], options=options, spec_dir="specs", out="dist"
)
assert "tensorflow" not in sys.modules
rows = [np.random.rand(5, 4).astype(np.float32), np.random.rand(5, 3).astype(np.float32)]
np.savez("rows.npz", first=rows[0], second=rows[1], scores=model(rows))
print(wheel.path, *(path for path in wheel.needed))
"""


def test_a_keras_model_becomes_what_its_spec_becomes(
    modelwheel: Modelwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved by Keras without TensorFlow; the command line makes the same bytes of the file, once it has the spec."""
    program = KERAS.format(level=LOWEST)
    (said,) = run_program(program, modelwheel, tmp_path, KERAS_BACKEND="jax")
    wheel, runtime = (tmp_path / path for path in said.split())
    (again,) = modelwheel.build(tmp_path / "specs" / "pair.yaml", "--out", tmp_path / "again")
    assert Path(again["wheel"]).read_bytes() == wheel.read_bytes()
    assert again["run"] == []
    monkeypatch.setenv("MODELWHEEL_CACHE_DIR", str(modelwheel.cache))
    with zipfile.ZipFile(runtime) as archive:
        archive.extractall(tmp_path / "runtime")
    monkeypatch.syspath_prepend(str(tmp_path / "runtime"))
    model = public.load(wheel)
    with np.load(tmp_path / "rows.npz") as rows:
        found = model(rows["first"], rows["second"])
        np.testing.assert_allclose(found, rows["scores"], rtol=1e-5, atol=1e-6)


TENSORFLOW = """
import hashlib, pathlib, sys, tempfile
import tensorflow as tf
from modelwheel.api.objects import save_object
from modelwheel.api.saving import Target
from modelwheel.source.fetch import tree_sha256

for number in range({earlier}):  # what a process traced before changes no name
    tf.function(lambda x: x + number).get_concrete_function(tf.TensorSpec([2]))


class Net(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.ones((4, 2)))

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")])
    def __call__(self, x):
        return {{"y": self.inner(x) @ self.weights}}

    @tf.function
    def inner(self, x):
        return tf.nn.relu(x)


def save(model, examples=None):
    directory = pathlib.Path(tempfile.mkdtemp(dir="."))
    return tree_sha256(save_object(model, examples, Target(directory, "net", True)))


net, function = Net(), tf.function(lambda x, y: tf.tanh(x) + y)
examples = (tf.zeros((2, 3)), tf.zeros((2, 3)))
print(save(net), save(net), save(function, examples), save(function, examples))
"""


def test_tensorflow_saves_the_same_model_as_the_same_files(
    modelwheel: Modelwheel, tmp_path: Path
) -> None:
    hashes = [
        run_program(TENSORFLOW.format(earlier=earlier), modelwheel, tmp_path)[-1].split()
        for earlier in (0, 3)
    ]
    assert hashes[0] == hashes[1]
    module, module_again, function, function_again = hashes[0]
    assert (module, function) == (module_again, function_again)
    assert module != function


def _other_version(wheel: Path, directory: Path) -> Path:
    """A wheel whose library says that it is of another version; its file has the version, too."""
    other = directory / wheel.name.replace("-1.0.0-", "-2.0.0-")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(other, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith("/lib/libmodel_mlp.so"):
                assert b"\x001.0.0\x00" in content
                content = content.replace(b"\x001.0.0\x00", b"\x002.0.0\x00")
            new.writestr(info, content)
    return other


@pytest.mark.skipif(sys.platform != "linux", reason="only the loader of Linux is worked around")
def test_two_versions_in_one_process(
    built: Built, modelwheel: Modelwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODELWHEEL_CACHE_DIR", str(modelwheel.cache))
    monkeypatch.setattr(loading, "_stores", [])
    wheel = built.wheel("mlp")
    versions = [public.load(path).version for path in (wheel, _other_version(wheel, tmp_path))]
    assert versions == ["1.0.0", "2.0.0"]


def test_the_command_line_takes_a_model(
    modelwheel: Modelwheel, models: Path, tmp_path: Path
) -> None:
    """It makes the same bytes as a spec with what it says."""
    done = modelwheel("check", models / "mlp", "--json")
    (checked,) = done.json["models"]
    assert checked["verdict"].startswith("ok mlp: ")
    assert "mlp has no spec: name mlp, version 1.0.0, batch sizes 1, 4, 16, licence" in done.err
