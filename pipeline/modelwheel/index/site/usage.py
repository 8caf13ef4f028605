"""Programs that use a model, in Python, C and C++, and what builds them: with its real names, ready to run."""

from __future__ import annotations

import math
import struct
from collections.abc import Collection
from dataclasses import dataclass

from ...assembly.manifest import Manifest
from ...signature import Tensor
from .rendering import render_text


@dataclass(frozen=True)
class Text:
    """Something to paste."""

    name: str
    """Of its tab."""
    text: str
    hint: str
    """A sentence on where to paste it."""


@dataclass(frozen=True)
class Argument:
    """An input or output in a program."""

    variable: str
    dtype: str
    c_type: str
    cpp_type: str
    shape: tuple[int, ...]
    fill: float
    """A valid value of every element."""
    c_fill: str
    """In C and C++; empty for zero."""

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


def example_programs(manifest: Manifest) -> list[Text]:
    """A program in each language that the wheel is for."""
    values = _values(manifest)
    programs = [
        Text(
            "Python",
            render_text("code/program.py.j2", **values),
            "Save it as program.py, or paste it.",
        )
    ]
    interfaces = manifest.model.interfaces
    if "cpp" in interfaces:
        text = render_text("code/program.cpp.j2", **values)
        programs.append(Text("C++", text, "Save it as program.cpp. C++17."))
    if "c" in interfaces:
        text = render_text("code/program.c.j2", **values)
        programs.append(Text("C", text, "Save it as program.c. C99."))
    return programs


def build_texts(manifest: Manifest, install: str) -> list[Text]:
    """The commands that build these programs: with CMake, and with a compiler alone.

    Args:
        manifest: Of the model.
        install: The lines that install its wheel.
    """
    interfaces, module = manifest.model.interfaces, manifest.model.module
    if "c" not in interfaces:
        return []
    language, source = ("CXX", "program.cpp") if "cpp" in interfaces else ("C", "program.c")
    cmake = render_text(
        "code/cmake.sh.j2", install=install, module=module, language=language, source=source
    )
    compiler = (
        f"{install}\ncc program.c -o program $(python -m {module} --cflags --libs)\n./program"
    )
    return [
        Text("CMake", cmake, f"Run it beside the {source} of “Use it” below."),
        Text("C", compiler, "Run it beside the program.c of “Use it” below."),
    ]


def _values(manifest: Manifest) -> dict[str, object]:
    signature, batching = manifest.signature, manifest.batching
    rows = batching.sizes[0] if signature.batched else 1
    module = manifest.model.module
    # What programs call something else; `result` holds the outputs in C++.
    taken = {
        "np",
        "model",
        "main",
        "problem",
        "inputs",
        "outputs",
        "result",
        "results",
        "std",
        module,
    }
    length = max(signature.lengths, default=None)
    inputs = [_argument(tensor, rows, length, taken) for tensor in signature.inputs]
    outputs = [_argument(tensor, rows, length, taken) for tensor in signature.outputs]
    return {
        "module": module,
        "rows": rows,
        "inputs": inputs,
        "outputs": outputs,
        "members": [tensor.c_name for tensor in signature.outputs],
        "names": [tensor.name for tensor in signature.outputs],
    }


def _argument(tensor: Tensor, rows: int, length: int | None, taken: Collection[str]) -> Argument:
    element = tensor.element_type
    zero = all(valid.low <= 0 < valid.high for valid in tensor.valid)
    fill = 0.0 if zero else max(valid.low for valid in tensor.valid)
    return Argument(
        variable=f"{tensor.c_name}_" if tensor.c_name in taken else tensor.c_name,
        dtype="uint16" if tensor.dtype == "bfloat16" else tensor.dtype,
        c_type=element.c_type,
        cpp_type=element.cpp_type,
        shape=tensor.shape_at(rows, length),
        fill=fill,
        c_fill=_c_number(fill, tensor.dtype) if fill else "",
    )


def _c_number(value: float, dtype: str) -> str:
    """A number in C: 16-bit floats are passed as their bits."""
    if dtype == "float16":
        return f"0x{struct.unpack('<H', struct.pack('<e', value))[0]:04x}"
    if dtype == "bfloat16":
        return f"0x{struct.unpack('<HH', struct.pack('<f', value))[1]:04x}"
    return f"{value:.17g}"
