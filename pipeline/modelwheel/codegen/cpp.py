"""C++ text for what a program has: memory, element types, initialisers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from ..program.arrays import Slice
from ..program.view import View

INDENT = "  "


def pointer(part: Slice) -> str:
    """An expression for the first byte of a slice; `aN` is the start of allocation N, `trip` the iteration of a loop."""
    start = f"a{part.allocation} + {part.offset}" if part.offset else f"a{part.allocation}"
    return f"{start} + trip * {part.step}" if part.step else start


def elements(view: View, *, written: bool = False, element: str = "") -> str:
    """An expression for the first element of a view's slice, as a pointer to `const` elements unless they are written.

    Args:
        view: The view; its `start` must be 0.
        written: Whether the kernel writes there.
        element: The C++ type of the elements, if it is not that of the view.
    """
    return typed(pointer(view.slice), element or cpp_type(view), written=written)


def first_element(view: View, *, written: bool = False, element: str = "") -> str:
    """An expression for the first element of a view; the arguments are those of `elements`."""
    return f"{elements(view, written=written, element=element)} + {view.start}"


def typed(address: str, element: str, *, written: bool = False) -> str:
    """An address of bytes as a pointer to elements."""
    return f"as<{'' if written else 'const '}{element}>({address})"


def cpp_type(view: View) -> str:
    """The C++ type that the hand-written kernels use for an element."""
    return view.element_type.kernel_type


def kernel_call(name: str, types: str, parts: int = 1) -> str:
    """The start of a call of a kernel that threads may share: up to its first own argument.

    Args:
        name: The function for the whole (`pooling`); that for parts is `pooling_in_parts`.
        types: Template arguments with their brackets (`<float>`), or nothing; what precedes them is the end of the name.
        parts: The most parts.
    """
    if parts == 1:
        return f"{name}{types}("
    return f"{name}_in_parts{types}({{threads, {parts}}}, "


def largest(sizes: Iterable[str], least: str = "0") -> str:
    """The largest of some constant expressions."""
    result = least
    for size in dict.fromkeys(sizes):
        result = f"larger({result}, {size})"
    return result


def struct_of(kind: str, members: str) -> tuple[str, str]:
    """The name of a structure, equal for equal members, and its definition."""
    name = f"{kind}_{hashlib.sha256(members.encode()).hexdigest()[:16]}"
    return name, f"struct {name} {{\n{members}}};\n"


def braces(values: Iterable[object]) -> str:
    """An initialiser: `{1, 2, 3}`."""
    return "{" + ", ".join(map(str, values)) + "}"


def spatial(values: Sequence[int], fill: int = 1) -> str:
    """An initialiser for three spatial axes; missing ones are `fill`."""
    return braces([*values, *[fill] * (3 - len(values))])


def cpp_bool(value: bool) -> str:
    """`true` or `false`."""
    return "true" if value else "false"


def double_or_infinity(value: float | None) -> str:
    """A number as a `double`; None is minus infinity."""
    return "-__builtin_inf()" if value is None else repr(value)


def float_or_infinity(value: float | None) -> str:
    """A number as a `float`; None is minus infinity."""
    return "-__builtin_inff()" if value is None else f"{value!r}F"
