"""Converts nodes in a line to StableHLO by torch-mlir, without PyTorch.

Weights are arguments of the module: MLIR then neither parses nor prints them, and TensorFlow shares them
between batch sizes as it does all constants.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ....errors import UnsupportedModelError
from ....util.text import one_line
from .channels_last import put_channels_last
from .onnx_loops import Function, LoopWriter, is_loop, needed_nodes, read_by
from .onnx_rewrites.specialize import Specialized
from .onnx_rewrites.straight import Straight
from .torch_mlir_library import load_torch_mlir

Array = np.ndarray[Any, Any]

_WEIGHT = 1024
"""Constants of more elements are arguments."""
_ERROR = re.compile(
    r"error: (?:\"(?P<place>[^\"]*)\"|unknown)[^:]*: (?P<reason>.*?)(?:: %|: \"|$)", re.MULTILINE
)


_FUNCTION = re.compile(
    r"module \{\n  func\.func @main\((?P<arguments>.*?)\) -> (?P<body>.*)\}\n\}?\s*", re.DOTALL
)
_TYPE = re.compile(r"tensor<[^>]*>")


@dataclass(frozen=True)
class Module:
    """A StableHLO module whose function is called `main`."""

    text: str
    arguments: tuple[str | Array, ...]
    """Names of the model's inputs, and weights."""
    outputs: tuple[str, ...]
    """Names of the model's outputs, in the order of the results."""
    results: tuple[tuple[str, tuple[int, ...]], ...]
    """Type and shape of each result."""


def convert(specialized: Specialized) -> Module:
    """The module of a model at fixed shapes.

    Raises:
        UnsupportedModelError: torch-mlir cannot convert an operation; the message names it.
    """
    straight = specialized.straight
    outputs = list(specialized.outputs.items())
    results = [straight.add_result(value) for _, value in outputs]
    nodes = needed_nodes(straight.nodes, results)
    read = {name for node in nodes for name in read_by(node)}
    inputs = [(name, value) for name, value in specialized.inputs.items() if value in read]
    weights = [n for n, v in straight.constants.items() if n in read and v.size > _WEIGHT]
    arguments = [*(value for _, value in inputs), *weights]
    if any(is_loop(node) for node in nodes):
        text = LoopWriter(straight, _to_function).module(nodes, arguments, results)
    else:
        text = _to_stablehlo(_model(straight, nodes, arguments, results))
    return Module(
        text,
        (*(name for name, _ in inputs), *(straight.constants[name] for name in weights)),
        tuple(name for name, _ in outputs),
        tuple((straight.dtype(name).name, straight.shape(name)) for name in results),
    )


def _model(
    straight: Straight,
    nodes: Sequence[onnx.NodeProto],
    arguments: Sequence[str],
    results: Sequence[str],
) -> onnx.ModelProto:
    """Nodes without loops as a model; what they read of other constants is part of it."""
    read = {name for node in nodes for name in node.input if name}
    small = [n for n in straight.constants if n in read and n not in set(arguments)]
    graph = helper.make_graph(
        nodes,
        "main",
        [_info(straight, name) for name in arguments],
        [_info(straight, name) for name in results],
        [numpy_helper.from_array(straight.constants[name], name) for name in small],
        value_info=[_info(straight, name) for node in nodes for name in node.output if name],
    )
    opsets = [helper.make_opsetid("", straight.opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _info(straight: Straight, name: str) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name, type=straight.types[name])


def _to_function(
    straight: Straight,
    nodes: Sequence[onnx.NodeProto],
    arguments: Sequence[str],
    results: Sequence[str],
    name: str,
) -> Function:
    """Nodes without loops as a function of StableHLO."""
    text = _to_stablehlo(_model(straight, nodes, arguments, results))
    found = _FUNCTION.fullmatch(text)
    assert found is not None, "torch-mlir makes one function"
    return Function(
        name,
        f"  func.func private @{name}({found['arguments']}) -> {found['body']}",
        tuple(_TYPE.findall(found["arguments"])),
        tuple(_TYPE.findall(found["body"].partition(" {")[0])),
    )


def _to_stablehlo(model: onnx.ModelProto) -> str:
    load_torch_mlir()
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras import onnx_importer
    from torch_mlir.passmanager import PassManager

    context = ir.Context()
    context.enable_multithreading(False)  # noqa: FBT003
    torch_dialect.register_dialect(context)
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(context=context)
    try:
        onnx_importer.NodeImporter.define_function(info.main_graph, module.operation).import_all()
        with context:
            for passes in _PIPELINES:
                PassManager.parse(passes).run(module.operation)
            put_channels_last(module)
    except (ir.MLIRError, onnx_importer.OnnxImportError, NotImplementedError) as error:
        raise _explain(str(error)) from None
    _require_stablehlo(module)
    # Of the two dialects only one is known to TensorFlow; the rest of the line is the same.
    return str(module).replace(" = arith.constant dense<", " = stablehlo.constant dense<")


def _require_stablehlo(module: Any) -> None:
    """Refuses what is left of other dialects, which TensorFlow does not read."""
    from torch_mlir import ir

    left: list[tuple[str, str]] = []

    def look(operation: Any) -> Any:
        name = operation.name
        constant = name == "arith.constant" and "dense" in str(operation.attributes["value"])[:5]
        if not constant and name.partition(".")[0] not in _DIALECTS:
            left.append((name, str(operation.location)))
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    if left:
        name, location = left[0]
        raise _explain(f"error: {location.removeprefix('loc(').split('(')[0]}: {name} is left")


_DIALECTS = frozenset({"builtin", "func", "stablehlo", "chlo"})


_PIPELINES = (
    "builtin.module(torch-onnx-to-torch-backend-pipeline)",
    "builtin.module(torch-backend-to-stablehlo-backend-pipeline,canonicalize,cse)",
)


def _explain(error: str) -> UnsupportedModelError:
    """MLIR's first error in one sentence; locations are names of ONNX nodes."""
    match = _ERROR.search(error)
    place = one_line(match["place"]) if match and match["place"] else "the model"
    reason = one_line((match["reason"] if match else error.split("\n", maxsplit=1)[0]).strip())
    return UnsupportedModelError(
        f"torch-mlir cannot convert {place} to StableHLO ({reason}); write it with other operations, "
        "or end the model before it"
    )
