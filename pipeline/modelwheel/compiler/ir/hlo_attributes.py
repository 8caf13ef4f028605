"""The attributes of instructions in XLA's text: `dimensions={0,1}`, `window={size=3x3 pad=1_1x0_0}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from ...errors import UnsupportedProgramError
from .hlo import (
    Computation,
    ConvolutionNumbers,
    DotNumbers,
    GatherNumbers,
    Instruction,
    PadAxis,
    SliceAxis,
    WindowAxis,
)

Attributes: TypeAlias = Mapping[str, str]
"""The attributes of an instruction by name, as they are written."""

_CALLS = (
    *("calls", "to_apply", "body", "condition", "select", "scatter"),
    *("true_computation", "false_computation", "branch_computations", "called_computations"),
)
"""Attributes that name computations, in the order of `Instruction.called`."""
_SLICE = re.compile(r"\[(\d+):(\d+)(?::(\d+))?\]")
_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(x[0-9a-f]{2}|[0-7]{3}|.)")
_SIGNED = ("s8", "s16", "s32", "s64")
_FLOATS = ("f16", "bf16", "f32", "f64", "c64", "c128")


# --- reading --------------------------------------------------------------------------------------


def called_of(
    attributes: Attributes, computations: Mapping[str, Computation]
) -> tuple[Computation, ...]:
    """The computations that an instruction calls."""
    names = [
        name.strip(" %")
        for key in _CALLS
        for name in attributes.get(key, "").strip("{}").split(",")
        if name
    ]
    unknown = [name for name in names if name not in computations]
    if unknown:
        raise UnsupportedProgramError(
            f"the computation {unknown[0]!r} is not known before it is called"
        )
    return tuple(computations[name] for name in names)


def dimensions_of(attributes: Attributes) -> tuple[int, ...]:
    """The axes that an instruction names: `dimensions={0,1}`."""
    return _numbers(attributes.get("iota_dimension") or attributes.get("dimensions"))


def slice_sizes_of(attributes: Attributes) -> tuple[int, ...]:
    """Of a gather."""
    return _numbers(attributes.get("slice_sizes"))


def slices_of(attributes: Attributes) -> tuple[SliceAxis, ...]:
    """Of a slice: `slice={[0:2], [0:8:2]}`."""
    return tuple(
        SliceAxis(int(start), int(limit), int(stride or 1))
        for start, limit, stride in _SLICE.findall(attributes.get("slice", ""))
    )


def padding_of(attributes: Attributes) -> tuple[PadAxis, ...]:
    """Of a pad: `padding=0_0x1_1_2`."""
    axes = filter(None, attributes.get("padding", "").split("x"))
    return tuple(PadAxis(*map(int, axis.split("_"))) for axis in axes)


def window_of(attributes: Attributes) -> tuple[WindowAxis, ...]:
    """Of a convolution or reduction."""
    fields = dict(field.split("=", 1) for field in attributes.get("window", "").strip("{}").split())
    sizes = _by_axis(fields, "size")
    count = range(len(sizes))
    pads = [axis.split("_") for axis in fields.get("pad", "").split("x") if axis]
    low, high = ([int(pad[side]) for pad in pads] or [0 for _ in count] for side in (0, 1))
    strides, base, window, mirrored = (
        _by_axis(fields, name) or [neutral for _ in count]
        for name, neutral in (
            ("stride", 1),
            ("lhs_dilate", 1),
            ("rhs_dilate", 1),
            ("rhs_reversal", 0),
        )
    )
    return tuple(
        WindowAxis(sizes[n], strides[n], low[n], high[n], base[n], window[n], bool(mirrored[n]))
        for n in count
    )


def _by_axis(fields: Mapping[str, str], name: str) -> list[int]:
    return [int(number) for number in fields.get(name, "").split("x") if number]


def dot_of(attributes: Attributes) -> DotNumbers:
    """Of a matrix product."""
    return DotNumbers(
        lhs_batch=_numbers(attributes.get("lhs_batch_dims")),
        lhs_contracting=_numbers(attributes.get("lhs_contracting_dims")),
        rhs_batch=_numbers(attributes.get("rhs_batch_dims")),
        rhs_contracting=_numbers(attributes.get("rhs_contracting_dims")),
    )


def convolution_of(attributes: Attributes) -> ConvolutionNumbers:
    """Of a convolution: `dim_labels=b01f_01io->b01f`."""
    match = re.fullmatch(r"(\w+)_(\w+)->(\w+)", attributes.get("dim_labels", ""))
    if match is None:
        raise UnsupportedProgramError("a convolution needs `dim_labels`, such as b01f_01io->b01f")
    source, kernel, output = match.groups()
    spatial = sorted(filter(str.isdigit, source))
    return ConvolutionNumbers(
        input_batch=source.index("b"),
        input_feature=source.index("f"),
        input_spatial=tuple(map(source.index, spatial)),
        kernel_input_feature=kernel.index("i"),
        kernel_output_feature=kernel.index("o"),
        kernel_spatial=tuple(map(kernel.index, spatial)),
        output_batch=output.index("b"),
        output_feature=output.index("f"),
        output_spatial=tuple(map(output.index, spatial)),
    )


def gather_of(attributes: Attributes) -> GatherNumbers:
    """Of a gather."""
    return GatherNumbers(
        offset_dims=_numbers(attributes.get("offset_dims")),
        collapsed_slice_dims=_numbers(attributes.get("collapsed_slice_dims")),
        start_index_map=_numbers(attributes.get("start_index_map")),
        operand_batching_dims=_numbers(attributes.get("operand_batching_dims")),
        start_indices_batching_dims=_numbers(attributes.get("start_indices_batching_dims")),
        index_vector_dim=int(attributes.get("index_vector_dim", 0)),
    )


def comparison_of(attributes: Attributes, operands: Sequence[Instruction]) -> str:
    """The order of a comparison, which XLA writes if it is not that of the element type."""
    primitive = operands[0].shape.primitive
    by_type = "FLOAT" if primitive in _FLOATS else "UNSIGNED"
    return attributes.get("type", "SIGNED" if primitive in _SIGNED else by_type)


def op_name_of(attributes: Attributes) -> str:
    """The operation of the model: `metadata={op_type="Add" op_name="model/add"}`."""
    match = _OP_NAME.search(attributes.get("metadata", ""))
    return "" if match is None else _unescaped(match[1])


def _unescaped(text: str) -> str:
    """A quoted text as it was before XLA wrote it: bytes outside of ASCII are octal numbers."""
    plain = {"n": b"\n", "r": b"\r", "t": b"\t"}

    def byte(match: re.Match[bytes]) -> bytes:
        code = match[1].decode()
        if len(code) == 3:
            return bytes((int(code[1:], 16) if code[0] == "x" else int(code, 8),))
        return plain.get(code, match[1])

    return re.sub(_ESCAPE.pattern.encode(), byte, text.encode()).decode(errors="replace")


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(number) for number in (text or "").strip("{}").split(",") if number)


# --- writing --------------------------------------------------------------------------------------


def written_attributes(instruction: Instruction) -> Iterator[tuple[str, str]]:
    """The name and text of each attribute of an instruction, in XLA's order."""
    i = instruction
    if i.opcode == "iota":
        yield "iota_dimension", str(i.dimensions[0])
    elif i.dimensions or i.opcode in ("broadcast", "reduce", "transpose"):
        yield "dimensions", _list(i.dimensions)
    if i.opcode == "get-tuple-element":
        yield "index", str(i.tuple_index)
    if i.direction:
        yield "direction", i.direction
        if i.comparison != comparison_of({}, i.operands):
            yield "type", i.comparison
    if i.slices:
        yield "slice", f"{{{', '.join(map(_slice, i.slices))}}}"
    if i.padding:
        yield "padding", "x".join(map(_pad, i.padding))
    if i.window:
        yield "window", _window(i.window)
    yield from _numbered(instruction)
    if i.feature_groups != 1:
        yield "feature_group_count", str(i.feature_groups)
    if i.batch_groups != 1:
        yield "batch_group_count", str(i.batch_groups)
    yield from _calls(instruction)
    if i.op_name:
        yield "metadata", f'{{op_name="{_escaped(i.op_name)}"}}'


def _numbered(i: Instruction) -> Iterator[tuple[str, str]]:
    if i.dot is not None:
        for name, axes in (
            ("lhs_batch_dims", i.dot.lhs_batch),
            ("lhs_contracting_dims", i.dot.lhs_contracting),
            ("rhs_batch_dims", i.dot.rhs_batch),
            ("rhs_contracting_dims", i.dot.rhs_contracting),
        ):
            if axes:
                yield name, _list(axes)
    if i.convolution is not None:
        yield "dim_labels", _labels(i.convolution)
    if i.gather is not None:
        yield "offset_dims", _list(i.gather.offset_dims)
        yield "collapsed_slice_dims", _list(i.gather.collapsed_slice_dims)
        yield "start_index_map", _list(i.gather.start_index_map)
        if i.gather.operand_batching_dims:
            yield "operand_batching_dims", _list(i.gather.operand_batching_dims)
            yield "start_indices_batching_dims", _list(i.gather.start_indices_batching_dims)
        yield "index_vector_dim", str(i.gather.index_vector_dim)
        yield "slice_sizes", _list(i.slice_sizes)


def _calls(i: Instruction) -> Iterator[tuple[str, str]]:
    names = [f"%{computation.name}" for computation in i.called]
    if i.opcode == "while":
        yield from zip(("body", "condition"), names, strict=True)
    elif i.opcode == "select-and-scatter":
        yield from zip(("select", "scatter"), names, strict=True)
    elif i.opcode == "conditional":
        yield "branch_computations", f"{{{', '.join(names)}}}"
    elif i.opcode == "custom-call" and names:
        yield "called_computations", f"{{{', '.join(names)}}}"
    elif names:
        (name,) = names
        yield "calls" if i.opcode.startswith(("fusion", "async")) else "to_apply", name


def _list(numbers: Iterable[int]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"


def _slice(axis: SliceAxis) -> str:
    stride = f":{axis.stride}" if axis.stride != 1 else ""
    return f"[{axis.start}:{axis.limit}{stride}]"


def _pad(axis: PadAxis) -> str:
    interior = f"_{axis.interior}" if axis.interior else ""
    return f"{axis.low}_{axis.high}{interior}"


def _window(axes: Sequence[WindowAxis]) -> str:
    fields = {"size": "x".join(str(axis.size) for axis in axes)}
    if any(axis.stride != 1 for axis in axes):
        fields["stride"] = "x".join(str(axis.stride) for axis in axes)
    if any(axis.pad_low or axis.pad_high for axis in axes):
        fields["pad"] = "x".join(f"{axis.pad_low}_{axis.pad_high}" for axis in axes)
    if any(axis.base_dilation != 1 for axis in axes):
        fields["lhs_dilate"] = "x".join(str(axis.base_dilation) for axis in axes)
    if any(axis.window_dilation != 1 for axis in axes):
        fields["rhs_dilate"] = "x".join(str(axis.window_dilation) for axis in axes)
    if any(axis.reversed for axis in axes):
        fields["rhs_reversal"] = "x".join(str(int(axis.reversed)) for axis in axes)
    return f"{{{' '.join(f'{name}={value}' for name, value in fields.items())}}}"


def _labels(c: ConvolutionNumbers) -> str:
    def side(spatial: Sequence[int], named: Mapping[str, int]) -> str:
        places = {**named, **{str(number): axis for number, axis in enumerate(spatial)}}
        return "".join(sorted(places, key=places.__getitem__))

    source = side(c.input_spatial, {"b": c.input_batch, "f": c.input_feature})
    kernel = side(c.kernel_spatial, {"i": c.kernel_input_feature, "o": c.kernel_output_feature})
    output = side(c.output_spatial, {"b": c.output_batch, "f": c.output_feature})
    return f"{source}_{kernel}->{output}"


def _escaped(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return "".join(chr(byte) if byte < 0x80 else f"\\{byte:03o}" for byte in escaped.encode())
