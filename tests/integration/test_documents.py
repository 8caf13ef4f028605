"""The code in README.md and in the pages for consumers and about fusions, with a model of the tests in the place of its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.pages import ROOT, Block, blocks
from tests.support.wheels import Built

pytestmark = pytest.mark.slow

_DOCS = ROOT / "docs"
_ELSEWHERE = ("model_digits_memory.h", "model_denoiser", "digits_1_0")
"""Parts of blocks that need another package: a header of bundles, whose own test uses it, a stateful model, for which
`test_state.py` runs the block, and two versions of one, for which `test_two_versions.py` does."""
_AROUND = {
    "c": "#include <model_options.h>\n{outside}\nvoid use(modelwheel_model *model) {{ (void)model; {inside} }}\n",
    "cpp": "#include <pybind11/pybind11.h>\nnamespace py = pybind11;\n{outside}\n",
}
"""A program around a block: what is outside of functions, and what is in one."""


def _blocks(name: str, language: str) -> list[Any]:
    path = ROOT / name if name == "README.md" else _DOCS / name
    return [
        pytest.param(block, id=str(block))
        for block in blocks(path, language)
        if not any(part in block.text for part in _ELSEWHERE)
    ]


@pytest.mark.parametrize(
    "block",
    [
        block
        for page in ("README.md", "consumers.md", "calls.md")
        for block in _blocks(page, "python")
    ],
)
def test_python_for_consumers(built: Built, block: Block) -> None:
    model = built.package("mlp").Model()
    shape = [4 if extent is None else extent for extent in model.inputs[0].shape]
    images = np.zeros(shape, np.float32)
    names: dict[str, Any] = {"model": model, "images": images, "stream": [images, images + 1]}
    exec(block.text.replace("model_digits", "model_mlp"), names)  # noqa: S102 - a block of a document
    assert np.asarray(names["probabilities"]).shape[0] == shape[0]


@pytest.mark.parametrize(
    "block",
    [
        block
        for page in ("calls.md", "c-and-cpp.md", "bundles.md")
        for language in ("c", "cpp")
        for block in _blocks(page, language)
    ],
)
def test_c_for_consumers_compiles(built: Built, tmp_path: Path, block: Block) -> None:
    text = block.text.replace("digits", "options").replace(".probabilities", ".y")
    outside, _, inside = text.partition("\nmodel_options_")
    program = _AROUND[block.language]
    call = f"model_options_{inside}" if inside else ""
    (tmp_path / "part").write_text(program.format(outside=outside, inside=call), encoding="utf-8")
    package = built.packages / "model_options"
    flags = [f"-I{include}" for include in (package / "include", *_python_includes())]
    compiler = ["cc", "-std=c99"] if block.language == "c" else ["c++", "-std=c++17"]
    language = "c" if block.language == "c" else "c++"
    done = subprocess.run(
        [
            *compiler,
            "-fsyntax-only",
            "-fopenmp",
            "-fvisibility=hidden",
            *flags,
            "-x",
            language,
            tmp_path / "part",
        ],
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _python_includes() -> list[str]:
    import sysconfig

    import pybind11

    return [pybind11.get_include(), sysconfig.get_path("include"), np.get_include()]


def test_fusions_of_one_s_own() -> None:
    """The blocks of fusions.md are one program, after the names that they use."""
    lines = ["import functools", "import jax", "import tensorflow as tf"]
    lines += [block.text for block in blocks(_DOCS / "fusions.md", "python")]
    lines += ["assert SCALE.name == 'acme.scale' and SWISH.pattern is not None"]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_arguments_of_the_bazel_rule_are_known() -> None:
    """bundles.md and the rule agree; `test_bazel.py` builds with it."""
    known: set[str] = set()
    for node in ast.walk(
        ast.parse((ROOT / "wheel_template/bazel/modelwheel/defs.bzl").read_text())
    ):
        if isinstance(node, ast.FunctionDef) and node.name == "modelwheel_library":
            known = {argument.arg for argument in node.args.args}
    calls = [
        node
        for block in blocks(_DOCS / "bundles.md", "starlark")
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "modelwheel_library"
    ]
    assert len(calls) == 1
    assert {keyword.arg for keyword in calls[0].keywords} <= known
