"""Items of graphs as lists of tensors, as loops and branches pass them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...stablehlo import Value
from .node import Item, TensorList


def tensors(items: Sequence[Item]) -> Iterator[Value]:
    """The tensors of items, those of sequences one by one."""
    for item in items:
        if isinstance(item, TensorList):
            yield from item.values
        elif isinstance(item, Value):
            yield item


def rebuild(form: Sequence[Item], tensors: Sequence[Value]) -> list[Item]:
    """Items of the same form, made of other tensors."""
    rest = iter(tensors)
    made: list[Item] = []
    for item in form:
        if isinstance(item, TensorList):
            made.append(TensorList(tuple(next(rest) for _ in item.values), item.dtype))
        else:
            made.append(next(rest) if isinstance(item, Value) else item)
    return made


def same_form(one: Sequence[Item], two: Sequence[Item]) -> bool:
    """Whether items have the same types, shapes and lengths."""
    return [describe_item(item) for item in one] == [describe_item(item) for item in two]


def describe_item(item: Item) -> str:
    if isinstance(item, Value):
        return f"{item.dtype}{list(item.shape)}"
    if isinstance(item, TensorList):
        return f"a sequence of {len(item.values)} ({', '.join(map(describe_item, item.values))})"
    return "nothing"
