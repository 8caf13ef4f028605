"""The core works on its few dependencies alone; other commands name the extra that they need."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from modelwheel import extras
from modelwheel.errors import EnvironmentProblemError
from tests.support.commands import Done, run

EXTRAS = ("build", "compile", "publish", "release", "cross", "all")

SPEC = """\
model: {name: tiny, version: "1.0.0"}
source: {directory: model}
compilation: {batch_sizes: [1]}
"""

# Hides all modules and distributions but the standard library and those named in the first argument.
_ISOLATED = """
import importlib.metadata, sys
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
sys.argv = ["modelwheel", *sys.argv[2:]]
main()
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


def isolated(tmp_path: Path, *arguments: str, code: int = 0) -> Done:
    """Runs modelwheel as it is after `pip install modelwheel` without an extra."""
    distributions = closure("modelwheel")
    modules = {
        module
        for module, owners in metadata.packages_distributions().items()
        if distributions & {canonicalize_name(owner) for owner in owners}
    }
    hidden = f"{','.join(modules | {'modelwheel'})};{','.join(distributions)}"
    cache = str(tmp_path / "cache")
    return run(
        *(sys.executable, "-c", _ISOLATED, hidden, *arguments),
        code=code,
        MODELWHEEL_CACHE_DIR=cache,
    )


@pytest.fixture
def spec(tmp_path: Path) -> str:
    """A valid spec of something that only looks like a model."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"graph")
    (tmp_path / "tiny.yaml").write_text(SPEC)
    return str(tmp_path / "tiny.yaml")


def test_the_core_is_small() -> None:
    required = [Requirement(text) for text in metadata.requires("modelwheel") or ()]
    core = {
        each.name
        for each in required
        if each.marker is None or not any(extra in str(each.marker) for extra in ("extra", "3.11"))
    }
    assert len(core) <= 10
    assert not {"cmake", "lief", "tensorflow", "twine"} & core


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["new", "--help"], ["check", "--spec-only", "SPEC"], ["plan", "SPEC"],
     ["plan", "SPEC", "--github-matrix"], ["cache"]],
    ids=" ".join,
)  # fmt: skip
def test_core_commands_need_no_extra(arguments: list[str], spec: str, tmp_path: Path) -> None:
    isolated(tmp_path, *(spec if word == "SPEC" else word for word in arguments))


def test_a_file_is_inspected_without_extras(tmp_path: Path) -> None:
    """As far as it goes without a wheel: the reader is imported and refuses what is not one."""
    (tmp_path / "a.whl").write_bytes(b"not a wheel")
    done = isolated(tmp_path, "inspect", str(tmp_path / "a.whl"), code=8)
    assert "internal" not in done.err
    assert "fault" not in done.err


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["check", "SPEC"], "compile"),
        (["build", "SPEC"], "compile"),
        (["compile", "SPEC"], "compile"),
        (["tune", "SPEC"], "compile"),
        (["new", "x", "--saved-model", "."], "compile"),
        (["runtime"], "build"),
        (["audit", "a.whl"], "release"),
        (["report", "."], "publish"),
        (["publish", "a.whl", "--repository-url", "https://example.org/"], "publish"),
        (["download", "SPEC", "--index-url", "https://example.org/"], "publish"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_missing_extra_is_named(
    arguments: list[str], extra: str, spec: str, tmp_path: Path
) -> None:
    given = (spec if word == "SPEC" else word for word in arguments)
    done = isolated(tmp_path, *given, code=EnvironmentProblemError.exit_code)
    assert done.err.endswith(f": pip install 'modelwheel[{extra}]'\n")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_are_resolved(extra: str) -> None:
    assert ("tensorflow" in extras.distributions(extra)) == (extra in ("compile", "all"))
    assert ("twine" in extras.distributions(extra)) == (
        extra in ("publish", "release", "cross", "all")
    )
