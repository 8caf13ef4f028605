"""The job `compile`: XLA turns a frozen graph into kernels, a program and its constants."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorflow.compiler.tf2xla import tf2xla_pb2
from tensorflow.python import _pywrap_tfcompile

from ...errors import CompileError, UnsupportedModelError
from ..check import remedy_for
from ..program import Program
from .decode import write_program
from .graphs import layer_name

_KERNELS = "kernels.o"
_HEADER = "program.h"
_METADATA = "metadata.o"
_CONSTANTS = "constants.o"

_PAD = "compiled shapes are fixed: export a signature that ends before it, or pads to a fixed shape"


def run(params: Mapping[str, Any], inputs: Mapping[str, Path], out: Path) -> None:
    """Writes `kernels.o`, `program.json` and `constants.bin`; see `modelwheel.compiler.compile`."""
    with _working_in(out):
        try:
            _compile(params, inputs)
        except Exception as error:
            # TensorFlow writes the objects before its own C++ header, which it cannot write for
            # every program; it is not needed here.
            if not Path(_METADATA).exists():
                raise _explained(error) from error
    write_program(out / _METADATA, out / _CONSTANTS, out)
    _refuse_dynamic_results(Program.load(out / "program.json"), inputs["config"])
    for name in (_HEADER, _METADATA, _CONSTANTS):
        (out / name).unlink(missing_ok=True)


def _compile(params: Mapping[str, Any], inputs: Mapping[str, Path]) -> None:
    _pywrap_tfcompile.Compile(
        graph=str(inputs["graph"]),
        config=str(inputs["config"]),
        cpp_class=params["cpp_class"],
        target_triple=params["triple"],
        target_cpu=params["cpu"],
        target_features=params["features"],
        entry_point="entry",
        # Names become part of symbols: they must be the same wherever the work is done.
        out_function_object=_KERNELS,
        out_header=_HEADER,
        out_metadata_object=_METADATA,
        out_constant_buffers_object=_CONSTANTS,
        gen_name_to_index=False,
        gen_program_shape=False,
    )


def _refuse_dynamic_results(program: Program, config: Path) -> None:
    """XLA gives a result whose extent depends on values the room of the largest, and its extents."""
    fetches = tf2xla_pb2.Config.FromString(config.read_bytes()).fetch
    for result, fetch in zip(program.results, fetches, strict=True):
        if result.slice.size != result.elements * result.element_type.item_bytes:
            raise UnsupportedModelError(
                f"the shape of output {fetch.name!r} depends on the values of inputs; {_PAD}"
            )


@contextmanager
def _working_in(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def _explained(error: Exception) -> Exception:
    """What tfcompile's refusal means; CompileError with its first line where it is not known."""
    text = str(error)
    unsupported = re.search(
        r"No registered '(\w+)' OpKernel for XLA_CPU_JIT devices compatible with node "
        r"(?:\{\{node )?([^\s}]+)",
        text,
    )
    if unsupported:
        op, node = unsupported.groups()
        types = re.search(r"Requested Attributes: ([^)]*)\)", text)
        detail = f" with {types[1]}" if types else ""
        return UnsupportedModelError(
            f"XLA has no {op}{detail} (node {node!r} in layer {layer_name(node)!r}); {remedy_for(op)}"
        )
    dynamic = re.search(r"to node `(\S+)` with op (\w+) must be a compile-time constant", text)
    if dynamic:
        node, op = dynamic.groups()
        return UnsupportedModelError(
            f"the result of {op} (node {node!r} in layer {layer_name(node)!r}) has a shape that "
            f"depends on the values of inputs; {_PAD}"
        )
    return CompileError(f"XLA refused the graph: {text.splitlines()[0] if text else type(error)}")
