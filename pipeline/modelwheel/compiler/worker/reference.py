"""The job `reference`: what TensorFlow computes for random inputs, and whether rows are independent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ...errors import UnsupportedModelError
from ..inspection import batched_inputs, static_shapes
from ..reference import ARRAYS, SUMMARY, Reference
from .drawn_inputs import check_ranges, draw_inputs
from .rows import Arrays, Evaluate, Rows, find_difference, judge_rows
from .saved_model import LoadedSignature, load_signature


def run(params: Mapping[str, Any], inputs: Mapping[str, Path], out: Path) -> None:
    """Writes `reference.npz` and `reference.json`; see `modelwheel.compiler.reference`."""
    loaded = load_signature(inputs["saved_model"], params["signature"])
    check_ranges(loaded.info, params["ranges"])
    batched = batched_inputs(loaded.info, params["shapes"])
    if batched:
        given, outputs, summary = _batched(loaded, batched, params)
    else:
        given, outputs, summary = _fixed(loaded, params)
    arrays = {f"in/{name}": values for name, values in given.items()}
    for rows in summary.rows:
        arrays |= {f"out/{rows}/{name}": values for name, values in outputs[rows].items()}
    storable: dict[str, Any] = {name: _storable(values) for name, values in arrays.items()}
    np.savez(out / ARRAYS, **storable)
    summary.save(out / SUMMARY)


_Result = tuple[Arrays, Mapping[int, Arrays], Reference]


def _fixed(loaded: LoadedSignature, params: Mapping[str, Any]) -> _Result:
    shapes = static_shapes(loaded.info, params["shapes"], None)
    given = draw_inputs(loaded.info, shapes, params["seed"], params["ranges"])
    evaluate = _evaluator(loaded)
    outputs = evaluate(given)
    _require_repeatable(evaluate, given, outputs)
    summary = Reference(
        independent=False,
        reason="no input has a free batch axis",
        leading_per_row=dict.fromkeys(outputs, 0),
        batched_inputs=(),
        rows=(1,),
    )
    return given, {1: outputs}, summary


def _batched(
    loaded: LoadedSignature, batched: tuple[str, ...], params: Mapping[str, Any]
) -> _Result:
    sizes = params["batch_sizes"]
    shapes = static_shapes(loaded.info, params["shapes"], max(*params["rows"], *sizes, 2))
    rows, other = (
        Rows(draw_inputs(loaded.info, shapes, seed, params["ranges"]), frozenset(batched))
        for seed in (params["seed"], params["seed"] + 1)
    )
    evaluate = _evaluator(loaded)
    outputs: dict[int, Arrays] = {size: evaluate(rows.take(slice(size)).arrays) for size in sizes}
    _require_repeatable(evaluate, rows.take(slice(sizes[-1])).arrays, outputs[sizes[-1]])
    verdict = judge_rows(evaluate, rows, other, outputs, params["rows"])
    summary = Reference(
        independent=verdict.reason is None,
        reason=verdict.reason,
        leading_per_row=verdict.leading_per_row,
        batched_inputs=batched,
        rows=tuple(sizes if verdict.reason else sorted(outputs)),
    )
    return rows.arrays, outputs, summary


def _evaluator(loaded: LoadedSignature) -> Evaluate:
    def evaluate(arrays: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        try:
            results = loaded({name: tf.constant(values) for name, values in arrays.items()})
        except (tf.errors.OpError, ValueError) as error:
            line = re.sub(r"\{\{[^}]*\}\}", "", str(error)).strip().splitlines()[0]
            raise UnsupportedModelError(f"TensorFlow itself fails: {line}") from error
        return {name: results[name].numpy() for name in loaded.output_names}

    return evaluate


def _require_repeatable(evaluate: Evaluate, given: Arrays, before: Arrays) -> None:
    for name, values in evaluate(given).items():
        difference = find_difference(values, before[name], before[name])
        if difference:
            raise UnsupportedModelError(
                f"output {name!r} differs between two evaluations of the same inputs ({difference}): "
                "the model draws random numbers or keeps state, and cannot be verified; "
                "export it for inference (training=False)"
            )


def _storable(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """NumPy has no bfloat16: stored as float32, which holds every value exactly."""
    return values.astype(np.float32) if values.dtype.kind == "V" else values
