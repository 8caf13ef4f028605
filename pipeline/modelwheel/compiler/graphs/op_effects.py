"""The effect of an operation, by the installed TensorFlow's registry and the reviewed table."""

from __future__ import annotations

from functools import cache

from tensorflow.python.framework import op_def_registry

from ...model.effects import Effect, reviewed_effect


@cache
def effect_of(op: str) -> Effect:
    """The effect of an operation beside its results; see `modelwheel.model.effects`."""
    definition = op_def_registry.get(op)
    if definition is None:
        return "custom"
    reviewed = reviewed_effect(op)
    if reviewed is not None:
        return reviewed
    has_reference = any(arg.is_ref for arg in (*definition.input_arg, *definition.output_arg))
    return "unreviewed" if definition.is_stateful or has_reference else ""


@cache
def may_be_folded(op: str) -> bool:
    """Whether TensorFlow may evaluate the operation while it only builds a graph.

    Shape inference evaluates constant arguments (core/common_runtime/eval_const_tensor.cc), in every
    function of a model as soon as it is loaded; it leaves out stateful operations.
    """
    definition = op_def_registry.get(op)
    return definition is not None and not definition.is_stateful
