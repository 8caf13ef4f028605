"""Derives the signature for any number of rows, and for any length, from those that were frozen."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UnsupportedModelError
from ..model.frozen_signature import FrozenSignature, FrozenTensor
from ..model.inspection import ValidValues
from ..model.reference_result import Reference
from ..request import Extent
from ..signature import Signature, Tensor, ValidRange
from ..spec.interface import InputSection
from ..spec.labels import why_wrong_labels
from ..util.words import count


def describe_signature(
    frozen: Mapping[Extent, FrozenSignature],
    reference: Reference,
    sections: Mapping[str, InputSection],
    labels: Mapping[str, tuple[str, ...]] | None = None,
) -> Signature:
    """The signature that all frozen ones are cases of; `sections` are the spec's inputs, `labels` those of outputs.

    Raises:
        UnsupportedModelError: A shape follows the batch in a way that cannot be described, or an output cannot have
            its labels.
    """
    lengths = tuple(sorted({extent.length for extent in frozen if extent.length is not None}))
    largest = max(lengths, default=None)
    first = next(signature for extent, signature in frozen.items() if extent.length == largest)
    signature = Signature(
        inputs=tuple(
            _with_valid(
                _input(t, first, reference, sections.get(t.name), bool(lengths)),
                reference.valid.get(t.name),
            )
            for t in _all_inputs(first)
        ),
        outputs=tuple(
            _with_labels(_output(t, reference), (labels or {}).get(t.name, ()))
            for t in first.outputs
        ),
        state=tuple(_tensor(t, 0, 0, ()) for t in first.state),
        lengths=lengths,
        ordered_by=first.ordered_by,
    )
    # An extent may equal a batch size by chance; the other sizes show it.
    for extent, other in frozen.items():
        _require_shapes(signature, other, extent)
    return signature


def _all_inputs(frozen: FrozenSignature) -> list[FrozenTensor]:
    tensors = {tensor.name: tensor for tensor in frozen.inputs + frozen.ignored_inputs}
    return [tensors[name] for name in frozen.order]


def _input(
    tensor: FrozenTensor,
    frozen: FrozenSignature,
    reference: Reference,
    section: InputSection | None,
    has_lengths: bool,
) -> Tensor:
    leading_per_row = int(tensor.name in frozen.batched_inputs)
    batch = reference.input_axes.get(tensor.name, 0)
    axes = section.buckets if section is not None else {}
    extents = tuple(
        (0, 1)
        if axis in axes
        else (leading_per_row if leading_per_row and axis == batch else extent, 0)
        for axis, extent in enumerate(tensor.shape)
    )
    described = _tensor(tensor, batch, leading_per_row, extents if has_lengths else ())
    pad = next((axis.pad for axis in axes.values()), None)
    return described.model_copy(update={"pad": pad, "ignored": tensor in frozen.ignored_inputs})


def _with_valid(tensor: Tensor, values: ValidValues | None) -> Tensor:
    # Callers pass the bits of bfloat16, which have no such bounds.
    if values is None or tensor.dtype == "bfloat16":
        return tensor
    whole = (
        [] if values.bounds is None else [ValidRange(low=values.bounds[0], high=values.bounds[1])]
    )
    columns = [
        ValidRange(low=column.low, high=column.high, columns=(column.first, column.end))
        for column in values.columns
    ]
    special = tuple(mask.value for mask in values.masks)
    return tensor.model_copy(update={"valid": (*whole, *columns), "special": special})


def _with_labels(tensor: Tensor, labels: tuple[str, ...]) -> Tensor:
    wrong = why_wrong_labels(tensor.dtype, tensor.shape, len(labels)) if labels else ""
    if labels and tensor.dtype.startswith("float") and tensor.shape[-1:] == (None,):
        wrong = "its last axis is the batch"
    if wrong:
        raise UnsupportedModelError(
            f"labels.{tensor.name} has {count(len(labels), 'label')}, but {wrong}; correct the list",
            code="MW418",
        )
    return tensor.model_copy(update={"labels": labels})


def _output(tensor: FrozenTensor, reference: Reference) -> Tensor:
    batch = reference.output_axes.get(tensor.name, 0)
    extents = reference.extents.get(tensor.name, ())
    own = (*extents[1 : batch + 1], *extents[:1], *extents[batch + 1 :])  # the batch came first
    return _tensor(tensor, batch, reference.leading_per_row[tensor.name], own)


def _tensor(
    tensor: FrozenTensor,
    batch: int,
    leading_per_row: int,
    extents: tuple[tuple[int, int], ...],
) -> Tensor:
    shape: tuple[int | None, ...] = tensor.shape
    return Tensor(
        name=tensor.name,
        c_name=tensor.c_name,
        dtype=tensor.dtype,
        shape=(*shape[:batch], None, *shape[batch + 1 :]) if leading_per_row else shape,
        leading_per_row=leading_per_row,
        extents=extents,
        real=tensor.real,
    )


def _require_shapes(signature: Signature, frozen: FrozenSignature, extent: Extent) -> None:
    """Checks that every tensor has the shape that the signature predicts for this extent."""
    for tensor, at_extent in zip(
        signature.inputs + signature.outputs + signature.state,
        (*_all_inputs(frozen), *frozen.outputs, *frozen.state),
        strict=True,
    ):
        expected = tensor.shape_at(extent.batch, extent.length)
        if expected != at_extent.shape:
            where = "" if extent.length is None else f" and length {extent.length}"
            raise UnsupportedModelError(
                f"{tensor.name!r} has shape {at_extent.shape} at batch size {extent.batch}{where}, "
                f"where {expected} follows from the other sizes; compile one batch size, or give the "
                "output one axis that is a multiple of the batch",
                code="MW418",
            )
