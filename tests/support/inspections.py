"""Inspections of models, made by hand, and what the check says about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modelwheel.model.check import Expected, check_signature
from modelwheel.model.effects import reviewed_effect
from modelwheel.model.findings import Finding
from modelwheel.model.inspection import Inspection
from modelwheel.model.shapes import Shapes

FREE: dict[str, Any] = {"name": "x", "dtype": "float32", "shape": [None, 4]}


def tensor(**changes: Any) -> dict[str, Any]:
    return {**FREE, **changes}


def use_of(op: str, support: str = "compiled", **changes: Any) -> dict[str, Any]:
    """An operation that `serving_default` uses twice in the layer `block/dense`."""
    use = {"count": 2, "layers": ["block/dense"]}
    return {
        "op": op,
        "support": support,
        "effect": "custom" if support == "unregistered" else reviewed_effect(op) or "",
        "count": 2,
        "functions": ["call"],
        "layers": ["block/dense"],
        "signatures": {"serving_default": use},
        **changes,
    }


def inspect_model(
    inputs: Sequence[dict[str, Any]] = (FREE,),
    outputs: Sequence[dict[str, Any]] = (FREE,),
    ops: Sequence[dict[str, Any]] = (),
    **changes: Any,
) -> Inspection:
    signature = {"key": "serving_default", "inputs": inputs, "outputs": outputs}
    return Inspection.model_validate(
        {
            "written_by": "2.21.0",
            "tags": ["serve"],
            "signatures": [signature],
            "ops": [use_of("MatMul"), *ops],
            "assets": [],
            **changes,
        }
    )


def errors_of(found: Inspection, shapes: Shapes | None = None) -> list[Finding]:
    return [
        f for f in check_signature(found, Expected(shapes=shapes or {})) if f.severity == "error"
    ]


def only_error(found: Inspection, shapes: Shapes | None = None) -> Finding:
    (error,) = errors_of(found, shapes)
    return error
