"""Calls of products and convolutions: first decided, then written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...program.arrays import ALIGNMENT, overlap
from ...program.ops import Epilogue
from ...program.steps import Step
from ...program.view import View
from ..cpp import INDENT, braces, cpp_bool, cpp_type, elements, kernel_call, pointer, typed
from ..panels import Weights, weights_of
from ..strides import ProductViews
from ..writer import StepWriter

_BEFORE = ("bias", "scale", "shift", "addend")
_AFTER = ("factors", "offsets")
"""The operands of epilogues before and after the activation, in the order of the kernels' `Epilogue`."""


@dataclass(frozen=True)
class ProductKernel:
    """The kernel of a product with its table."""

    family: str
    """The folder of its headers (`gemm`)."""
    name: str
    """`dot`: also the prefix of the functions that return its scratch memory."""
    types: str
    """Its element types (`float`), as template arguments."""
    suffix: str
    """The text behind the name of its function: `<float>`."""
    table: str
    shape: str = ""
    """The table of the first rows; empty if all are computed."""
    padding: int | None = None
    """The value of elements outside of images, if the kernel takes one."""
    weights: str = ""
    """The C++ type of the elements of rhs, if it is not that of its view."""
    most_scratch: str = ""
    """Bytes of scratch memory with any number of rows, if it depends on it."""

    @property
    def scratch(self) -> str:
        """Bytes of scratch memory."""
        return self.most_scratch or self.scratch_of(self.table)

    def scratch_of(self, table: str) -> str:
        """Bytes of scratch memory for a table."""
        return f"{self.name}_scratch<{self.types}>({table})"

    @property
    def kept_sums(self) -> str:
        """Bytes for sums that the kernel cannot keep in registers; 0 of most."""
        return f"{self.name}_sums<{self.types}>({self.table})"

    def part_scratch(self, parts: int) -> str:
        """Bytes of scratch memory of each part."""
        return f"{self.name}_part_scratch<{self.types}>({self.table}, {parts})"

    def call(self, parts: int, operands: list[str]) -> str:
        """The call with some operands."""
        start = kernel_call(self.name, self.suffix, parts)
        first = [self.shape or self.table, *([] if self.padding is None else [f"{self.padding}"])]
        return f"{start}{', '.join([*first, *operands])});"


@dataclass(frozen=True)
class ProductCall:
    """Decisions about the call of a product."""

    kernel: ProductKernel
    views: ProductViews
    parts: int
    """In how many parts threads may share it."""
    copied_bytes: int = 0
    """Of a copy of lhs in scratch memory, aligned: the result would be in its place. 0 if there is none."""
    keeps_sums: bool = False
    """Whether sums would replace what is added to them, so that a kernel that stores them needs other memory."""
    overlaps: bool = False
    """Whether the result is in the memory of an operand that the kernel reads."""

    @classmethod
    def of(cls, kernel: ProductKernel, step: Step, parts: int) -> ProductCall:
        """Decides how a step is called."""
        views = ProductViews.of(step)
        lhs, rhs, sums = (view.slice for view in views)
        out = step.outputs["out"].slice
        on_left, on_right = overlap(out, lhs), overlap(out, rhs)
        # XLA may put the result where lhs was. A copy of the smaller one saves a pass over the larger one.
        if on_left and not on_right and lhs.size < sums.size:
            copied = -(-lhs.size // ALIGNMENT) * ALIGNMENT
            return cls(kernel, views, parts, copied_bytes=copied)
        addend = step.inputs.get("addend")
        keeps = addend is not None and addend.slice == sums
        return cls(kernel, views, parts, keeps_sums=keeps, overlaps=on_left or on_right)


def packed(writer: StepWriter, step: Step) -> Weights | None:
    """The weights of a product, a convolution or a layer of strips, if they are in panels."""
    weights = weights_of(step)
    if not weights or weights.slice.allocation not in writer.panels:
        return None
    return weights._replace(halved=weights.slice.allocation in writer.halved)


def write_product(
    writer: StepWriter, step: Step, kernel: ProductKernel, epilogue: Epilogue | None, parts: int
) -> Iterator[str]:
    """The call of a product, with what follows it if there is an epilogue."""
    writer.headers.add(f"{kernel.family}/{kernel.name}.h")
    if parts > 1:
        writer.headers.add(f"{kernel.family}/parts.h")
        writer.scratch.parts.append(kernel.part_scratch(parts))
    if epilogue is None:
        views = ProductViews.of(step)
        rhs = elements(views.rhs, element=kernel.weights)
        operands = [elements(views.lhs), rhs, elements(views.sums, written=True)]
        yield kernel.call(parts, [*operands, writer.scratch.take(kernel.scratch)])
        return
    call = ProductCall.of(kernel, step, parts)
    yield "{"
    for line in _with_epilogue(writer, step, call, epilogue):
        yield f"{INDENT}{line}"
    yield "}"


def _with_epilogue(
    writer: StepWriter, step: Step, call: ProductCall, epilogue: Epilogue
) -> Iterator[str]:
    kernel, (lhs, rhs, sums) = call.kernel, call.views
    element = cpp_type(sums)
    result = step.outputs["out"]
    source, target = elements(lhs), pointer(sums.slice)
    if call.copied_bytes:
        bytes_needed = f"{call.copied_bytes} + {kernel.scratch}"
        yield f"char *const copy = {writer.scratch.take(bytes_needed)};"
        yield f"std::memcpy(copy, {pointer(lhs.slice)}, {lhs.slice.size});"
        source, scratch = typed("copy", cpp_type(lhs)), f"copy + {call.copied_bytes}"
    elif call.keeps_sums:
        # Most kernels finish sums without storing them before.
        kept = kernel.kept_sums
        yield f"char *const kept = {writer.scratch.take(f'{kept} + {kernel.scratch}')};"
        yield f"char *const sums = {kept} != 0 ? kept : {pointer(result.slice)};"
        target, scratch = "sums", f"kept + {kept}"
    else:
        scratch = writer.scratch.take(kernel.scratch)
    place = (target, pointer(result.slice))
    members = epilogue_members(step, epilogue, element, place, overlaps=call.overlaps)
    yield f"const Epilogue<{element}> epilogue = {members};"
    weights = elements(rhs, element=kernel.weights)
    operands = [source, weights, typed(target, element, written=True)]
    yield kernel.call(call.parts, [*operands, scratch, "&epilogue"])


def epilogue_members(
    step: Step, epilogue: Epilogue, element: str, place: tuple[str, str], *, overlaps: bool
) -> str:
    """The members of an `Epilogue` of the kernels.

    Args:
        step: The product, or a layer of strips.
        epilogue: Its epilogue.
        element: The C++ type of all elements.
        place: The addresses of the sums and the result.
        overlaps: Whether the result is in memory that the kernel still reads.
    """
    sums, result = place
    before, after = (
        [_operand(step.inputs.get(role), element) for role in roles] for roles in (_BEFORE, _AFTER)
    )
    limits = [epilogue.low, epilogue.high]
    return braces(
        [
            typed(sums, element),
            typed(result, element, written=True),
            cpp_bool(overlaps),
            *before,
            *(cpp_bool(limit is not None) for limit in limits),
            *(f"{0.0 if limit is None else limit!r}F" for limit in limits),
            f"Activation::k{(epilogue.activation or 'none').title().replace('_', '')}",
            *_after_activation(epilogue, after if step.inputs.keys() & {*_AFTER} else []),
        ]
    )


def _after_activation(epilogue: Epilogue, operands: list[str]) -> list[str]:
    """The last members, up to the last that changes something."""
    numbers = [(epilogue.slope, 1.0), (epilogue.factor, 1.0), (epilogue.offset, -0.0)]
    slope, *others = [f"{(neutral if n is None else n)!r}F" for n, neutral in numbers]
    if operands or epilogue.factor is not None or epilogue.offset is not None:
        return [slope, "true", *others, *operands]
    return [] if epilogue.slope is None else [slope]


def _operand(view: View | None, element: str) -> str:
    return "nullptr" if view is None else elements(view, element=element)
