"""The core works on its few dependencies alone; other commands name the extra that they need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from modelwheel import extras
from modelwheel.errors import EnvironmentProblemError, WheelError
from modelwheel.versions import TENSORFLOW_PYTHONS
from tests.support.commands import Done

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]

EXTRAS = ("build", "compile", "jax", "keras", "onnx", "publish", "release", "cross", "cms", "all")

SPEC = """\
model: {name: tiny, version: "1.0.0"}
source: {directory: model}
compilation: {batch_sizes: [1]}
"""

# Hides all modules and distributions but the standard library and those named in the first argument.
_ISOLATED = """
import contextlib, importlib.metadata, io, json, sys
modules, distributions = (set(names.split(",")) for names in sys.argv[1].split(";"))
class Blocker:
    def find_spec(self, name, *_):
        top = name.partition(".")[0]
        if top not in modules and top not in sys.stdlib_module_names and not top.startswith("_"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
version = importlib.metadata.version
def installed(name):
    if name not in distributions:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = installed
from modelwheel.cli import main
results = []
for arguments in json.load(sys.stdin):
    sys.argv = ["modelwheel", *arguments]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    results.append([code, out.getvalue(), err.getvalue()])
json.dump(results, sys.stdout)
"""


def closure(*names: str) -> set[str]:
    """These distributions and all that they need, without extras, as they are installed here."""
    found: set[str] = set()
    waiting = [canonicalize_name(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for requirement in map(Requirement, metadata.requires(name) or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(canonicalize_name(requirement.name))
    return found


SPEC_ONLY = ["check", "--spec-only", "SPEC"]
CORE = (
    *(["--help"], ["new", "--help"], SPEC_ONLY, ["plan", "SPEC"]),
    *(["plan", "SPEC", "--release-list"], ["cache"], ["config"], ["export", "cmsdist", "--help"]),
)
NOT_A_WHEEL = ["inspect", "a.whl"]
MISSING = {
    "compile": (
        *(["check", "SPEC"], ["build", "SPEC"], ["compile", "SPEC"], ["tune", "SPEC"]),
        *(["bench", "SPEC"], ["profile", "SPEC"]),
        ["new", "x", "--model", "."],
    ),
    "build": (["runtime"],),
    "release": (["audit", "a.whl"],),
    "publish": (
        *(["report", "."], ["index", "."]),
        ["publish", "a.whl", "--repository-url", "https://example.org/"],
        ["download", "SPEC", "--index-url", "https://example.org/"],
    ),
}


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """Every command as it is after `pip install modelwheel` without an extra: all in one process."""
    directory = tmp_path_factory.mktemp("isolated")
    (directory / "model").mkdir()
    (directory / "model" / "saved_model.pb").write_bytes(b"graph")
    (directory / "tiny.yaml").write_text(SPEC)
    (directory / "a.whl").write_bytes(b"not a wheel")
    distributions = closure("modelwheel")
    modules = {
        module
        for module, owners in metadata.packages_distributions().items()
        if distributions & {canonicalize_name(owner) for owner in owners}
    }
    lines = [*CORE, NOT_A_WHEEL, *(line for lines in MISSING.values() for line in lines)]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _ISOLATED,
            f"{','.join(modules | {'modelwheel'})};{','.join(distributions)}",
        ],
        input=json.dumps(
            [["tiny.yaml" if word == "SPEC" else word for word in line] for line in lines]
        ),
        cwd=directory,
        env={**os.environ, "MODELWHEEL_CACHE_DIR": str(directory / "cache")},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    return {" ".join(line): Done(*result) for line, result in zip(lines, results, strict=True)}


def test_the_core_is_small() -> None:
    required = [Requirement(text) for text in metadata.requires("modelwheel") or ()]
    core = {
        each.name
        for each in required
        if each.marker is None or not any(extra in str(each.marker) for extra in ("extra", "3.11"))
    }
    assert len(core) <= 10
    assert not {"cmake", "lief", "tensorflow", "twine"} & core


@pytest.mark.parametrize("line", CORE, ids=" ".join)
def test_core_commands_need_no_extra(line: list[str], isolated: dict[str, Done]) -> None:
    assert isolated[" ".join(line)].code == 0


def test_a_file_is_inspected_without_extras(isolated: dict[str, Done]) -> None:
    """As far as it goes without a wheel: the reader is imported and refuses what is not one."""
    done = isolated[" ".join(NOT_A_WHEEL)]
    assert done.code == WheelError.exit_code
    assert done.err.startswith("error: ")
    assert "a.whl" in done.err


@pytest.mark.parametrize(
    ("extra", "line"),
    [(extra, line) for extra, lines in MISSING.items() for line in lines],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_missing_extra_is_named(extra: str, line: list[str], isolated: dict[str, Done]) -> None:
    done = isolated[" ".join(line)]
    assert done.code == EnvironmentProblemError.exit_code
    assert done.err.endswith(f": pip install 'modelwheel[{extra}]' [MW721]\n")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("extra", ["compile", "onnx", "cms"])
def test_a_python_that_is_too_new_is_named(monkeypatch: pytest.MonkeyPatch, extra: str) -> None:
    """There pip leaves TensorFlow out: its marker says so."""
    monkeypatch.setattr(extras.sys, "version_info", (3, 14, 0))  # type: ignore[attr-defined]
    monkeypatch.setattr(extras, "_is_installed", lambda _: False)
    with pytest.raises(
        EnvironmentProblemError, match=r"no packages for Python 3\.14; use Python 3\.13"
    ) as caught:
        extras.require(extra, "checking models")
    assert str(caught.value).endswith("uv tool install --python 3.13 'modelwheel[compile]'")
    assert caught.value.code == "MW725"
    with pytest.raises(EnvironmentProblemError, match="not installed"):
        extras.require("publish", "publishing")


def test_the_markers_of_tensorflow_are_its_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = [
        Requirement(text)
        for texts in project["project"]["optional-dependencies"].values()
        for text in texts
    ]
    last = TENSORFLOW_PYTHONS[1]
    marked = {r.name: str(r.marker) for r in requirements if r.name in ("tensorflow", "tf-keras")}
    expected = f'python_version < "{last[0]}.{last[1] + 1}"'
    assert marked == {"tensorflow": expected, "tf-keras": expected}


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_are_resolved(extra: str) -> None:
    assert ("tensorflow" in extras.distributions(extra)) == (
        extra in ("compile", "jax", "keras", "onnx", "cms", "all")
    )
    assert ("twine" in extras.distributions(extra)) == (
        extra in ("publish", "release", "cross", "all")
    )
