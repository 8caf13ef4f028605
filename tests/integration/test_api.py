"""The interface for Python: its page and its notebook run, and what it builds is what the command line builds."""

from __future__ import annotations

import ast
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

import modelwheel as public
from modelwheel.api import loading
from tests.support.commands import Modelwheel, run
from tests.support.pages import blocks
from tests.support.wheels import LOWEST, Built

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api.md"
NOTEBOOK = ROOT / "docs" / "examples" / "notebook.ipynb"

pytestmark = pytest.mark.slow


def run_program(text: str, modelwheel: Modelwheel, directory: Path) -> list[str]:
    """Runs a program in a process of its own, with the store of these tests; its lines."""
    path = directory / "program.py"
    path.write_text(text, encoding="utf-8")
    cache = str(modelwheel.cache)
    done = run("env", "-C", directory, sys.executable, path, MODELWHEEL_CACHE_DIR=cache)
    return done.out.splitlines()


def for_this_machine(text: str) -> str:
    """Code of the documents, which name a level of x86-64."""
    return text.replace('targets=["x86-64"]', f"targets=[{LOWEST!r}]")


def cells_of_notebook() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [
        for_this_machine("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"
    ]


def as_program(cell: str) -> str:
    """A cell whose last expression is shown, as a notebook shows it."""
    tree = ast.parse(cell)
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    head = cell.splitlines()[: last.lineno - 1]
    shown = f"_shown = ({ast.unparse(last.value)})"
    picture = "print(getattr(_shown, '_repr_html_', _shown.__repr__)().replace(chr(10), ' '))"
    return "\n".join([*head, shown, picture])


class Ran(NamedTuple):
    """A program that has ended."""

    directory: Path
    """Where it ran."""
    lines: list[str]


NO_TENSORFLOW = "import sys\nassert 'tensorflow' not in sys.modules\n"


# Beside the page: the same model once more, kept with its spec.
KEPT = """
kept = modelwheel.build(
    score, name="score", example_inputs=example, batch_sizes=(1, 4), targets=["x86-64"], out="kept", spec_dir="specs"
)
"""


@pytest.fixture(scope="module")
def page(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """What the page and then the notebook print, and where they ran."""
    notebook = "\n".join(map(as_program, cells_of_notebook()))
    page = "\n".join([*(block.text for block in blocks(PAGE, "python")), KEPT])
    program = f"{for_this_machine(page)}\nexec({notebook!r}, {{}})\n{NO_TENSORFLOW}"
    directory = tmp_path_factory.mktemp("page")
    return Ran(directory, run_program(program, modelwheel, directory))


def test_the_page(page: Ran) -> None:
    wheel, error, sizes, verdict, refused = page.lines[:5]
    assert re.fullmatch(r"model_score-1\.0\.0-\S+\.whl \(1, 4\) \('\S+',\)", wheel)
    assert re.fullmatch(r"\S+ result0 \d\.\de-\d\d of \d\.\de-\d\d", error)
    assert sizes.endswith(" arg0 (None, 4)")
    assert verdict.startswith("False refused model: ")
    assert refused.startswith("an object of the class numpy.ndarray cannot be compiled")


def test_the_command_line_makes_the_same_bytes(page: Ran, modelwheel: Modelwheel) -> None:
    """Of the spec that was kept, without a step that it does not find in the store."""
    spec, out = page.directory / "specs" / "score.yaml", page.directory / "again"
    (again,) = modelwheel.build(spec, "--out", out)
    wheel = Path(again["wheel"])
    assert again["run"] == []
    for other in (page.directory / "dist", page.directory / "kept"):
        assert (other / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_notebook(page: Ran) -> None:
    verdict, wheel, model = page.lines[5:]
    assert "ok model: " in verdict
    assert "score 1.0.0" in wheel
    assert "<svg" in wheel
    assert model.startswith(
        "<score 1.0.0 (arg0: float32 [batch, 4]) -> (result0: float32 [batch, 2])"
    )


SAVING = """
import pathlib
import keras
import tensorflow as tf
from modelwheel.api.objects import save_object
from modelwheel.api.saving import Target
from modelwheel.source.fetch import tree_sha256


class Net(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.ones((4, 2)))

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, name="x")])
    def __call__(self, x):
        return {"y": self.inner(x) @ self.weights}

    @tf.function
    def inner(self, x):
        return tf.nn.relu(x)


@keras.saving.register_keras_serializable()
class Twice(keras.layers.Layer):
    def call(self, x):
        return x * 2.0


def network(layer):
    keras.utils.set_random_seed(1)
    first, second = keras.Input((4,), name="first"), keras.Input((3,), name="second")
    joined = layer(keras.layers.Concatenate(name="joined")([first, second]))
    return keras.Model([first, second], keras.layers.Dense(2, name="scores")(joined), name="pair")


def models():
    yield "module", Net(), None
    yield "function", tf.function(lambda x, y: tf.tanh(x) + y), (tf.zeros((2, 3)), tf.zeros((2, 3)))
    yield "keras", network(keras.layers.ReLU(name="relu")), None
    yield "custom", network(Twice(name="twice")), None


for attempt in ("first", "second"):  # the second one traces when much has been traced before
    for name, model, examples in models():
        directory = pathlib.Path(attempt, name)
        directory.mkdir(parents=True)
        path = save_object(model, examples, Target(directory, "net", True))
        print(name, path, tree_sha256(directory))
"""


@pytest.fixture(scope="module")
def saved(modelwheel: Modelwheel, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Models of TensorFlow and Keras, each made and saved twice."""
    directory = tmp_path_factory.mktemp("saved")
    return Ran(directory, run_program(SAVING, modelwheel, directory))


def test_the_same_model_is_saved_as_the_same_files(saved: Ran) -> None:
    rows = [line.split() for line in saved.lines if line.count(" ") == 2]
    first, second = rows[:4], rows[4:]
    assert [hashed for *_, hashed in first] == [hashed for *_, hashed in second]
    assert len({hashed for *_, hashed in first}) == 4
    places = {name: Path(path).name for name, path, _ in first}
    # A class of others is no part of a file of Keras.
    assert places == {"module": "net", "function": "net", "keras": "net.keras", "custom": "net"}


def test_the_command_line_takes_models(saved: Ran, modelwheel: Modelwheel) -> None:
    first = saved.directory / "first"
    file = (first / "keras" / "net.keras").rename(first / "pair.keras")
    done = modelwheel("check", file, first / "custom" / "net", "--json")
    verdicts = [model["verdict"] for model in done.json["models"]]
    assert [verdict.split(":")[0] for verdict in verdicts] == ["ok pair", "ok net"]
    assert "pair.keras has no spec: name pair, version 1.0.0, licence " in done.err


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
