"""The texts of a wheel say the order of inputs and outputs, and what decides it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Literal

import pytest

from modelwheel.signature import Signature, Tensor
from tests.support.index_wheels import make_manifest
from tests.support.projects import render_model


def _tensor(name: str) -> Tensor:
    return Tensor(name=name, c_name=name, dtype="float32", shape=(None, 2), leading_per_row=1)


_ZETA, _ALPHA, _Y, _B = map(_tensor, ("zeta", "alpha", "y", "b"))


def _render(directory: Path, signature: Signature) -> Path:
    described = make_manifest("digits").model_copy(
        update={"levels": ("x86-64",), "signature": signature}
    )
    return render_model(directory, "extension", described)


@pytest.mark.parametrize(
    ("ordered_by", "reason"),
    [
        ("model", "which is the model's own."),
        ("natural", "as the model's files have none: numbers in names count as numbers."),
        ("sorted", "which is that of their names as plain text."),
    ],
)
def test_every_text_has_the_order(
    tmp_path: Path, ordered_by: Literal["model", "natural", "sorted"], reason: str
) -> None:
    signature = Signature(inputs=(_ZETA, _ALPHA), outputs=(_Y, _B), ordered_by=ordered_by)
    project = _render(tmp_path, signature)
    readme, header, cpp = (
        (project / path).read_text()
        for path in ("README.md", "include/model_digits.h", "include/model_digits.hpp")
    )
    for text in (readme, header, cpp):
        (sentence,) = re.findall("Calls take inputs and return outputs in this order, .*", text)
        assert sentence.endswith(reason)
    rows = re.findall(r"\| (input|output) (\d) \| `(\w+)`", readme)
    assert rows == [("input", "0", "zeta"), ("input", "1", "alpha"), ("output", "0", "y"), ("output", "1", "b")]  # fmt: skip
    assert "model(zeta, alpha)  # a dict: y, b" in readme
    places = re.findall(r" \*   ((?:in|out)puts\[\d\]) +(\w+): float32", header)
    assert places == [("inputs[0]", "zeta"), ("inputs[1]", "alpha"), ("outputs[0]", "y"), ("outputs[1]", "b")]  # fmt: skip
    assert (
        "operator()(modelwheel::Span<const float> zeta, modelwheel::Span<const float> alpha)" in cpp
    )
    stub = ast.parse((project / "python/model_digits/__init__.pyi").read_text())
    calls = [n for n in ast.walk(stub) if isinstance(n, ast.FunctionDef) and n.name == "__call__"]
    assert [argument.arg for argument in calls[0].args.args] == ["self", "zeta", "alpha"]


def test_one_input_and_one_output_have_no_order(tmp_path: Path) -> None:
    project = _render(tmp_path, Signature(inputs=(_ZETA,), outputs=(_Y,), ordered_by="model"))
    assert "in this order" not in (project / "README.md").read_text()
    assert "in this order" not in (project / "include/model_digits.h").read_text()
