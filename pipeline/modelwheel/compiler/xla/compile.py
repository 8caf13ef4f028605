"""The job `compile`: XLA turns a frozen graph into kernels, a program and its constants."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorflow.compiler.tf2xla import tf2xla_pb2
from tensorflow.python import _pywrap_tfcompile

from ...errors import CompileError, UnsupportedModelError
from ...model.check import fix_for
from ...model.messages import without_node_markup
from ...program.op_names import clean_name, names_of
from ...program.program import Program
from ...util.text import one_line
from ...workers.flags import Flags
from ...workers.jobs import KERNELS, PASSES, PROGRAM, GraphJob, PassesJob
from ..graphs.graphs import layer_name
from .conversions import rename_half_conversions
from .decode import passes_text, write_program
from .unused_code import blank_unused_functions

_HEADER = "program.h"
_METADATA = "metadata.o"
_CONSTANTS = "constants.o"

_NODE = r"[\w.>/\\-]+"
"""The name of a node, as tensorflow/core/framework/node_def_util.cc allows it."""

_PAD = "compiled shapes are fixed: export a signature that ends before it, or pads to a fixed shape"


def run(job: GraphJob) -> None:
    """Writes the kernels, the program and its constants, or what the passes did."""
    _require_flags(job.flags)
    out = job.out
    # The directory of the whole process changes: a worker runs one job at a time.
    with _working_in(out):
        try:
            _compile(job)
        except Exception as error:
            # tfcompile writes the objects before its C++ header, which it cannot write for every
            # program (element types). The header is not needed: an error after the objects is none.
            if not Path(_METADATA).exists():
                raise _explained(error) from error
    config = tf2xla_pb2.Config.FromString(job.inputs.config.read_bytes())
    written = [not variable.readonly for variable in config.variable]
    if isinstance(job, PassesJob):
        text = passes_text(out / _METADATA, out / _CONSTANTS, written)
        (out / PASSES).write_text(text, encoding="utf-8")
    else:
        write_program(out / _METADATA, out / _CONSTANTS, out, written)
        program = Program.load(out / PROGRAM)
        _refuse_dynamic_results(program, config)
        blank_unused_functions(out / KERNELS, program.symbols)
        if "windows" in job.request.triple:
            rename_half_conversions(out / KERNELS)
    # They hold the weights again, in the program and padded; `constants.bin` has them once.
    for name in (_HEADER, _METADATA, _CONSTANTS):
        (out / name).unlink(missing_ok=True)


def _require_flags(flags: Flags) -> None:
    """XLA has read its flags when this process started: other ones would change nothing."""
    expected = flags.environment()
    actual = {name: os.environ.get(name, "") for name in expected}
    if actual != expected:
        raise RuntimeError(f"this process has the compiler flags {actual}, not {expected}")


def _compile(job: GraphJob) -> None:
    request = job.request
    _pywrap_tfcompile.Compile(
        graph=str(job.inputs.graph),
        config=str(job.inputs.config),
        cpp_class=request.cpp_class,
        target_triple=request.triple,
        target_cpu=request.cpu,
        target_features=request.features,
        entry_point="entry",
        # File names become part of symbols: they must be the same wherever the work is done.
        out_function_object=KERNELS,
        out_header=_HEADER,
        out_metadata_object=_METADATA,
        out_constant_buffers_object=_CONSTANTS,
        gen_name_to_index=False,
        gen_program_shape=False,
    )


def _refuse_dynamic_results(program: Program, config: Any) -> None:
    """Refuses results whose shape depends on values.

    XLA stores such a result in a buffer for the largest shape, followed by its extents, so that its
    slice is larger than its elements.
    """
    for result, fetch in zip(program.outputs, config.fetch, strict=True):
        if result.slice.size != result.elements * result.element_type.item_bytes:
            raise UnsupportedModelError(
                f"the shape of output {fetch.name!r} depends on the values of inputs; {_PAD}",
                code="MW409",
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
    """Explains an error of tfcompile; an unknown one becomes a CompileError with its first line."""
    text = without_node_markup(str(error))
    # The wording is that of the pinned TensorFlow. Other texts are shown as they are.
    unsupported = re.search(
        rf"No registered '(\w+)' OpKernel for XLA_CPU_JIT devices compatible with node ({_NODE})",
        text,
    )
    if unsupported:
        op, node = unsupported.groups()
        types = re.search(r"Requested Attributes: ([^)]*)\)", text)
        detail = f" with {types[1]}" if types else ""
        return UnsupportedModelError(
            f"XLA has no {op}{detail} (node {node!r} in layer {layer_name(node)!r}); {fix_for(op)}",
            code="MW401",
        )
    dynamic = re.search(rf"to node `({_NODE})` with op (\w+) must be a compile-time constant", text)
    if dynamic:
        node, op = dynamic.groups()
        return UnsupportedModelError(
            f"the result of {op} (node {node!r} in layer {layer_name(node)!r}) has a shape that "
            f"depends on the values of inputs; {_PAD}",
            code="MW409",
        )
    # What MLIR says about a line of a module, which names the layer.
    located = re.search(r"error: loc\(\"([^\"]+)\"\): (.+)", text)
    if located:
        names, reason = located.groups()
        layer = clean_name(next(iter(names_of(names)), "")) or names
        return CompileError(
            f"XLA refused {one_line(repr(layer))}: {one_line(reason)}; correct this layer of the model",
            code="MW504",
        )
    return CompileError(
        f"XLA refused the graph: {text.splitlines()[0] if text else type(error)}", code="MW504"
    )
