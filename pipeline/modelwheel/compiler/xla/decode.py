"""Converts the files that tfcompile writes to a `Program` and one file of constants.

tfcompile (tensorflow/compiler/aot/compile.cc) writes two objects in addition to the kernels (`object_file.py`): one has a
serialised `xla.cpu.CompilationResultProto` (xla/service/cpu/executable.proto), the other the constants. The fields are those of
xla/backends/cpu/runtime/thunk.proto and xla/service/hlo.proto (BufferAssignmentProto) as of the pinned
TensorFlow; anything unknown is refused by name instead of being guessed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from ...dtypes import ElementType
from ...errors import UnsupportedProgramError
from ...program import ops
from ...program.arrays import ALIGNMENT, Allocation, AllocationKind, ArrayShape, Slice
from ...program.program import Program
from ...program.steps import Step, numbered
from ...program.text import text_of
from ...program.verify import verify
from ...program.view import View
from ..ir.covering import CoveringStep
from ..ir.graph import Graph
from ..ir.graph_text import graph_text
from ..ir.hlo import Instruction, Module, Shape
from ..ir.match import view_of
from ..ir.op_origins import origin_of
from ..ir.operations import operations_of
from ..ir.product_ops import convolution_op, dot_op
from ..passes import Watch, optimise
from .descriptors import compilation_result_class
from .hlo_proto import (
    read_convolution_numbers,
    read_dot_numbers,
    read_module,
    read_shape,
    read_window,
)
from .object_file import read_constants, read_only_section
from .tiny_numbers import clear_tiny

_Slices: TypeAlias = dict[tuple[Instruction, tuple[int, ...]], Slice]
"""Where values are, by the instruction and the position in its tuple."""

_OBJECT_FILES_ARE_KERNELS = 2  # ObjFileKind.KERNELS of xla.cpu.CompilationResultProto
_FFT_TYPES: tuple[Literal["fft", "ifft", "rfft", "irfft"], ...] = ("fft", "ifft", "rfft", "irfft")
"""By the number of xla.FftType."""


def write_program(
    metadata_object: Path, constants_object: Path, out: Path, written: Sequence[bool] = ()
) -> None:
    """Writes `program.json` and `constants.bin` into the directory `out`.

    Args:
        metadata_object: The object file whose read-only section is the compilation result.
        constants_object: The object file with the constants.
        out: An existing directory.
        written: For each variable of the tf2xla Config, whether the program writes it.

    Raises:
        UnsupportedProgramError: The result holds something that the runtime does not support.
    """
    program, constants = _read_program(metadata_object, constants_object, written)
    program.save(out / "program.json")
    (out / "constants.bin").write_bytes(constants)


def passes_text(metadata_object: Path, constants_object: Path, written: Sequence[bool] = ()) -> str:
    """The graph after each pass and the program in the end, each below a line with `==` and the name of the pass.

    Args:
        metadata_object: See `write_program`.
        constants_object: See `write_program`.
        written: See `write_program`.

    Raises:
        UnsupportedProgramError: The result holds something that the runtime does not support.
    """
    texts: list[str] = []

    def watch(name: str, graph: Graph) -> None:
        texts.append(f"== {name}\n{graph_text(graph)}")

    program, _ = _read_program(metadata_object, constants_object, written, watch)
    return "\n".join([*texts, f"== program\n{text_of(program)}"])


def _read_program(
    metadata_object: Path,
    constants_object: Path,
    written: Sequence[bool],
    watch: Watch | None = None,
) -> tuple[Program, bytes]:
    result = compilation_result_class().FromString(read_only_section(metadata_object))
    _refuse_unknown_fields(result)
    return decode(result, read_constants(constants_object), written, watch)


def decode(
    result: Any,
    constants: Sequence[bytes],
    written: Sequence[bool] = (),
    watch: Watch | None = None,
) -> tuple[Program, bytes]:
    """The program of a `CompilationResultProto`, and its constants in one blob."""
    if result.obj_files_kind != _OBJECT_FILES_ARE_KERNELS:
        raise UnsupportedProgramError(
            f"XLA compiled to object files of kind {result.obj_files_kind} instead of kernels; "
            "build with the pinned TensorFlow"
        )
    hlo, instructions = read_module(result.hlo_module.hlo_module)
    parameters = [parameter.shape for parameter in hlo.entry.parameters]
    buffers = result.buffer_assignment.buffer_allocations
    # Variables are parameters after the feeds (tf2xla.cc), and results after the fetches.
    _refuse_written_inputs(buffers, len(parameters) - len(written))
    where = _assigned_slices(result.buffer_assignment, instructions)
    allocations, blob = _decode_allocations(buffers, constants, _constant_shapes(where))
    results = tuple(_results(hlo, where))
    steps = _ThunkDecoder(hlo).sequence(result.thunk_sequence)
    places = [result.slice for result in results]
    steps, allocations = optimise(steps, allocations, places, module=hlo, watch=watch)
    program = Program(
        triple=result.target_machine_options.triple,
        cpu=result.target_machine_options.cpu,
        allocations=allocations,
        parameters=tuple(_parameters(parameters, allocations)),
        results=results,
        steps=steps,
        state=tuple(_state(len(results), written)),
    )
    _require_unchanged_shapes(program)
    verify(program)
    return program, blob


def _state(results: int, written: Sequence[bool]) -> Iterable[int | None]:
    number = results - sum(written)
    for updated in written:
        yield number if updated else None
        number += updated


def _require_unchanged_shapes(program: Program) -> None:
    for before, number in zip(
        program.parameters[len(program.inputs) :], program.state, strict=True
    ):
        after = before if number is None else program.results[number]
        same = (after.shape, after.element_type, after.strides)
        if (before.shape, before.element_type, before.strides) != same:
            raise UnsupportedProgramError(
                f"a call changes the shape of a variable from {before.shape} to {after.shape}; "
                "export a signature whose variables keep their shapes"
            )


def _refuse_written_inputs(protos: Iterable[Any], inputs: int) -> None:
    """The runtime promises that inputs are only read; XLA writes variables in place."""
    for proto in protos:
        if proto.is_parameter_aliased_with_output and proto.parameter_number < inputs:
            raise UnsupportedProgramError(
                f"allocation {proto.index} aliases a parameter with an output, which is not supported"
            )


# --- allocations ----------------------------------------------------------------------------------


def _decode_allocations(
    protos: Iterable[Any], constants: Sequence[bytes], shapes: Mapping[int, ArrayShape]
) -> tuple[tuple[Allocation, ...], bytes]:
    allocations = []
    blob = bytearray()
    remaining = list(reversed(constants))
    for proto in protos:
        offset = digest = None
        if proto.is_constant and proto.size:
            # The i-th symbol is the i-th constant that is not empty: empty ones are not written.
            content = remaining.pop() if remaining else b""
            if len(content) != proto.size:
                raise UnsupportedProgramError(
                    f"constant allocation {proto.index} has {proto.size} bytes, "
                    f"but the constants object holds {len(content)}"
                )
            if (shape := shapes.get(proto.index)) is not None:
                content = clear_tiny(content, shape.element_type)
            blob.extend(bytes(-len(blob) % ALIGNMENT))
            offset, digest = len(blob), hashlib.sha256(content).hexdigest()
            blob.extend(content)
        allocations.append(
            Allocation(
                index=proto.index,
                size=proto.size,
                kind=_allocation_kind(proto),
                parameter=proto.parameter_number if proto.is_entry_computation_parameter else None,
                constant_offset=offset,
                sha256=digest,
                array=shapes.get(proto.index) if digest else None,
            )
        )
    if remaining:
        raise UnsupportedProgramError(f"{len(remaining)} constants belong to no allocation")
    return tuple(allocations), bytes(blob)


def _constant_shapes(where: _Slices) -> dict[int, ArrayShape]:
    """The array that each allocation with one constant holds."""
    return {
        place.allocation: ArrayShape(
            element_type=instruction.shape.element_type,
            shape=instruction.shape.dimensions,
            minor_to_major=instruction.shape.minor_to_major,
        )
        for (instruction, index), place in where.items()
        if instruction.opcode == "constant" and not index
        if instruction.shape.element_type is not None
    }


def _allocation_kind(proto: Any) -> AllocationKind:
    if proto.is_entry_computation_parameter:
        return "parameter"
    if proto.is_constant:
        return "constant"
    if proto.is_thread_local:
        return "thread_local"
    # The table of the result tuple is live at the end too, but it is not a result: nobody reads it.
    return "output" if proto.maybe_live_out and not proto.is_tuple else "temporary"


def _parameters(shapes: Iterable[Shape], allocations: Iterable[Allocation]) -> Iterable[View]:
    # Parameters that the program does not read have an allocation too.
    by_number = {a.parameter: a for a in allocations if a.kind == "parameter"}
    for number, shape in enumerate(shapes):
        allocation = by_number[number]
        whole = Slice(allocation=allocation.index, offset=0, size=allocation.size)
        yield view_of(shape, whole)


def _results(hlo: Module, where: _Slices) -> Iterable[View]:
    root = hlo.entry.root
    for index, shape in enumerate(root.shape.tuple_shapes):
        yield view_of(shape, _resolve(root, (index,), where))


def _resolve(instruction: Instruction, index: tuple[int, ...], where: _Slices) -> Slice:
    """The memory of the value of `instruction` at tuple position `index`.

    XLA's buffer aliases usually omit the elements of the root tuple, so this follows
    instructions that only forward a value until it finds one that owns a buffer.
    """
    while (instruction, index) not in where:
        match instruction.opcode:
            case "tuple":
                operand, index = index[0], index[1:]
            case "get-tuple-element":
                operand, index = 0, (instruction.tuple_index, *index)
            # A loop keeps its state in the buffers of its operand.
            case "bitcast" | "while" | "optimization-barrier" | "add-dependency":
                operand = 0
            case "call" | "conditional":
                # All branches of a conditional write the same buffer: the first will do.
                instruction = instruction.called[0].root
                continue
            case opcode:
                raise UnsupportedProgramError(
                    f"the memory of result {instruction.name!r} cannot be found: "
                    f"{opcode!r} owns no buffer"
                )
        instruction = instruction.operands[operand]
    return where[instruction, index]


def _assigned_slices(assignment: Any, instructions: Mapping[int, Instruction]) -> _Slices:
    """The slice of every instruction and tuple position that defines or aliases a logical buffer."""
    by_buffer = {
        assigned.logical_buffer_id: Slice(
            allocation=allocation.index, offset=assigned.offset, size=assigned.size
        )
        for allocation in assignment.buffer_allocations
        for assigned in allocation.assigned
    }
    locations = [(b.id, b.defined_at) for b in assignment.logical_buffers]
    locations += [(a.source_buffer_id, a.location) for a in assignment.buffer_aliases]
    return {
        (instructions[location.instruction_id], tuple(location.shape_index)): by_buffer[buffer]
        for buffer, location in locations
        if buffer in by_buffer
    }


# --- thunks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ThunkDecoder:
    hlo: Module
    around: str = ""
    """The origin of the loop or conditional whose steps these are."""

    def sequence(self, proto: Any) -> tuple[Step, ...]:
        return tuple(self._steps(proto))

    def _steps(self, proto: Any) -> Iterator[Step]:
        # In program order; `thunk_resources` only matters for running them concurrently.
        for thunk in proto.thunks:
            kind = thunk.WhichOneof("impl")
            if kind == "call_thunk":  # replaced by the thunks that it calls
                yield from self._steps(thunk.call_thunk.called_sequence)
                continue
            decoder = _DECODERS.get(kind)
            if decoder is None:
                raise UnsupportedProgramError(
                    f"XLA emitted a thunk of kind {thunk.kind!r} for {thunk.info.op_name!r}, "
                    "which the runtime does not support"
                )
            yield self._named(decoder(self, thunk, getattr(thunk, kind)), thunk)

    def _named(self, step: Step, thunk: Any) -> Step:
        step = step.model_copy(update={"origin": self._origin(thunk)})
        name = thunk.info.op_name
        return step if self.hlo.instruction(name) is None else CoveringStep.of(step, [name])

    def _origin(self, thunk: Any) -> str:
        instruction = self.hlo.instruction(thunk.info.op_name)
        own = "" if instruction is None else origin_of(self.hlo, [instruction])
        return own or self.around

    def _inside(self, thunk: Any) -> _ThunkDecoder:
        return replace(self, around=self._origin(thunk))

    def _kernel(self, thunk: Any, k: Any) -> Step:
        # `invariant_arguments`, a hint, is left out: XLA writes it in the order of a hash set, which
        # differs from process to process.
        groups = k.num_workgroups
        instruction = self.hlo.instruction(thunk.info.op_name)
        return Step(
            op=ops.Kernel(
                symbol=k.kernel_name,
                workgroups=(groups.x or 1, groups.y or 1, groups.z or 1),
            ),
            inputs=numbered("argument", [_bytes(a.slice) for a in k.arguments_buffers]),
            outputs=numbered("result", [_bytes(r.slice) for r in k.results_buffers]),
            operations=0 if instruction is None else operations_of(instruction),
        )

    def _dot(self, _: Any, d: Any) -> Step:
        lhs, rhs, out = map(_view, (d.lhs_buffer_shape, d.rhs_buffer_shape, d.out_buffer_shape))
        axes = read_dot_numbers(d.dot_dimensions)
        contracted = math.prod(lhs.shape[axis] for axis in axes.lhs_contracting)
        return Step(
            op=dot_op(axes),
            inputs={"lhs": lhs, "rhs": rhs},
            outputs={"out": out},
            operations=2 * out.elements * contracted,
        )

    def _convolution(self, _: Any, c: Any) -> Step:
        source, kernel, output = map(
            _view, (c.input_buffer_shape, c.kernel_buffer_shape, c.output_buffer_shape)
        )
        axes, windows = read_convolution_numbers(c.dimension_numbers), read_window(c.window)
        per_output = kernel.elements // kernel.shape[axes.kernel_output_feature]
        return Step(
            op=convolution_op(axes, windows, c.feature_group_count or 1),
            inputs={"input": source, "kernel": kernel},
            outputs={"out": output},
            operations=2 * output.elements * per_output,
        )

    def _copy(self, thunk: Any, c: Any) -> Step:
        source, destination = map(_view, (c.src_buffer_shape, c.dst_buffer_shape))
        layouts = [
            read_shape(end.shape).minor_to_major for end in (c.src_buffer_shape, c.dst_buffer_shape)
        ]
        if layouts[0] != layouts[1]:
            raise UnsupportedProgramError(
                f"the copy {thunk.info.op_name!r} changes the layout, which is not supported"
            )
        return Step(
            op=ops.Copy(),
            inputs={"source": View.of_bytes(source.slice)},
            outputs={"destination": View.of_bytes(destination.slice)},
        )

    def _loop(self, thunk: Any, w: Any) -> Step:
        """A loop; XLA's runtime does not evaluate the condition of one with a known trip count."""
        trips = w.trip_count.value if w.trip_count.contains_value else None
        inside = self._inside(thunk)
        body = inside.sequence(w.body_sequence)
        condition = inside.sequence(w.cond_sequence) if trips is None else ()
        value = View.dense(_slice(w.cond_buffer), ElementType.BOOL, ()) if trips is None else None
        return Step(
            op=ops.While(trip_count=trips),
            inputs={} if value is None else {"condition": value},
            regions=(condition, body),
        )

    def _conditional(self, thunk: Any, c: Any) -> Step:
        index = _slice(c.branch_index_buffer)
        # A predicate or an int32: branch_of in the wheel distinguishes them by their size.
        if index.size not in (1, 4):
            raise UnsupportedProgramError(
                f"the branch index of {thunk.info.op_name!r} has {index.size} bytes instead of 1 or 4"
            )
        element = ElementType.BOOL if index.size == 1 else ElementType.INT32
        return Step(
            op=ops.Conditional(),
            inputs={"index": View.dense(index, element, ())},
            regions=tuple(map(self._inside(thunk).sequence, c.branch_sequences)),
        )

    def _sort(self, _: Any, s: Any) -> Step:
        views = list(map(_view, s.inputs_shapes))
        axis = s.dimension if s.dimension >= 0 else s.dimension + len(views[0].shape)
        operands = numbered("operand", views)
        return Step(
            op=ops.Sort(comparator=s.comparator_name, axis=axis),
            inputs=operands,
            outputs=operands,
            operations=sum(v.elements for v in views) * max(views[0].shape[axis].bit_length(), 1),
        )

    def _top_k(self, _: Any, t: Any) -> Step:
        rows, largest = (t.batch_size, t.input_size), (t.batch_size, t.k)
        return Step(
            op=ops.TopK(),
            inputs={"values": View.dense(_slice(t.values_buffer), ElementType.FLOAT32, rows)},
            outputs={
                "output": View.dense(_slice(t.output_buffer), ElementType.FLOAT32, largest),
                "indices": View.dense(_slice(t.indices_buffer), ElementType.INT32, largest),
            },
            operations=t.batch_size * t.input_size * max(t.k.bit_length(), 1),
        )

    def _fft(self, _: Any, f: Any) -> Step:
        source, output = _view(f.input_buffer_shape), _view(f.output_buffer_shape)
        lengths = tuple(f.fft_length)
        # 5 n log2(n) is the customary count for a transform of n points.
        return Step(
            op=ops.Fft(fft_type=_FFT_TYPES[f.fft_type], lengths=lengths),
            inputs={"input": source},
            outputs={"output": output},
            operations=5 * output.elements * sum(n.bit_length() for n in lengths),
        )

    def _random_state(self, _: Any, r: Any) -> Step:
        state = _bytes(r.state_buffer)
        return Step(op=ops.RandomState(delta=r.delta), outputs={"state": state}, operations=1)


_DECODERS: Mapping[str, Callable[[_ThunkDecoder, Any, Any], Step]] = {
    "kernel_thunk": _ThunkDecoder._kernel,
    "dot_thunk": _ThunkDecoder._dot,
    "convolution_thunk": _ThunkDecoder._convolution,
    "copy_thunk": _ThunkDecoder._copy,
    "while_thunk": _ThunkDecoder._loop,
    "conditional_thunk": _ThunkDecoder._conditional,
    "sort_thunk": _ThunkDecoder._sort,
    "top_k_thunk": _ThunkDecoder._top_k,
    "fft_thunk": _ThunkDecoder._fft,
    "rng_get_and_update_state_thunk": _ThunkDecoder._random_state,
}

THUNKS = frozenset({"call_thunk", *_DECODERS})
"""The kinds of thunks that are read: fields of `impl` in `xla.cpu.ThunkProto`."""


def _view(proto: Any) -> View:
    return view_of(read_shape(proto.shape), _slice(proto.slice))


def _bytes(proto: Any) -> View:
    return View.of_bytes(_slice(proto))


def _slice(proto: Any) -> Slice:
    return Slice(allocation=proto.buffer_allocation_index, offset=proto.offset, size=proto.size)


def _refuse_unknown_fields(message: Any) -> None:
    """Refuses fields that the schema does not name: protobuf would silently ignore them."""
    if len(UnknownFieldSet(message)):
        raise UnsupportedProgramError(
            f"XLA's {message.DESCRIPTOR.full_name} has a field that its schema does not name; "
            "build with the pinned TensorFlow"
        )
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            values = [v for v in value.values() if hasattr(v, "ListFields")]
        else:
            values = value if field.is_repeated else [value]
        for child in values:
            _refuse_unknown_fields(child)
