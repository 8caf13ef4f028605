"""The inputs and outputs of a model in a spec: lengths of axes, and names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    PlainValidator,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    WithJsonSchema,
    field_validator,
)

from ..util.words import shorten
from .fields import GivenName, Mistake, Section, mistake, mistakes, unique
from .names import to_tensor_identifier

AXIS_TAGS = ("<length>", "<buckets>", "<batch>")
"""How validation errors mark the kinds of axes; never a key of a spec."""

BATCH = "batch"
"""The word for the batch axis, wherever it is; null stands for it on axis 0 too."""

_Length = Annotated[StrictInt, Field(ge=1, le=2**31 - 1)]


class Buckets(Section):
    """The lengths for which an axis is compiled; other lengths are padded to the next one."""

    buckets: Annotated[
        tuple[_Length, ...], Field(min_length=1, max_length=64), AfterValidator(unique)
    ] = Field(
        description="Lengths to compile, ascending. A shorter input is padded to the next one.",
        examples=[[16, 32, 64]],
        json_schema_extra={"uniqueItems": True},
    )
    pad: StrictFloat = Field(
        description="The value that the rest is filled with, which the model must ignore.",
        examples=[0],
    )

    @field_validator("buckets")
    @classmethod
    def _check_order(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        if any(a >= b for a, b in pairwise(lengths)):
            raise mistake("the lengths must ascend", f"Write {sorted(lengths)}")
        return lengths


def _kind_of(axis: Any) -> str:
    if isinstance(axis, str):
        return AXIS_TAGS[2]
    return AXIS_TAGS[isinstance(axis, (Mapping, Buckets))]


def _check_word(axis: Any) -> Literal["batch"]:
    if axis == BATCH:
        return "batch"
    wrong = f"'{shorten(str(axis))}' is not a length"
    raise mistake(wrong, f"Write a number, buckets, or the word {BATCH} for the axis of the rows")


Axis: TypeAlias = Annotated[
    Annotated[_Length | None, Tag(AXIS_TAGS[0])]
    | Annotated[Buckets, Tag(AXIS_TAGS[1])]
    | Annotated[
        Literal["batch"],
        PlainValidator(_check_word),
        WithJsonSchema({"const": BATCH}),
        Tag(AXIS_TAGS[2]),
    ],
    Discriminator(_kind_of),
]

_Shape: TypeAlias = tuple[int | Buckets | Literal["batch"] | None, ...]


def _check_shape(shape: _Shape) -> _Shape:
    if shape_mistakes := [*_find_free(shape), *_find_second_batch(shape), *_find_other_pads(shape)]:
        raise mistakes(shape_mistakes)
    return shape


def _find_free(shape: _Shape) -> Iterator[Mistake]:
    for axis, length in enumerate(shape):
        if axis > 0 and length is None:
            wrong = "only the first axis may be null"
            hint = f"Give the length of this axis, or buckets; if it is the batch, write {BATCH}"
            yield Mistake(wrong, hint, (axis,))


def _find_second_batch(shape: _Shape) -> Iterator[Mistake]:
    batch = [
        axis for axis, length in enumerate(shape) if length == BATCH or (length, axis) == (None, 0)
    ]
    for axis in batch[1:]:
        yield Mistake(
            f"axis {batch[0]} is the batch already", "Give the length of one of them", (axis,)
        )


def _find_other_pads(shape: _Shape) -> Iterator[Mistake]:
    bucketed = [(n, axis) for n, axis in enumerate(shape) if isinstance(axis, Buckets)]
    for number, axis in bucketed[1:]:
        if axis.pad != bucketed[0][1].pad:
            wrong = (
                f"an input is padded with one value, but another axis has {bucketed[0][1].pad:g}"
            )
            yield Mistake(wrong, "Use the same value", (number, "pad"))


class InputSection(Section):
    """Facts about an input that the model's signature leaves open."""

    shape: Annotated[tuple[Axis, ...], Field(max_length=8), AfterValidator(_check_shape)] = Field(
        description="Length of every axis: a number, buckets, or `batch` for the axis of the rows (null if it is the first).",
        examples=[[None, 128], [100, "batch", 64]],
    )

    @property
    def buckets(self) -> Mapping[int, Buckets]:
        """The axes that have several lengths, by number."""
        return {n: axis for n, axis in enumerate(self.shape) if isinstance(axis, Buckets)}

    def shape_at(self, length: int | None) -> tuple[int | None, ...]:
        """The shape with this length on every axis that has several, and None for the batch."""
        axes = [length if isinstance(axis, Buckets) else axis for axis in self.shape]
        return tuple(None if isinstance(axis, str) else axis for axis in axes)


def check_one_length(inputs: Mapping[str, InputSection]) -> Mapping[str, InputSection]:
    """Refuses inputs whose buckets differ: in one call, all these axes have the same length."""
    axes = [
        ((name, "shape", number, "buckets"), axis.buckets)
        for name, section in inputs.items()
        for number, axis in section.buckets.items()
    ]
    different = [at for at, lengths in axes if lengths != axes[0][1]]
    if different:
        wrong = (
            f"all axes with buckets have one length in a call, but another has {list(axes[0][1])}"
        )
        raise mistakes(
            Mistake(wrong, "Use the same list, or a fixed length", at) for at in different
        )
    return inputs


def _check_interface_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or len(name) > 64:
        wrong = (
            f"'{name}' may contain only letters, digits and '_', and must not start with a digit"
        )
        raise mistake(wrong if len(name) <= 64 else "a name may be at most 64 characters long")
    if to_tensor_identifier(name) != name:
        hint = f"Try '{to_tensor_identifier(name)}'"
        raise mistake(f"'{name}' is reserved in C, C++ or Python", hint, code="MW118")
    return name


InterfaceName: TypeAlias = Annotated[
    StrictStr, Field(min_length=1), AfterValidator(_check_interface_name)
]
"""A name of an input or output, as users of the wheel write it."""

Names: TypeAlias = Mapping[GivenName, InterfaceName]
"""New names of inputs and outputs by those in the model."""


InterfaceOrder: TypeAlias = Literal["model", "sorted"]
"""The order of inputs and outputs: the model's own, or that of their names."""


def _check_pruning(value: Any) -> bool | Literal["keep"]:
    if isinstance(value, bool):
        return value
    if value == "keep":
        return "keep"
    meant = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(str(value).lower(), "")
    shown = f"the text '{value}'" if isinstance(value, str) else str(value)
    wrong = f"must be true, false or keep, got {shorten(shown)}"
    raise mistake(wrong, f"Write {meant}" if meant else "")


PrunedInputs: TypeAlias = Annotated[
    bool | Literal["keep"],
    PlainValidator(_check_pruning),
    WithJsonSchema({"enum": [False, True, "keep"]}),
]
"""What becomes of inputs that no output depends on: refused, left out, or kept and ignored."""
