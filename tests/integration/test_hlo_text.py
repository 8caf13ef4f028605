"""XLA's text and its protobuf of the same modules are read as the same records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from modelwheel.compiler.ir.hlo import Module
from modelwheel.compiler.ir.hlo_text import read_text, write_text
from modelwheel.compiler.xla.descriptors import compilation_result_class
from modelwheel.compiler.xla.hlo_proto import read_module

_SCRIPT = Path(__file__).parent / "programs" / "hlo_texts.py"
_FUNCTIONS = ("dense", "images", "gradient", "attention", "recurrent", "choices", "numbers")


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the modules of functions, before and after XLA has optimised them."""
    directory = tmp_path_factory.mktemp("modules")
    subprocess.run([sys.executable, _SCRIPT, directory], check=True)
    return directory


def _of_protobuf(path: Path) -> Module:
    result = compilation_result_class()()
    proto = result.hlo_module.hlo_module
    proto.ParseFromString(path.read_bytes())
    return read_module(proto)[0]


def _lines(module: Module) -> list[str]:
    """XLA's text has the instructions of a computation in the order in which they run, the protobuf in another one."""
    return sorted(write_text(module).splitlines())


@pytest.mark.parametrize("stage", ["hlo", "optimized_hlo"])
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_text_and_protobuf_say_the_same(modules: Path, name: str, stage: str) -> None:
    module = _of_protobuf(modules / f"{name}.{stage}.pb")
    text = (modules / f"{name}.{stage}.txt").read_text(encoding="utf-8")
    assert _lines(read_text(text)) == _lines(module)
    written = write_text(module)
    assert write_text(read_text(written)) == written


def test_the_modules_have_what_passes_read(modules: Path) -> None:
    """Otherwise the comparison says nothing about it."""
    found = [_of_protobuf(path) for path in sorted(modules.glob("*.pb"))]
    instructions = [instruction for module in found for instruction in module.instructions]
    assert len(found) == 2 * len(_FUNCTIONS)
    assert {
        *("convolution", "dot", "gather", "pad", "slice", "reduce-window", "select-and-scatter"),
        *(
            "scatter",
            "sort",
            "while",
            "conditional",
            "fusion",
            "iota",
            "compare",
            "fft",
            "transpose",
        ),
        *("dynamic-slice", "dynamic-update-slice", "concatenate", "get-tuple-element", "broadcast"),
    } - {instruction.opcode for instruction in instructions} == set()
    for field in (
        "dot",
        "convolution",
        "gather",
        "window",
        "slices",
        "padding",
        "op_name",
        "called",
    ):
        assert any(getattr(instruction, field) for instruction in instructions), field
    constants = {i.shape.primitive for i in instructions if i.value is not None}
    assert {
        "f16",
        "bf16",
        "f32",
        "f64",
        "c64",
        "s8",
        "s16",
        "s32",
        "s64",
        "u16",
        "u32",
        "u64",
    } <= constants
