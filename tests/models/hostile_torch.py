"""Files of `torch.export.save` with texts that PyTorch evaluates, written without PyTorch."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

LEAF: dict[str, Any] = {"type": None, "context": None, "children_spec": []}


def torch_program(
    name: str = "x", size: str = "Symbol('s77', positive=True, integer=True)"
) -> dict[str, Any]:
    """A program that returns the absolute values of a vector, as PyTorch 2.13 writes it."""
    tensor = {"dtype": 7, "sizes": [{"as_expr": {"expr_str": size, "hint": {"as_int": 3}}}]}
    taken, returned = {"as_tensor": {"name": name}}, {"as_tensor": {"name": "abs_1"}}
    keywords = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    one = {"type": "builtins.tuple", "context": "null", "children_spec": [LEAF]}
    both = {"type": "builtins.tuple", "context": "null", "children_spec": [one, keywords]}
    return {
        "graph_module": {
            "graph": {
                "inputs": [taken],
                "outputs": [returned],
                "nodes": [
                    {
                        "target": "torch.ops.aten.abs.default",
                        "inputs": [{"name": "self", "arg": taken, "kind": 1}],
                        "outputs": [returned],
                        "metadata": {"stack_trace": "anything"},
                    }
                ],
                "tensor_values": {name: tensor, "abs_1": tensor},
                "sym_int_values": {},
            },
            "signature": {
                "input_specs": [{"user_input": {"arg": taken}}],
                "output_specs": [{"user_output": {"arg": returned}}],
            },
            "module_call_graph": [
                {
                    "fqn": "",
                    "signature": {
                        "in_spec": json.dumps([1, both]),
                        "out_spec": json.dumps([1, one]),
                        "forward_arg_names": [name],
                    },
                }
            ],
        },
        "range_constraints": {"s77": {"min_val": 0, "max_val": None}},
        "opset_version": {"aten": 10},
        "torch_version": "2.13.0+cpu",
        "guards_code": ["anything"],
    }


def write_torch_program(path: Path, program: Any, **members: str) -> None:
    """Writes a .pt2 file without weights."""
    payload = json.dumps({"config": {}})
    files = {
        "models/model.json": json.dumps(program),
        "data/weights/model_weights_config.json": payload,
        "data/constants/model_constants_config.json": payload,
        "byteorder": "little",
        ".data/version": "3\n",
        **members,
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"model/{name}", content)


def wide(text: str) -> str:
    """The same letters at full width, which Python reads as the ordinary ones."""
    return "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in text)
