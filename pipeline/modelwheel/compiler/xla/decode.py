"""Converts the files that tfcompile writes to a `Program` and one file of constants.

tfcompile (tensorflow/compiler/aot/compile.cc) writes two objects in addition to the kernels (`object_file.py`): one has a
serialised `xla.cpu.CompilationResultProto` (xla/service/cpu/executable.proto), the other the constants. The fields are those of
xla/backends/cpu/runtime/thunk.proto and xla/service/hlo.proto (BufferAssignmentProto) as of the pinned
TensorFlow; anything unknown is refused by name instead of being guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from ...errors import UnsupportedProgramError
from ...program.arrays import ALIGNMENT, Allocation, AllocationKind, ArrayShape, Slice
from ...program.program import Program
from ...program.text import text_of
from ...program.verify import verify
from ..ir.emitted import thunks as p
from ..ir.emitted.lower import lower, view_of
from ..ir.emitted.memory import Memory
from ..ir.emitted.thunks import Array
from ..ir.graph import Graph
from ..ir.graph_text import graph_text
from ..ir.hlo import Instruction, Module, Shape
from ..ir.match import array_of
from ..ir.op_origins import origin_of
from ..ir.operations import operations_of
from ..passes import Watch, optimise
from ..passes.epilogues import Emitted
from ..passes.recognise.convolutions import convolution
from ..passes.recognise.products import product
from ..passes.recognise.recognisers import RECOGNISERS
from .descriptors import compilation_result_class
from .hlo_proto import (
    read_convolution_numbers,
    read_dot_numbers,
    read_module,
    read_shape,
    read_window,
)
from .object_file import read_constants, read_only_section

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
    memory = Memory(allocations, [one.slice for one in results])
    thunks = _ThunkDecoder(hlo, memory).sequence(result.thunk_sequence)
    places = [result.slice for result in results]
    steps, allocations = optimise(
        lower(thunks), memory.all_allocations, places, module=hlo, watch=watch
    )
    program = Program(
        triple=result.target_machine_options.triple,
        cpu=result.target_machine_options.cpu,
        allocations=allocations,
        parameters=tuple(map(view_of, _parameters(parameters, allocations))),
        results=tuple(map(view_of, results)),
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


def _parameters(shapes: Iterable[Shape], allocations: Iterable[Allocation]) -> Iterable[Array]:
    # Parameters that the program does not read have an allocation too.
    by_number = {a.parameter: a for a in allocations if a.kind == "parameter"}
    for number, shape in enumerate(shapes):
        allocation = by_number[number]
        whole = Slice(allocation=allocation.index, offset=0, size=allocation.size)
        yield array_of(shape, whole)


def _results(hlo: Module, where: _Slices) -> Iterable[Array]:
    root = hlo.entry.root
    for index, shape in enumerate(root.shape.tuple_shapes):
        yield array_of(shape, _resolve(root, (index,), where))


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
    memory: Memory
    around: str = ""
    """The origin of the loop or conditional whose steps these are."""

    def sequence(self, proto: Any) -> tuple[p.Thunk, ...]:
        return tuple(one.thunk for one in self._emitted(proto))

    def _emitted(self, proto: Any) -> list[Emitted]:
        thunks: list[Emitted] = []
        # In program order; `thunk_resources` only matters for running them concurrently.
        for thunk in proto.thunks:
            kind = thunk.WhichOneof("impl")
            if kind == "call_thunk":  # replaced by the thunks that it calls
                thunks.extend(self._emitted(thunk.call_thunk.called_sequence))
                continue
            decoder = _DECODERS.get(kind)
            if decoder is None:
                raise UnsupportedProgramError(
                    f"XLA emitted a thunk of kind {thunk.kind!r} for {thunk.info.op_name!r}, "
                    "which the runtime does not support"
                )
            thunks.append(self._named(decoder(self, thunk, getattr(thunk, kind)), thunk))
        return thunks

    def _named(self, decoded: p.Thunk, thunk: Any) -> Emitted:
        name = thunk.info.op_name
        covers = () if self.hlo.instruction(name) is None else (name,)
        update = {"origin": self._origin(thunk), "covers": covers}
        return Emitted(decoded.model_copy(update=update), name)

    def _origin(self, thunk: Any) -> str:
        instruction = self.hlo.instruction(thunk.info.op_name)
        own = "" if instruction is None else origin_of(self.hlo, [instruction])
        return own or self.around

    def _inside(self, thunk: Any) -> _ThunkDecoder:
        return replace(self, around=self._origin(thunk))

    def _kernel(self, thunk: Any, k: Any) -> p.Thunk:
        # `invariant_arguments`, a hint, is left out: XLA writes it in the order of a hash set, which
        # differs from process to process.
        groups = k.num_workgroups
        instruction = self.hlo.instruction(thunk.info.op_name)
        kernel = p.Kernel(
            operations=0 if instruction is None else operations_of(instruction),
            symbol=k.kernel_name,
            workgroups=(groups.x or 1, groups.y or 1, groups.z or 1),
            arguments=tuple(_slice(argument.slice) for argument in k.arguments_buffers),
            results=tuple(_slice(result.slice) for result in k.results_buffers),
        )
        if instruction is None:
            return kernel
        found = (recognise(instruction, kernel, self.memory) for recognise in RECOGNISERS)
        return next((thunk for thunk in found if thunk is not None), kernel)

    def _dot(self, _: Any, d: Any) -> p.Thunk:
        lhs, rhs, out = map(_buffer, (d.lhs_buffer_shape, d.rhs_buffer_shape, d.out_buffer_shape))
        return product(read_dot_numbers(d.dot_dimensions), lhs, rhs, out)

    def _convolution(self, _: Any, c: Any) -> p.Thunk:
        source, kernel, output = map(
            _buffer, (c.input_buffer_shape, c.kernel_buffer_shape, c.output_buffer_shape)
        )
        axes, windows = read_convolution_numbers(c.dimension_numbers), read_window(c.window)
        return convolution(axes, windows, c.feature_group_count or 1, source, kernel, output)

    def _copy(self, thunk: Any, c: Any) -> p.Thunk:
        source, destination = _buffer(c.src_buffer_shape), _buffer(c.dst_buffer_shape)
        if source.minor_to_major != destination.minor_to_major:
            raise UnsupportedProgramError(
                f"the copy {thunk.info.op_name!r} changes the layout, which is not supported"
            )
        return p.Copy(operations=0, source=source.slice, destination=destination.slice)

    def _loop(self, thunk: Any, w: Any) -> p.Thunk:
        trips = w.trip_count.value if w.trip_count.contains_value else None
        inside = self._inside(thunk)
        body = inside.sequence(w.body_sequence)
        condition = inside.sequence(w.cond_sequence) if trips is None else ()
        return p.While(
            operations=sum(t.operations for t in condition + body)
            * (1 if trips is None else trips),
            trip_count=trips,
            condition=condition,
            condition_value=_slice(w.cond_buffer) if trips is None else None,
            body=body,
        )

    def _conditional(self, thunk: Any, c: Any) -> p.Thunk:
        index = _slice(c.branch_index_buffer)
        # A predicate or an int32: branch_of in the wheel distinguishes them by their size.
        if index.size not in (1, 4):
            raise UnsupportedProgramError(
                f"the branch index of {thunk.info.op_name!r} has {index.size} bytes instead of 1 or 4"
            )
        branches = tuple(map(self._inside(thunk).sequence, c.branch_sequences))
        return p.Conditional(
            operations=max((sum(t.operations for t in b) for b in branches), default=0),
            index=index,
            branches=branches,
        )

    def _sort(self, _: Any, s: Any) -> p.Thunk:
        operands = tuple(map(_buffer, s.inputs_shapes))
        axis = s.dimension if s.dimension >= 0 else s.dimension + len(operands[0].shape)
        length = operands[0].shape[axis]
        return p.Sort(
            operations=sum(o.elements for o in operands) * max(length.bit_length(), 1),
            comparator=s.comparator_name,
            axis=axis,
            operands=operands,
        )

    def _top_k(self, _: Any, t: Any) -> p.Thunk:
        return p.TopK(
            operations=t.batch_size * t.input_size * max(t.k.bit_length(), 1),
            batch=t.batch_size,
            size=t.input_size,
            k=t.k,
            values=_slice(t.values_buffer),
            output=_slice(t.output_buffer),
            indices=_slice(t.indices_buffer),
        )

    def _fft(self, _: Any, f: Any) -> p.Thunk:
        source, output = _buffer(f.input_buffer_shape), _buffer(f.output_buffer_shape)
        lengths = tuple(f.fft_length)
        # 5 n log2(n) is the customary count for a transform of n points.
        return p.Fft(
            operations=5 * output.elements * sum(n.bit_length() for n in lengths),
            fft_type=_FFT_TYPES[f.fft_type],
            lengths=lengths,
            input=source,
            output=output,
        )

    def _random_state(self, _: Any, r: Any) -> p.Thunk:
        return p.RandomState(operations=1, delta=r.delta, state=_slice(r.state_buffer))


def _buffer(proto: Any) -> Array:
    return array_of(read_shape(proto.shape), _slice(proto.slice))


_DECODERS: Mapping[str, Callable[[_ThunkDecoder, Any, Any], p.Thunk]] = {
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
