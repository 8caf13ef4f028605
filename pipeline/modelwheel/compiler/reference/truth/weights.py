"""Makes the weights of a graph inputs, so that other values of them need no other graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2

from ...freeze.frozen import FrozenGraph
from ...stablehlo.judge_module import MODULE_OP
from ...stablehlo.xla_module import Module, embedded_module
from .terms import terms_in_graph, terms_in_module

Array = np.ndarray[Any, Any]

_FLOATS = {
    types_pb2.DT_HALF,
    types_pb2.DT_BFLOAT16,
    types_pb2.DT_FLOAT,
    types_pb2.DT_DOUBLE,
    types_pb2.DT_COMPLEX64,
}
_ELEMENTS = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
# In the body of a function, not in a region of it.
_CONSTANT = re.compile(
    r"^    %(?P<name>[\w$.-]+) = stablehlo\.constant dense<(?P<values>\"0x[0-9A-Fa-f]*\"|[^\"<>]*)> : "
    r"(?P<type>tensor<(?P<shape>(?:\d+x)*)(?P<element>f32|f16|f64|bf16)>)\n",
    re.MULTILINE,
)
_MAIN = re.compile(r"func\.func (?:public )?@main\(")
_PREFIX = "modelwheel_weights_"


@dataclass(frozen=True)
class Parted:
    """A graph and its weights."""

    graph: FrozenGraph
    """`graph_def` and `feeds` have the weights as further inputs."""
    weights: Mapping[str, Array]
    """What they are, by the names of these inputs."""
    terms: Mapping[str, int] = field(default_factory=dict)
    """For those that are multiplied: how many products are added for each element."""


def part_weights(frozen: FrozenGraph) -> Parted:
    """A graph whose weights are inputs; those in bodies of loops and functions stay constants."""
    graph_def, weights, terms = type(frozen.graph_def)(), dict[str, Array](), dict[str, int]()
    graph_def.CopyFrom(frozen.graph_def)
    added = []
    for node in graph_def.node:
        if node.op == "Const" and node.attr["dtype"].type in _FLOATS and not node.input:
            values = tf.make_ndarray(node.attr["value"].tensor)
            if _is_weight(values):
                weights[node.name] = values
                _make_placeholder(node, values.shape)
        elif node.op == MODULE_OP:
            for name, values, count in _part_module(node, len(weights)):
                weights[name], terms[name] = values, count
                added.append(_placeholder(name, values))
                node.input.append(name)
                node.attr["Tin"].list.type.append(added[-1].attr["dtype"].type)
    graph_def.node.extend(added)
    feeds = {**frozen.feeds, **{name: name for name in weights}}
    terms |= terms_in_graph(graph_def, {name: values.shape for name, values in weights.items()})
    return Parted(replace(frozen, graph_def=graph_def, feeds=feeds), weights, terms)


def _placeholder(name: str, values: Array) -> Any:
    node = tf.compat.v1.NodeDef(name=name)
    node.attr["dtype"].type = tf.dtypes.as_dtype(values.dtype).as_datatype_enum
    _make_placeholder(node, values.shape)
    return node


def _make_placeholder(node: Any, shape: tuple[int, ...]) -> None:
    node.op = "Placeholder"
    node.attr.pop("value", None)
    node.attr["shape"].shape.CopyFrom(tf.TensorShape(shape).as_proto())


def _part_module(node: Any, first: int) -> list[tuple[str, Array, int]]:
    """Makes constants of the module's `main` its last arguments; their new names, values and terms."""
    module = embedded_module(node.attr["module"].s)
    text, types, weights = module.text, list[str](), list[tuple[str, Array, int]]()
    start = _MAIN.search(text)
    if start is None:
        return []
    terms = terms_in_module(module.functions)
    end = text.find("\n  }\n", start.end())
    body = text[start.end() : end]

    def take(match: re.Match[str]) -> str:
        values = _read(match)
        if values is None or not _is_weight(values):
            return match[0]
        name = match["name"]
        weights.append((f"{_PREFIX}{first + len(weights)}", values, terms.get(name, 1)))
        types.append(f"%{name}: {match['type']}")
        return ""

    body = _CONSTANT.sub(take, body)
    if not weights:
        return []
    close = _closing(body)
    before = body[:close]
    joined = ", ".join(([before] if before.strip() else []) + types)
    text = f"{text[: start.end()]}{joined}{body[close:]}{text[end:]}"
    node.attr["module"].s = Module(text, module.functions).bytecode
    return weights


def _closing(text: str) -> int:
    """Where the bracket of the arguments closes."""
    depth, quoted = 1, False
    for place, character in enumerate(text):
        if character == '"':
            quoted = not quoted
        elif not quoted:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if not depth:
                return place
    return len(text)


def _read(match: re.Match[str]) -> Array | None:
    """The values of a constant; None if they are not as many as its shape has."""
    dtype = np.dtype(_ELEMENTS[match["element"]])
    shape = tuple(int(extent) for extent in match["shape"].split("x")[:-1])
    text = match["values"]
    if text.startswith('"'):
        values = np.frombuffer(bytes.fromhex(text[3:-1]), dtype.newbyteorder("<"))
    else:
        bits = np.dtype(f"u{dtype.itemsize}")
        words = re.findall(r"[^\s,\[\]]+", text)
        values = np.array(
            [
                np.array(int(w, 16), bits).view(dtype) if w.startswith("0x") else dtype.type(w)
                for w in words
            ],
            dtype,
        )
        if len(words) == 1:
            values = np.full(shape, values[0])
    return values.reshape(shape) if values.size == np.prod(shape, dtype=int) else None


def _is_weight(values: Array) -> bool:
    """Whether some of the values are no whole numbers, which often count, and stay as they are."""
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    return bool((np.isfinite(wide) & (wide != np.round(wide))).any())
