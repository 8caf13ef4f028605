"""Which operations XLA can compile for CPUs, according to the installed TensorFlow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

from ..inspection import Support

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
    definition = op_def_registry.get(node.op)
    if definition is None:
        return "unregistered", ""
    if node.op in _FROZEN:
        return "frozen", ""
    constraints = _xla_kernels().get(node.op)
    if constraints is None:
        return "unsupported", ""
    types = dict(_types(node, definition))
    faults = [_faults(types, allowed) for allowed in constraints]
    if not all(faults):
        return "compiled", ""
    # The kernel that fits best shows what would have to change.
    fault = min(faults, key=len)
    return "unsupported", ", ".join(
        f"{name}={tf.dtypes.as_dtype(value).name}" for name, value in fault
    )


def _types(node: Any, definition: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The node's attributes that are types; SavedModels omit those with their default value."""
    for attribute in definition.attr:
        if attribute.type not in ("type", "list(type)"):
            continue
        value = node.attr.get(attribute.name, attribute.default_value)
        yield attribute.name, tuple(value.list.type) if value.HasField("list") else (value.type,)


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
    tf.function(lambda x: x + 1, jit_compile=True)(tf.zeros([]))
    found: dict[str, list[dict[str, frozenset[int]]]] = defaultdict(list)
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type == _XLA_CPU:
            found[kernel.op].append(
                {c.name: frozenset(c.allowed_values.list.type) for c in kernel.constraint}
            )
    return dict(found)
