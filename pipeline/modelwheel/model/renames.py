"""New names and order of the inputs and outputs of a signature, as the spec's `names` and `interface_order` give them.

A name that the model gives to an input and to an output is replaced for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..spec.interface import InterfaceOrder
from ..util.words import natural_key, suggest
from .findings import Finding
from .inspection import OrderedBy, SignatureInfo, TensorInfo


def rename(signature: SignatureInfo, names: Mapping[str, str]) -> SignatureInfo:
    """The signature with new names, in the order of these unless the model has an order of its own."""
    return _arranged(signature, signature.ordered_by, names)


def arrange(signature: SignatureInfo, order: InterfaceOrder) -> SignatureInfo:
    """The signature of a model in the order that the spec asks for."""
    return _arranged(signature, "sorted", {}) if order == "sorted" else signature


def _arranged(
    signature: SignatureInfo, ordered_by: OrderedBy, names: Mapping[str, str]
) -> SignatureInfo:
    inputs, outputs = (
        in_order(
            (t.model_copy(update={"name": names.get(t.name, t.name)}) for t in some), ordered_by
        )
        for some in (signature.inputs, signature.outputs)
    )
    tables = tuple(
        table.model_copy(update={"input": names.get(table.input, table.input)})
        for table in signature.tables
    )
    update = {"inputs": inputs, "outputs": outputs, "ordered_by": ordered_by, "tables": tables}
    return signature.model_copy(update=update)


def in_order(tensors: Iterable[TensorInfo], ordered_by: OrderedBy) -> tuple[TensorInfo, ...]:
    """Inputs or outputs in this order; those that the model orders stay as they are."""
    if ordered_by == "natural":
        return tuple(sorted(tensors, key=lambda tensor: natural_key(tensor.name)))
    if ordered_by == "sorted":
        return tuple(sorted(tensors, key=lambda tensor: tensor.name))
    return tuple(tensors)


def find_name_problems(signature: SignatureInfo, names: Mapping[str, str]) -> Iterator[Finding]:
    """Names that the model does not have, and new ones that two tensors would share."""
    known = [tensor.name for tensor in (*signature.inputs, *signature.outputs)]
    for old in names:
        if old not in known:
            yield Finding(
                "error",
                "unknown-name",
                f"names has {old!r}, which is not an input or output of the signature",
                suggest(old, list(dict.fromkeys(known)), "its inputs and outputs are:"),
                ("names", old),
            )
    for role, tensors in (("input", signature.inputs), ("output", signature.outputs)):
        yield from _find_shared(role, tensors, names)


def _find_shared(
    role: str, tensors: Sequence[TensorInfo], names: Mapping[str, str]
) -> Iterator[Finding]:
    taken: dict[str, str] = {}
    # Those that keep their names come first: the finding is about one that has a place in the spec.
    for tensor in sorted(tensors, key=lambda tensor: tensor.name in names):
        new = names.get(tensor.name, tensor.name)
        if new in taken:
            yield Finding(
                "error",
                "shared-name",
                f"the {role}s {taken[new]!r} and {tensor.name!r} would both be called {new!r}",
                "choose another name",
                ("names", tensor.name),
            )
        taken[new] = tensor.name


def explain_unknown(name: str, known: Sequence[str], names: Mapping[str, str], label: str) -> str:
    """How to correct a name of a spec that is not one of the known ones."""
    if names.get(name) in known:
        return f"names calls it {names[name]!r}: use that name"
    return suggest(name, known, label)
