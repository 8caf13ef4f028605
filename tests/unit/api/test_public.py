"""The names that `import modelwheel` offers: typed, documented, and imported on first use."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import modelwheel

if TYPE_CHECKING:
    from typing_extensions import assert_type

    from modelwheel import Model, Verdict, Wheel, build, check, load

    def _types(network: object) -> None:
        """What mypy must see; nobody calls it."""
        wheel = build("model.onnx", batch_sizes=(1, 4))
        assert_type(wheel, Wheel)
        assert_type(build(network, name="net", example_inputs=0), Wheel)
        assert_type(check(network), Verdict)
        assert_type(load(wheel), Model)
        assert_type(wheel.load(level="x86-64"), Model)
        assert_type(wheel.inputs[0].shape, tuple[int | None, ...])
        build("model.onnx", example_inputs=0)  # type: ignore[call-overload]
        build(network)  # type: ignore[call-overload]


HEAVY = ("numpy", "pydantic", "rich", "typer", "yaml", "modelwheel.api", "modelwheel.spec")


def test_importing_imports_nothing() -> None:
    program = f"import modelwheel, sys; print([n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["check", "build"])
def test_calls_import_no_framework_and_no_numpy(name: str) -> None:
    program = (
        f"import modelwheel, sys; modelwheel.{name}; "
        "print([n for n in ('numpy', 'tensorflow', 'keras', 'jax', 'torch', 'onnx') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [name for name in modelwheel.__all__ if name[0] != "_"])
def test_every_name_is_there_and_documented(name: str) -> None:
    value = getattr(modelwheel, name)
    assert value.__name__ == name
    assert inspect.getdoc(value)
    assert name in dir(modelwheel)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'biuld'"):
        _ = modelwheel.biuld  # type: ignore[attr-defined]


@pytest.mark.parametrize("function", [modelwheel.check, modelwheel.build, modelwheel.load])
def test_every_argument_is_documented(function: object) -> None:
    text = inspect.getdoc(function) or ""
    for name in inspect.signature(function).parameters:  # type: ignore[arg-type]
        assert f"\n    {name}: " in text
