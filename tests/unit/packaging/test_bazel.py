"""The repository of Bazel's rules, as far as Python reads it: Starlark is a part of Python's syntax."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from modelwheel import __version__
from modelwheel.errors import UsageError
from modelwheel.packaging.bazel import write_rules
from tests.support.commands import Modelwheel


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    write_rules(tmp_path / "rules")
    return tmp_path / "rules"


def test_every_file_is_starlark_and_loads_what_is_there(rules: Path) -> None:
    read = 0
    for path in [*rules.rglob("*.bzl"), *rules.rglob("*.bazel")]:
        for statement in ast.parse(path.read_text()).body:
            call = getattr(statement, "value", None)
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "load":
                label = ast.literal_eval(call.args[0])
                if not label.startswith("@"):
                    package, _, name = label.partition(":")
                    directory = rules / package[2:] if package else path.parent
                    names = {ast.literal_eval(symbol) for symbol in call.args[1:]}
                    assert names <= set(_defined(directory / name))
        read += 1
    assert read == 9


def _defined(path: Path) -> list[str]:
    body = ast.parse(path.read_text()).body
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    values = [node.targets[0] for node in body if isinstance(node, ast.Assign)]
    return [*functions, *(target.id for target in values if isinstance(target, ast.Name))]


def test_the_command_writes_them_to_a_new_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    modelwheel = Modelwheel(tmp_path / "cache")
    done = modelwheel("export", "bazel")
    assert 'load("@rules_modelwheel//modelwheel:defs.bzl", "modelwheel_library")' in done.out
    module = (tmp_path / "third_party/rules_modelwheel/MODULE.bazel").read_text()
    assert f'module(name = "rules_modelwheel", version = "{__version__}")' in module
    assert "name a new directory" in modelwheel("export", "bazel", "--out", ".", code=2).err


def test_tf_library_has_the_arguments_of_tensorflow(rules: Path) -> None:
    (function,) = ast.parse((rules / "tensorflow/compiler/aot/tfcompile.bzl").read_text()).body[-1:]
    assert isinstance(function, ast.FunctionDef)
    names = [argument.arg for argument in function.args.args]
    assert " ".join(names) == (
        "name graph config debug_info freeze_checkpoint freeze_saver cpp_class gen_test gen_benchmark "
        "gen_compiler_log visibility testonly tfcompile_flags tfcompile_tool include_standard_runtime_deps "
        "enable_xla_hlo_profiling enable_tracemes mlir_components deps tags copts xla_flags"
    )
    # Each is passed on, or refused; the runtime has no dependencies either way.
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    assert set(names) - used == {"include_standard_runtime_deps"}


def test_rules_are_written_again_but_over_nothing_else(rules: Path, tmp_path: Path) -> None:
    (rules / "modelwheel/defs.bzl").write_text("# of an older version")
    write_rules(rules)
    assert "def modelwheel_library" in (rules / "modelwheel/defs.bzl").read_text()
    other = tmp_path / "other"
    other.mkdir()
    (other / "WORKSPACE.bazel").write_text("workspace(name = 'mine')")
    with pytest.raises(UsageError, match="other has other things than modelwheel's rules"):
        write_rules(other)
    assert [path.name for path in other.iterdir()] == ["WORKSPACE.bazel"]
