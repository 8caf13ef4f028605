"""Which operations XLA can compile for CPUs, according to the installed TensorFlow."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

from ...model.inspection import Support
from ...model.supported_operations import SupportedOp
from .random_numbers import REPLACED

_XLA_CPU = "XLA_CPU_JIT"

# What freezing replaces (see `frozen.py`), and the control flow of TensorFlow 1, which tfcompile
# converts to functional control flow before it looks for kernels.
_FROZEN = frozenset(
    {
        *("VarHandleOp", "ReadVariableOp", "Variable", "VariableV2"),
        *("ResourceGather", "ResourceGatherNd", "Placeholder"),
        *("PartitionedCall", "StatefulPartitionedCall"),
        *("Enter", "Exit", "Merge", "NextIteration", "Switch", "LoopCond"),
    }
)


def support_of(node: Any) -> tuple[Support, str]:
    """Whether XLA supports a node, and which of its types it does not accept, as `T=string`."""
    attributes = node.attr
    types = []
    for name, default in _type_attributes(node.op):
        # SavedModels omit attributes with their default value..
        value = attributes.get(name, default)
        types.append(tuple(value.list.type) if value.HasField("list") else (value.type,))
    return _support(node.op, tuple(types))


@cache
def _type_attributes(op: str) -> tuple[tuple[str, Any], ...]:
    """The attributes of an operation that are types, with their default values."""
    definition = op_def_registry.get(op)
    if definition is None or op in _FROZEN or op not in _xla_kernels():
        return ()
    kinds = ("type", "list(type)")
    return tuple((a.name, a.default_value) for a in definition.attr if a.type in kinds)


@cache
def _support(op: str, values: tuple[tuple[int, ...], ...]) -> tuple[Support, str]:
    if op_def_registry.get(op) is None:
        return "unregistered", ""
    if op in _FROZEN:
        return "frozen", ""
    if REPLACED.fullmatch(op):
        return "compiled", ""
    constraints = _xla_kernels().get(op)
    if constraints is None:
        return "unsupported", ""
    types = dict(zip((name for name, _ in _type_attributes(op)), values, strict=True))
    faults = [_faults(types, allowed) for allowed in constraints]
    if not all(faults):
        return "compiled", ""
    # The kernel that fits best shows what would have to change.
    fault = min(faults, key=len)
    return "unsupported", ", ".join(f"{name}={type_name(value)}" for name, value in fault)


def type_name(value: int) -> str:
    """TensorFlow's name of an element type, by its number: `float32`."""
    try:
        name: str = tf.dtypes.as_dtype(value).name
    except TypeError:  # not set, or of a later version
        return "unknown"
    return name


def supported_ops() -> tuple[SupportedOp, ...]:
    """Every operation that can be compiled, sorted by name."""
    ops = [
        SupportedOp(op=op, types=_accepted_types(constraints))
        for op, constraints in _xla_kernels().items()
        if op not in _FROZEN and op_def_registry.get(op) is not None
    ]
    ops += [SupportedOp(op=op, removed=True) for op in _FROZEN]
    return tuple(sorted(ops, key=lambda op: op.op))


def _accepted_types(kernels: list[dict[str, frozenset[int]]]) -> dict[str, tuple[str, ...]]:
    """By type attribute, what any kernel accepts; without those that a kernel leaves open."""
    names = set(kernels[0]).intersection(*kernels)
    return {
        name: tuple(sorted({type_name(value) for kernel in kernels for value in kernel[name]}))
        for name in sorted(names)
    }


def _faults(
    types: dict[str, tuple[int, ...]], allowed: dict[str, frozenset[int]]
) -> list[tuple[str, int]]:
    return [
        (name, value)
        for name, accepted in allowed.items()
        for value in types.get(name, ())
        if value not in accepted
    ]


@cache
def _xla_kernels() -> dict[str, list[dict[str, frozenset[int]]]]:
    """The type constraints of every kernel, by operation."""
    # TensorFlow registers XLA's kernels when it is used for the first time.
    tf.function(lambda x: x + 1, autograph=False, jit_compile=True)(tf.zeros([]))
    by_op: dict[str, list[dict[str, frozenset[int]]]] = defaultdict(list)
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type == _XLA_CPU:
            by_op[kernel.op].append(
                {c.name: frozenset(c.allowed_values.list.type) for c in kernel.constraint}
            )
    return dict(by_op)
