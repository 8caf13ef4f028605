"""New names for the inputs and outputs of a signature, as the spec's `names` gives them.

A name that the model gives to an input and to an output is replaced for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..util.words import suggest
from .findings import Finding
from .inspection import SignatureInfo, TensorInfo


def rename(signature: SignatureInfo, names: Mapping[str, str]) -> SignatureInfo:
    """The signature with new names, sorted by them unless it has an order of its own."""
    return signature.model_copy(
        update={
            "inputs": _rename(signature.inputs, names, ordered=signature.ordered),
            "outputs": _rename(signature.outputs, names, ordered=signature.ordered),
        }
    )


def _rename(
    tensors: Sequence[TensorInfo], names: Mapping[str, str], *, ordered: bool
) -> tuple[TensorInfo, ...]:
    renamed = [t.model_copy(update={"name": names.get(t.name, t.name)}) for t in tensors]
    return tuple(renamed if ordered else sorted(renamed, key=lambda tensor: tensor.name))


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
