"""Holds calls of marked functions against the interface of the fusion that replaces them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from ...errors import UnsupportedModelError
from ...util.text import one_line
from ...util.words import count
from .registry import Argument, AttributeValue, Fusion

_Shape: TypeAlias = tuple[int | None, ...]
_LEADING = "..."


class Place(NamedTuple):
    """The place in the model that a fusion replaces."""

    name: str
    """A marked function, a composite, or the layer that a pattern is in."""
    kind: Literal["function", "composite", "layer"] = "function"


class Tensor(NamedTuple):
    """The known facts about an argument or a result."""

    dtype: str
    shape: _Shape | None
    """None if even the rank is unknown."""

    def __str__(self) -> str:
        return f"{self.dtype} {_show(self.shape)}"


def check_arguments(fusion: Fusion, tensors: Sequence[Tensor], place: Place) -> None:
    """Refuses a call whose arguments are not those of the interface.

    Args:
        fusion: What replaces the call.
        tensors: The arguments.
        place: Where it is.

    Raises:
        UnsupportedModelError: Their number, a type or a shape is another.
    """
    needed = [argument for argument in fusion.arguments if not argument.optional]
    if not len(needed) <= len(tensors) <= len(fusion.arguments):
        names = ", ".join(argument.name for argument in fusion.arguments)
        raise mismatch(fusion, place, f"takes {names}; here are {count(len(tensors), 'argument')}")
    axes: dict[str, int] = {}
    for argument, tensor in zip(fusion.arguments, tensors, strict=False):
        if tensor.dtype not in argument.dtypes:
            wanted = " or ".join(argument.dtypes)
            raise mismatch(
                fusion, place, f"takes {wanted} for {argument.name}; here it is {tensor.dtype}"
            )
        for problem in _find_shape_problems(argument, tensor.shape, axes):
            raise mismatch(fusion, place, problem)


def _find_shape_problems(
    argument: Argument, shape: _Shape | None, axes: dict[str, int]
) -> Iterator[str]:
    """The problems of the shape of an argument; adds the extents of named axes to `axes`."""
    if argument.shape is None or shape is None:
        return
    names = argument.shape
    leading = len(shape) - len(names) + 1 if _LEADING in names else 0
    wanted = f"takes {_show(names)} for {argument.name}; here it is {_show(shape)}"
    if leading < 0 or (not leading and _LEADING not in names and len(shape) != len(names)):
        yield wanted
        return
    # Counted from the end of the leading axes, which may be more for one argument than for another.
    numbered = [f"{_LEADING}{leading - axis}" for axis in range(leading)]
    named = [*numbered, *(name for name in names if name != _LEADING)]
    for name, extent in zip(named, shape, strict=True):
        if extent is None:
            continue
        expected = name if isinstance(name, int) else axes.setdefault(name, extent)
        if extent != expected:
            which = "the leading axes" if str(name).startswith(_LEADING) else repr(name)
            known = f", where {which} must be {expected}" if isinstance(name, str) else ""
            yield f"{wanted}{known}"


def read_attributes(
    fusion: Fusion, attributes: Mapping[str, AttributeValue | None], place: Place
) -> dict[str, AttributeValue]:
    """The attributes of a mark, with defaults for those that it leaves out.

    Args:
        fusion: What replaces the call.
        attributes: By name; None for a value of another kind than attributes can have.
        place: Where it is.

    Raises:
        UnsupportedModelError: One is unknown, missing, or of another type.
    """
    known = fusion.attributes
    for name in sorted(set(attributes) - set(known)):
        has = ", ".join(sorted(known)) or "none"
        raise mismatch(fusion, place, f"has the attributes: {has}; here is {one_line(name)!r}")
    values: dict[str, AttributeValue] = {}
    for name, attribute in known.items():
        kind, value = attribute.kind, attributes.get(name, attribute.default)
        if name not in attributes and value is None:
            raise mismatch(fusion, place, f"needs the attribute {name}, which is missing here")
        # A bool is an int, but not what is meant.
        if value is None or type(value) is not kind:
            raise mismatch(
                fusion, place, f"takes an attribute {name} of type {kind.__name__}, not another"
            )
        values[name] = value
    return values


def check_results(
    fusion: Fusion, wanted: Sequence[Tensor], results: Sequence[Tensor], place: Place
) -> None:
    """Refuses a replacement whose results are not those of the function that it replaces.

    Args:
        fusion: The replacement.
        wanted: The results of the function.
        results: Its own results.
        place: Where it is.

    Raises:
        UnsupportedModelError: Their number, a type or a shape is another.
    """
    if len(wanted) != len(results):
        raise mismatch(
            fusion,
            place,
            f"has {count(len(results), 'result')}; the {place.kind} has {len(wanted)}",
        )
    for number, (expected, result) in enumerate(zip(wanted, results, strict=True)):
        if expected.dtype != result.dtype or not _agree(expected.shape, result.shape):
            raise mismatch(
                fusion, place, f"has {result} as result {number}; the {place.kind} has {expected}"
            )


def _agree(left: _Shape | None, right: _Shape | None) -> bool:
    if left is None or right is None:
        return True
    known = zip(left, right, strict=False)
    return len(left) == len(right) and all(a is None or b is None or a == b for a, b in known)


def _show(shape: Sequence[int | str | None] | None) -> str:
    if shape is None:
        return "of any shape"
    return f"[{', '.join('?' if n is None else str(n) for n in shape)}]"


def mismatch(fusion: Fusion, place: Place, what: str) -> UnsupportedModelError:
    """The error about a call or a pattern that does not have the interface of its fusion; `what` is a clause."""
    where = f"the {place.kind} {one_line(place.name)!r}"
    if place.kind == "layer":
        verb, fix = "contains", "leave it out of compilation.fusions"
    elif place.kind == "composite":
        verb = "stands for the fusion"
        fix = "correct the model or that package, or leave the name out of compilation.fusions"
    else:
        verb = "is marked with"
        fix = "correct the function or its mark, or leave the name out of compilation.fusions"
    return UnsupportedModelError(
        f"{where} {verb} {fusion.name!r}, which {what}; {fix}", code="MW414"
    )
