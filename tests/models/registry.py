"""What the judgement says about every operation that TensorFlow registers: `registry.py DIRECTORY`.

The directory holds the SavedModel `write_in_branch` of `tests.models.hostile`. Prints one JSON object: `harmless`,
`unreviewed`, and `missed`: operations with an effect that were not refused in some place of that
model. Needs TensorFlow.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

from modelwheel.compiler.graphs.op_effects import effect_of
from modelwheel.compiler.inspect.inspect_meta_graph import inspect_message
from modelwheel.compiler.inspect.meta_graph import parse_saved_model
from modelwheel.model.check import Expected, check_signature

_PLACES = ("signature", "branch", "control", "unconnected")


def registered() -> Iterator[str]:
    """Names of all operations."""
    buffer = pywrap_tf_session.TF_GetAllOpList()
    operations = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(buffer))
    yield from sorted(operation.name for operation in operations.op)


def plant(saved_model: Any, operations: Iterable[str], place: str) -> Any:
    """A copy of the model with a node `evil_OPERATION` of each operation."""
    message = type(saved_model)()
    message.CopyFrom(saved_model)
    for function in message.meta_graphs[0].graph_def.library.function:
        in_branch = any(node.op == "WriteFile" for node in function.node_def)
        calls_branch = any(node.op in ("If", "StatelessIf") for node in function.node_def)
        for node in function.node_def:
            if node.op == "WriteFile":
                node.op = "NoOp"
                del node.input[:]
        if in_branch if place == "branch" else calls_branch:
            for op in operations:
                function.node_def.add(name=f"evil_{op}", op=op)
            if place in ("signature", "branch"):
                inputs = [f"evil_{op}:out:0" for op in operations]
                function.node_def.add(name="evil_last", op="IdentityN", input=inputs)
                function.ret[next(iter(function.ret))] = "evil_last:out:0"
            elif place == "control":
                function.node_def[0].input.extend(f"^evil_{op}" for op in operations)
    return message


def errors(saved_model: Any) -> str:
    """All errors about a model."""
    findings = check_signature(inspect_message(saved_model, ()), Expected())
    return "\n".join(str(f) for f in findings if f.severity == "error")


def main() -> None:
    saved_model = parse_saved_model(Path(sys.argv[1]))
    operations = list(registered())
    harmful = [op for op in operations if effect_of(op) != ""]
    missed = []
    for place in _PLACES:
        found = errors(plant(saved_model, harmful, place))
        missed += [f"{op} ({place})" for op in harmful if f"{op} in 'evil_{op}'" not in found]
    json.dump(
        {
            "harmless": [op for op in operations if effect_of(op) == ""],
            "unreviewed": [op for op in operations if effect_of(op) == "unreviewed"],
            "missed": missed,
            "plain": errors(plant(saved_model, (), "unconnected")),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
