"""Evaluates a model that keeps state: several calls in a row, from the state of before the first call."""

from __future__ import annotations

from pathlib import Path

from ...errors import UnsupportedModelError
from ...model.effects import KEEP_STATE
from ...model.reference_result import (
    STATEFUL_CALLS,
    Reference,
    case_of,
    input_key,
    output_key,
    state_key,
)
from ...model.shapes import static_shapes
from ...workers.jobs import ReferenceRequest
from ..loaded.base import Arrays, LoadedModel, StatefulModel
from ..loaded.rows_first import innermost, moved_inputs
from .drawn_inputs import described_inputs, draw_inputs
from .rows import Evaluate, Rows
from .samples import read_calls

_REASON = "it keeps state between calls"


def evaluate_calls(
    loaded: LoadedModel,
    evaluate: Evaluate,
    batched: tuple[str, ...],
    request: ReferenceRequest,
    samples: Path | None,
) -> tuple[Arrays, Reference]:
    """The arrays of the reference, and its summary.

    Args:
        loaded: The signature.
        evaluate: One call of it.
        batched: Names of the inputs whose axis 0 is the batch.
        request: Seeds, ranges, shapes and batch sizes.
        samples: The file with the inputs of every call; without it they are random.

    Raises:
        UnsupportedModelError: Models of this format have no state.
    """
    model = innermost(loaded)
    if not isinstance(model, StatefulModel):
        raise UnsupportedModelError(
            f"models of the format {request.reading.format} keep no state; remove `{KEEP_STATE}`"
        )
    if request.lengths:
        raise UnsupportedModelError(
            "a model that keeps state has one length: its state is of fixed shape; fix the axis with a "
            "number in place of buckets"
        )
    signature, restore = loaded.info, model.snapshot()
    sizes = request.batch_sizes or (1,)
    shapes = static_shapes(signature, request.shapes, sizes[-1] if batched else None)
    if samples is not None:
        calls = read_calls(samples, signature, shapes, batched, moved_inputs(loaded))
    else:
        calls = [
            draw_inputs(signature, shapes, request.seed + call, request)
            for call in range(STATEFUL_CALLS)
        ]
    state = loaded.graph(shapes).state
    arrays = {input_key(name, i): v for i, call in enumerate(calls) for name, v in call.items()}
    outputs: Arrays = {}
    for size in sizes:
        restore()
        for number, call in enumerate(calls):
            rows = Rows(call, frozenset(batched)).take(slice(size))
            outputs = evaluate(rows.arrays)
            arrays |= {output_key(case_of(size, number), name): v for name, v in outputs.items()}
        arrays |= {state_key(variable.name, size): variable.read() for variable in state}
    restore()
    summary = Reference(
        independent=False,
        reason=_REASON,
        leading_per_row={
            tensor.name: _leading(tensor.shape, outputs[tensor.name].shape, sizes[-1])
            if batched
            else 0
            for tensor in signature.outputs
        },
        batched_inputs=batched,
        rows=sizes,
        calls=len(calls),
        **described_inputs(request),
    )
    return arrays, summary


def _leading(declared: tuple[int | None, ...] | None, shape: tuple[int, ...], rows: int) -> int:
    """The extent of axis 0 for each row; 0 if the output does not grow with the batch.

    Rows of a model with state cannot be evaluated one by one to see it, so its declaration counts.
    """
    if not shape or (declared is not None and (not declared or declared[0] is not None)):
        return 0
    return shape[0] // rows
