"""C++ expressions for what a program has: memory, element types, epilogues."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from ..dtypes import ElementType
from ..program.arrays import Array, Slice
from ..program.program import Epilogue, Fft, Heads, Pooling, RowReduction


def pointer(part: Slice) -> str:
    """A C++ expression for the start of a slice; `aN` is the start of allocation N, `trip` the turn of a loop."""
    start = f"a{part.allocation} + {part.offset}" if part.offset else f"a{part.allocation}"
    return f"{start} + trip * {part.step}" if part.step else start


def cpp_type(array: Array) -> str:
    """The C++ type that the hand-written kernels use for an element."""
    return array.element_type.kernel_type


def fft_type(fft: Fft) -> str:
    """The C++ type of the numbers in a Fourier transform, or of their parts."""
    double = {ElementType.FLOAT64, ElementType.COMPLEX128}
    return "double" if double & {fft.input.element_type, fft.output.element_type} else "float"


def largest(sizes: Iterable[str], least: str = "0") -> str:
    """The largest of some constant expressions."""
    found = least
    for size in dict.fromkeys(sizes):
        found = f"larger({found}, {size})"
    return found


def struct_of(kind: str, members: str) -> tuple[str, str]:
    """The name of a structure, the same for the same members, and its definition."""
    name = f"{kind}_{hashlib.sha256(members.encode()).hexdigest()[:16]}"
    return name, f"struct {name} {{\n{members}}};\n"


def braces(values: Iterable[object]) -> str:
    """A C++ initialiser: `{1, 2, 3}`."""
    return "{" + ", ".join(map(str, values)) + "}"


def reducer(thunk: Pooling | RowReduction) -> tuple[str, str]:
    """The first members of the table of a reduction."""
    initial = "-__builtin_inf()" if thunk.initial is None else repr(thunk.initial)
    return f"Reducer::k{thunk.reducer.capitalize()}", initial


def epilogue_members(
    epilogue: Epilogue, element: str, place: tuple[str, str], *, overlaps: bool
) -> str:
    """The members of an `Epilogue` of the kernels; `place` has the addresses of the sums and the result."""
    sums, result = place
    parts = [epilogue.bias, epilogue.scale, epilogue.shift, epilogue.addend]
    limits = [epilogue.low, epilogue.high]
    return braces(
        [
            f"as<const {element}>({sums})",
            f"as<{element}>({result})",
            cpp_bool(overlaps),
            *("nullptr" if p is None else f"as<const {element}>({pointer(p)})" for p in parts),
            *(cpp_bool(limit is not None) for limit in limits),
            *(f"{0.0 if limit is None else limit!r}F" for limit in limits),
            f"Activation::k{(epilogue.activation or 'none').title().replace('_', '')}",
        ]
    )


def operands_of(arrays: Sequence[Array]) -> str:
    """The arguments of a kernel: what it reads, and then what it writes."""
    *read, written = arrays
    parts = [f"as<const {cpp_type(array)}>({pointer(array.slice)})" for array in read]
    return ", ".join([*parts, f"as<{cpp_type(written)}>({pointer(written.slice)})"])


def spatial(values: Sequence[int], fill: int = 1) -> str:
    """An initialiser for three spatial axes; missing ones are `fill`."""
    return braces([*values, *[fill] * (3 - len(values))])


def cpp_bool(value: bool) -> str:
    """`true` or `false`."""
    return "true" if value else "false"


def heads_of(heads: Heads | None, element: str) -> str:
    """The first element of a mask."""
    if heads is None:
        return "nullptr"
    return f"as<const {element}>({pointer(heads.slice)}) + {heads.start}"
