"""Turns the branches of a Case, where they became nodes of TensorFlow 1, into nested ones with two sides.

Lowering a Case (core/common_runtime/lower_case_op.cc) makes a `_SwitchN` of each input and a Merge with an
input for each branch. tfcompile knows neither (tf2xla/functionalize_cond.cc); it knows what nested
`tf.cond` of TensorFlow 1 makes: for three branches, If(index == 0, first, If(index == 1, second, third)).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensorflow.core.framework import types_pb2

from ..graphs.graphs import is_control, node_name

_SWITCH_N = "_SwitchN"


def split_switches(graph_def: Any) -> None:
    """Replaces each `_SwitchN`, and each Merge of more than two inputs, in place."""
    switches = [node for node in graph_def.node if node.op == _SWITCH_N]
    if not switches:
        return
    conditions: dict[str, list[str]] = {}
    renamed: dict[str, str] = {}
    for switch in switches:
        data, index = (tensor for tensor in switch.input if not is_control(tensor))
        count = switch.attr["num_outs"].i
        if index not in conditions:
            conditions[index] = list(_compare(graph_def, switch.name, index, count - 1))
        ends = list(_split(graph_def, switch, data, conditions[index]))
        renamed |= {f"{switch.name}:{branch}": end for branch, end in enumerate(ends)}
        renamed |= {switch.name: ends[0], f"^{switch.name}": f"^{node_name(ends[0])}"}
    for node in graph_def.node:
        node.input[:] = [renamed.get(tensor, tensor) for tensor in node.input]
    for switch in switches:
        graph_def.node.remove(switch)
    for node in [node for node in graph_def.node if node.op == "Merge"]:
        _pair(graph_def, node)


def _compare(graph_def: Any, name: str, index: str, count: int) -> Iterator[str]:
    """For each branch but the last, whether it is taken; known where no earlier branch is."""
    before: list[str] = []
    for branch in range(count):
        number = _add(graph_def, "Const", f"{name}/branch_{branch}", (f"^{node_name(index)}",))
        number.attr["dtype"].type = types_pb2.DT_INT32
        number.attr["value"].tensor.dtype = types_pb2.DT_INT32
        number.attr["value"].tensor.tensor_shape.SetInParent()
        number.attr["value"].tensor.int_val.append(branch)
        equal = _add(graph_def, "Equal", f"{name}/is_{branch}", (index, number.name))
        equal.attr["T"].type = types_pb2.DT_INT32
        tensor = equal.name
        for earlier, condition in enumerate(before):
            tensor = _switch(
                graph_def, f"{equal.name}/{earlier}", (tensor, condition), types_pb2.DT_BOOL
            )
        yield tensor
        before.append(tensor)


def _split(graph_def: Any, switch: Any, data: str, conditions: list[str]) -> Iterator[str]:
    """The data in each branch."""
    for branch, condition in enumerate(conditions):
        name = f"{switch.name}/{branch}"
        data = _switch(graph_def, name, (data, condition), switch.attr["T"].type)
        yield f"{name}:1"
    yield data


def _pair(graph_def: Any, merge: Any) -> None:
    data = [tensor for tensor in merge.input if not is_control(tensor)]
    controls = [tensor for tensor in merge.input if is_control(tensor)]
    kind = merge.attr["T"].type
    while len(data) > 2:
        pair = _add(graph_def, "Merge", f"{merge.name}/{len(data) - 2}", data[-2:])
        pair.attr["T"].type = kind
        pair.attr["N"].i = 2
        data[-2:] = [pair.name]
    merge.input[:] = [*data, *controls]
    merge.attr["N"].i = len(data)


def _switch(graph_def: Any, name: str, inputs: tuple[str, str], kind: int) -> str:
    """The data where the condition is false."""
    switch = _add(graph_def, "Switch", name, inputs)
    switch.attr["T"].type = kind
    return f"{name}:0"


def _add(graph_def: Any, op: str, name: str, inputs: Any) -> Any:
    return graph_def.node.add(name=name, op=op, input=list(inputs))
