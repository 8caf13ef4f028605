"""The Python package of a model, over a runtime written in Python: what importing it costs, and its messages.

The same package over the compiled extension is tested by the tests that travel with every wheel.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from modelwheel.model.random_inputs import random_input
from modelwheel.versions import RUNTIME_REQUIREMENT
from tests.support.projects import render_model

RUNTIME = '''
"""Stands for modelwheel-runtime: y = 2 x + n for x float32 [batch, 2] and n int32 [batch]."""
import numpy as np

__version__ = "99.0.0"

class Library:
    name, version, about = "digits", "1.0.0", "{}"
    inputs = (("x", np.dtype("float32"), (None, 2), 1, 0, "x"), ("n 1", np.dtype("int32"), (None,), 1, 0, "n_1"))
    outputs = (("y", np.dtype("float32"), (None, 2), 1, 0, "y"),)
    states = ()
    batch_sizes, lengths, batched = (1, 4), (), True
    no_emulation_reason, levels = None, ("x86-64",)

class Evaluator:
    settings = (None, ())
    def __init__(self, library, level):
        self.level = level or "x86-64"
    def call(self, arguments):
        if len(arguments) != 2 or not all(isinstance(one, np.ndarray) for one in arguments):
            return NotImplemented
        x, n = arguments
        return 2 * x + n[:, None].astype(np.float32)
    def run_into(self, arrays, out):
        out[0][...] = self.call(arrays)
    def bind(self, arrays, out):
        return lambda: self.call(arrays)
    def state(self):
        return ()
    def batch_rule(self, rows):
        return f"{rows}:" + ",".join(["1"] * rows)

def open_library(path, module):
    assert module == "model_digits" and path.endswith(".so")
    return Library()
'''


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory to import `model_digits` from."""
    project = render_model(tmp_path_factory.mktemp("project"), "shared")
    (project / "python" / "modelwheel_runtime.py").write_text(RUNTIME, encoding="utf-8")
    return project / "python"


def run_python(packages: Path, script: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


_IMPORT = """
import sys
{change}
try:
    import model_digits
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("import modelwheel_runtime; modelwheel_runtime.__version__ = '1.6.0'", "1.6.0"),
        ("import modelwheel_runtime; modelwheel_runtime.__version__ = '0.99.1'", "0.99.1"),
        ("sys.modules['modelwheel_runtime'] = None", "none"),
    ],
)
def test_a_runtime_that_is_too_old_or_missing_is_one_sentence(
    packages: Path, change: str, found: str
) -> None:
    """pip installs what a wheel requires; other tools, and `--no-deps`, leave an older one."""
    said = run_python(packages, _IMPORT.format(change=change))
    assert said == (
        f"model_digits needs {RUNTIME_REQUIREMENT}, but {found} is installed; run: "
        f'python -m pip install "{RUNTIME_REQUIREMENT}"\n'
    )


def test_importing_needs_nothing_beyond_numpy(packages: Path) -> None:
    """`pathlib` and what it imports took three quarters of the time."""
    new = run_python(
        packages,
        "import numpy, sys; before = set(sys.modules)\n"
        "import model_digits; model_digits.Model()\n"
        "print(*set(sys.modules) - before)",
    )
    own = {
        f"model_digits{part}"
        for part in ("", "._core", "._facts", "._model", "._paths", "._values")
    }
    assert set(new.split()) - {"__future__"} == own | {"modelwheel_runtime"}


def test_random_inputs_are_those_of_the_reference(packages: Path) -> None:
    columns = [(1, 2, 0.0, 7.0, 5), (0, 1, -9.0, -8.0, 0)]
    verification = {
        "parts": {"n 1": 37},
        "some": ["x"],
        "seed": 5,
        "ranges": {"n 1": [3, 40]},
        "masks": {"x": [{"value": 0.5, "axes": 0}]},
        "columns": {
            "x": [
                dict(zip(("first", "end", "low", "high", "parts"), c, strict=True)) for c in columns
            ]
        },
    }
    manifest = {
        "verification": verification,
        "signature": {"inputs": [], "outputs": [], "state": []},
    }
    (packages / "model_digits" / "_manifest.json").write_text(json.dumps(manifest))
    script = (
        "from model_digits._reference import make_inputs\n"
        "for array in make_inputs(30).values(): print(array.dtype, array.tobytes().hex())"
    )
    expected = (
        random_input(5, "x", (30, 2), "float32", None, [(0.5, 0)], columns, some=True),
        random_input(5, "n 1", (30,), "int32", (3, 40), parts=37),
    )
    found = run_python(packages, script).splitlines()
    assert found == [f"{array.dtype} {array.tobytes().hex()}" for array in expected]


def test_samples_have_rows_first_whatever_the_batch_axis(packages: Path) -> None:
    """Random numbers are those of the reference, whose rows come first; calls take the model's own axes."""
    verification = {"seed": 5, "ranges": {}, "masks": {}, "columns": {}, "parts": {}, "some": []}
    manifest = {
        "verification": verification,
        "signature": {"inputs": [], "outputs": [], "state": []},
    }
    (packages / "model_digits" / "_manifest.json").write_text(json.dumps(manifest))
    script = (
        "import numpy as np\n"
        "from model_digits import _reference as reference\n"
        "from model_digits._model import TensorSpec, describe\n"
        "spec = TensorSpec('x', np.dtype('float32'), (3, None, 2), 1, 1)\n"
        "made = reference._random(spec, 5, 2)\n"
        "print(describe(spec), made.shape, reference.to_call(spec, made).shape)\n"
        "print(made.tobytes().hex(), reference.to_call(spec, made)[2, 4].tolist() == made[4, 2].tolist())"
    )
    shapes, values = run_python(packages, script).splitlines()
    assert shapes == "x: float32 [3, batch, 2] (5, 3, 2) (3, 5, 2)"
    expected = random_input(7, "x", (5, 3, 2), "float32", None)
    assert values == f"{expected.tobytes().hex()} True"


def test_paths_are_those_of_the_package(packages: Path) -> None:
    names = ("include", "library", "library_dir", "cmake_dir", "pkgconfig_dir")
    script = "import model_digits as m\n" + "".join(f"print(m.get_{name}())\n" for name in names)
    package = packages / "model_digits"
    for name in ("include", "lib/cmake/model_digits", "lib/pkgconfig"):
        (package / name).mkdir(parents=True)
    assert list(map(Path, run_python(packages, script).splitlines())) == [
        package / "include",
        package / "lib" / "libmodel_digits.so",
        package / "lib",
        package / "lib" / "cmake" / "model_digits",
        package / "lib" / "pkgconfig",
    ]


def test_the_tool_file_has_any_directory_in_ascii(packages: Path, tmp_path: Path) -> None:
    """And scram reads no variable in it."""
    script = "import runpy, sys; sys.argv = ['m', '--scram']; runpy.run_module('model_digits', run_name='__main__')"
    tool = '<tool><client><environment name="X_BASE" default="@TOOL_BASE@"/></client></tool>\n'
    for name, refused in (
        ('naïve & "quoted" <dir>', ""),
        ("$HOME", "scram would read a variable in "),
    ):
        elsewhere = shutil.copytree(packages, tmp_path / name)
        scram = elsewhere / "model_digits" / "share" / "scram"
        scram.mkdir(parents=True)
        (scram / "tfaot-model-digits.xml").write_text(tool)
        environment = {**os.environ, "PYTHONPATH": str(elsewhere), "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if refused:
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(f"error: {refused}")
            continue
        assert done.returncode == 0, done.stderr
        (variable,) = ET.fromstring(done.stdout).iter("environment")
        assert Path(variable.attrib["default"]) == elsewhere / "model_digits"


def test_values_by_position_by_name_and_from_lists(packages: Path) -> None:
    script = (
        "import model_digits, numpy as np; model = model_digits.Model()\n"
        "x, n = np.ones((1, 2), np.float32), np.array([3], np.int32)\n"
        "for y in (model(x, n), model(x, n_1=n), model.predict({'n 1': n, 'x': x}), model([[1, 1]], [3])):\n"
        "    print(y.tolist())"
    )
    assert run_python(packages, script) == "[[5.0, 5.0]]\n" * 4


@pytest.mark.parametrize("named", ["n 1", "out"])
def test_an_input_may_be_named_as_the_argument_for_results(
    packages: Path, tmp_path: Path, named: str
) -> None:
    runtime = RUNTIME.replace('"n 1"', f'"{named}"').replace(
        '"n_1"', f'"{named.replace(" ", "_")}"'
    )
    (tmp_path / "modelwheel_runtime.py").write_text(runtime, encoding="utf-8")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import model_digits, numpy as np; model = model_digits.Model()\n"
        "x, n, y = np.ones((1, 2), np.float32), np.array([3], np.int32), np.zeros((1, 2), np.float32)\n"
        f"for given in ({{'x': x, {named!r}: n}}, {{'x': [[1, 1]], {named!r}: [3]}}):\n"
        "    y[...] = 0; assert model.predict(given, out=y) is y; print(y.tolist())\n"
    )
    if named == "out":
        script += "print(model(x, out=n).tolist())"
    else:
        script += "y[...] = 0; model(x, n, out=y); print(y.tolist())"
    assert run_python(packages, script) == "[[5.0, 5.0]]\n" * 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("model()", "TypeError: digits() is missing inputs 'x', 'n 1'"),
        ("model(x)", "TypeError: digits() is missing input 'n 1'"),
        ("model(x, n, n)", "TypeError: digits() takes 2 inputs (x, n 1), got 3"),
        ("model(x, x=x)", "TypeError: digits() got input 'x' twice"),
        ("model(x, m=n)", "TypeError: digits() has no input 'm'; its inputs are: x, n 1"),
        (
            "model([['a', 'b']], n)",
            "TypeError: digits: input 'x': expected float32 values, got str",
        ),
        ("model(x, [1.5])", "TypeError: digits: input 'n 1': expected int32 values, got float"),
        ("model(x, [2**40])", "ValueError: digits: input 'n 1': a value is out of range for int32"),
        (
            "model.predict(x)",
            "TypeError: digits: predict() takes a dict of arrays by input name, or a list of 2 arrays, got ndarray; pass arrays to the model itself: model(x, n_1)",
        ),
        (
            "model.predict([x])",
            "TypeError: digits: predict() takes a dict of arrays by input name, or a list of 2 arrays, got list of 1; pass arrays to the model itself: model(x, n_1)",
        ),
        (
            "model([np.ma.masked, np.ma.array([1, 2], mask=[0, 1])], n)",
            "TypeError: digits: input 'x' has masked arrays, whose masks would be ignored; pass array.filled(VALUE), or array.data",
        ),
    ],
)
def test_messages(packages: Path, call: str, message: str) -> None:
    script = (
        "import model_digits, numpy as np; model = model_digits.Model()\n"
        "x, n = np.ones((1, 2), np.float32), np.array([3], np.int32)\n"
        f"try: {call}\n"
        "except Exception as error: print(f'{type(error).__name__}: {error}')\n"
    )
    assert run_python(packages, script).strip() == message


def test_help_lists_inputs_in_the_order_of_a_call(packages: Path) -> None:
    text = run_python(packages, "import model_digits; help(model_digits.Model)")
    lines = [line.removeprefix(" |").strip() for line in text.splitlines()]
    first = lines.index("Inputs, in the order of a call:")
    expected = ["0: x: float32 [batch, 2]", "1: n 1: int32 [batch]", "", "Outputs:", "0: y: float32 [batch, 2]"]  # fmt: skip
    assert lines[first + 1 : first + 6] == expected
    script = "import subprocess, sys; subprocess.run([sys.executable, '-OO', '-c', 'import model_digits'], check=True)"
    assert run_python(packages, script) == ""
