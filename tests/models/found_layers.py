"""Layers of transformers as each front end writes them, for test_found_layers.py: `found_layers.py FRONT_END DIRECTORY`.

Each front end has one model: the layers in all their forms, one after the other. `torch` writes what torch-mlir makes of the
operations that `torch.export` has for them; PyTorch itself is not needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.models.saved_by_jax import save

_BATCH, _TOKENS, _HEADS, _DEPTH = 2, 12, 3, 8
_WIDTH = _HEADS * _DEPTH
_ROOT = float(np.float32(np.sqrt(2 / np.pi)))


def _values(seed: int, *shape: int) -> Any:
    values = np.random.default_rng(seed).normal(size=shape)
    return (values / np.sqrt(shape[0])).astype(np.float32)


_QUERY, _KEY, _VALUE = (_values(seed, _WIDTH, _WIDTH) for seed in (1, 2, 3))
_WIDE, _BIAS, _NARROW = _values(4, _WIDTH, 48), _values(5, 48), _values(8, 48, _WIDTH)
_GAMMA, _BETA = _values(6, _WIDTH) + 1, _values(7, _WIDTH)


# --- JAX ------------------------------------------------------------------------------------------


def _jax(directory: Path) -> None:
    import jax
    import jax.numpy as jnp
    from jax import export, lax

    def heads(x: Any, weights: Any) -> Any:
        return (x @ weights).reshape(x.shape[0], _TOKENS, _HEADS, _DEPTH)

    def flax(x: Any) -> Any:
        query, key, value = (heads(x, w) for w in (_QUERY, _KEY, _VALUE))
        query = query / jnp.sqrt(jnp.float32(_DEPTH))
        weights = jax.nn.softmax(jnp.einsum("...qhd,...khd->...hqk", query, key))
        return x + jnp.einsum("...hqk,...khd->...qhd", weights, value).reshape(x.shape)

    def equinox(x: Any) -> Any:
        query, key, value = (heads(x, w).transpose(0, 2, 1, 3) for w in (_KEY, _QUERY, _VALUE))
        weights = jax.nn.softmax(query @ key.swapaxes(-1, -2) * np.float32(_DEPTH**-0.5))
        return x + (weights @ value).transpose(0, 2, 1, 3).reshape(x.shape)

    def of_jax(x: Any, **settings: Any) -> Any:
        query, key, value = (heads(x, w) for w in (_VALUE, _KEY, _QUERY))
        found = jax.nn.dot_product_attention(query, key, value, **settings)
        return x + found.reshape(x.shape)

    def flax_norm(x: Any) -> Any:
        mean, squares = x.mean(-1, keepdims=True), lax.square(x).mean(-1, keepdims=True)
        variance = jnp.maximum(0.0, squares - lax.square(mean))
        return (x - mean) * (lax.rsqrt(variance + 1e-6) * _GAMMA.reshape(1, 1, -1)) + _BETA

    def norm(x: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-5) * _GAMMA + _BETA

    def root_norm(x: Any) -> Any:
        return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6) * _GAMMA

    def f(x: Any) -> dict[str, Any]:
        for attention in (equinox, flax, of_jax, partial(of_jax, is_causal=True)):
            x = attention(x)
        x = root_norm(flax_norm(norm(x)))
        for approximate in (False, True):
            x = jax.nn.gelu(x @ _WIDE + _BIAS, approximate=approximate) @ _NARROW
        return {"y": jax.nn.softmax(x)}

    (batch,) = export.symbolic_shape("batch")
    for name, rows in (("jax", _BATCH), ("jax_symbolic", batch)):
        spec = jax.ShapeDtypeStruct((rows, _TOKENS, _WIDTH), np.float32)  # type: ignore[no-untyped-call, unused-ignore]
        exported = export.export(jax.jit(f), platforms=["cpu"])(spec)
        (directory / f"{name}.jax").write_bytes(exported.serialize())
    save(f, directory / "jax_saved", "float32", _TOKENS, _WIDTH)


# --- ONNX -----------------------------------------------------------------------------------------


class _Onnx:
    """Nodes of a graph, each with one result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def __call__(self, op: str, *inputs: Any, **attributes: Any) -> str:
        """Adds a node; inputs that are no names are constants."""
        from onnx import helper

        to = f"v{len(self.nodes)}"
        names = [self._name(one) for one in inputs]
        self.nodes.append(helper.make_node(op, names, [to], **attributes))
        return to

    def _name(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        name = f"c{len(self.constants)}"
        array = np.asarray(value)
        self.constants[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        return name


def _onnx_layers(n: _Onnx, x: str) -> str:
    def hidden() -> str:
        return n("Add", n("MatMul", x, _WIDE), _BIAS)

    distance = n("Sub", x, n("ReduceMean", x, np.array([-1])))
    variance = n("ReduceMean", n("Pow", distance, 2.0), np.array([-1]))
    scaled = n("Div", distance, n("Sqrt", n("Add", variance, 1e-5)))
    x = n("LayerNormalization", n("Add", n("Mul", scaled, _GAMMA), _BETA), _GAMMA, _BETA)
    root = n("Sqrt", n("Add", n("ReduceMean", n("Pow", x, 2.0), np.array([-1])), 1e-6))
    x = n("RMSNormalization", n("Mul", n("Div", x, root), _GAMMA), _GAMMA)

    wide = hidden()
    halves = n("Add", n("Erf", n("Div", wide, np.sqrt(2))), 1.0)
    x = n("MatMul", n("Mul", n("Mul", wide, halves), 0.5), _NARROW)
    x = n("MatMul", n("Gelu", hidden()), _NARROW)
    x = n("MatMul", n("Gelu", hidden(), approximate="tanh"), _NARROW)
    wide = hidden()
    inner = n("Mul", n("Add", wide, n("Mul", n("Pow", wide, 3.0), 0.044715)), _ROOT)
    factor = n("Add", n("Tanh", inner), 1.0)
    x = n("MatMul", n("Mul", n("Mul", 0.5, wide), factor), _NARROW)

    x = n("Softmax", x, axis=-1)
    powers = n("Exp", n("Sub", x, n("ReduceMax", x, np.array([-1]))))
    return n("Div", powers, n("ReduceSum", powers, np.array([-1])))


def _onnx_attention(n: _Onnx, x: str) -> str:
    def heads(weights: Any, order: list[int]) -> str:
        shape = np.array([0, 0, _HEADS, _DEPTH])
        return n("Transpose", n("Reshape", n("MatMul", x, weights), shape), perm=order)

    def attend(scores: str, value: str) -> str:
        rows = n("Transpose", n("MatMul", n("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        return n("Add", x, n("Reshape", rows, np.array([0, 0, _WIDTH])))

    rows, columns = [0, 2, 1, 3], [0, 2, 3, 1]
    query, key = heads(_QUERY, rows), heads(_KEY, columns)
    x = attend(n("Div", n("MatMul", query, key), np.sqrt(_DEPTH)), heads(_VALUE, rows))
    query, key, root = heads(_VALUE, rows), heads(_QUERY, columns), _DEPTH**-0.25
    scores = n("MatMul", n("Mul", query, root), n("Mul", key, root))
    x = attend(scores, heads(_KEY, rows))
    causal = np.tril(np.ones((_TOKENS, _TOKENS), bool))
    query, key, root = heads(_QUERY, rows), heads(_VALUE, columns), np.sqrt(_DEPTH)
    scores = n("Where", causal, n("Div", n("MatMul", query, key), root), -1e9)
    x = attend(scores, heads(_KEY, rows))
    query, key = heads(_KEY, rows), heads(_QUERY, columns)
    scores = n("Where", ~causal, -np.inf, n("MatMul", n("Mul", query, 0.4), key))
    x = attend(scores, heads(_VALUE, rows))
    operands = [n("MatMul", x, w) for w in (_KEY, _VALUE, _QUERY)]
    counts = {"q_num_heads": _HEADS, "kv_num_heads": _HEADS}
    return n("Add", x, n("Attention", *operands, **counts))


def _onnx(directory: Path) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = _Onnx()
    result = _onnx_layers(nodes, _onnx_attention(nodes, "x"))
    shape: list[str | int | None] = ["batch", _TOKENS, _WIDTH]
    graph = helper.make_graph(
        nodes.nodes,
        "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in nodes.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(model, directory / "onnx.onnx")


# --- PyTorch --------------------------------------------------------------------------------------


def _tensor(*shape: int) -> str:
    return f"!torch.vtensor<[{','.join(map(str, shape))}],f32>"


class _Torch:
    """The text of a program in torch-mlir's dialect of PyTorch, as its importer writes it."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def value(self, op: str, operands: str, types: str) -> str:
        """The result of an operation."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = torch.{op} {operands} : {types}".removesuffix(" : "))
        return name

    def number(self, kind: str, value: Any) -> str:
        """A constant."""
        return self.value(f"constant.{kind} {value}", "", "")

    def numbers(self, *values: int) -> str:
        """A list of integers."""
        names = [self.number("int", value) for value in values]
        types = f"({', '.join(['!torch.int'] * len(names))}) -> !torch.list<int>"
        return self.value("prim.ListConstruct", ", ".join(names), types)

    def weights(self, array: Any) -> str:
        """A constant tensor."""
        text = f'dense<"0x{array.tobytes().hex()}"> : tensor<{"x".join(map(str, array.shape))}xf32>'
        return self.value(f"vtensor.literal({text})", "", _tensor(*array.shape))

    def call(self, op: str, result: tuple[int, ...], *operands: tuple[str, str]) -> str:
        """The result of a function of PyTorch."""
        names, types = zip(*operands, strict=True)
        return self.value(
            f"aten.{op}", ", ".join(names), f"{', '.join(types)} -> {_tensor(*result)}"
        )


_X, _TOKEN_ROWS = (_BATCH, _TOKENS, _WIDTH), (_BATCH * _TOKENS, _WIDTH)
_HEAD_ROWS, _ROWS = (_BATCH, _TOKENS, _HEADS, _DEPTH), (_BATCH, _HEADS, _TOKENS, _DEPTH)
_COLUMNS, _SCORES = (_BATCH, _HEADS, _DEPTH, _TOKENS), (_BATCH, _HEADS, _TOKENS, _TOKENS)
_HIDDEN = (_BATCH, _TOKENS, len(_BIAS))


def _of(name: str, *shape: int) -> tuple[str, str]:
    return name, _tensor(*shape)


class _TorchLayers:
    """The layers, each of what the one before has computed."""

    def __init__(self, t: _Torch) -> None:
        self._t = t
        self.x = "%x"

    def _integer(self, value: int) -> tuple[str, str]:
        return self._t.number("int", value), "!torch.int"

    def _view(self, x: tuple[str, str], *shape: int) -> tuple[str, str]:
        sizes = self._t.numbers(*shape), "!torch.list<int>"
        return _of(self._t.call("view", shape, x, sizes), *shape)

    def _linear(self, x: tuple[str, str], weights: Any, *shape: int) -> tuple[str, str]:
        before, after = weights.shape
        given = self._view(x, _TOKEN_ROWS[0], before), _of(self._t.weights(weights), before, after)
        made = _TOKEN_ROWS[0], after
        return self._view(_of(self._t.call("mm", made, *given), *made), *shape)

    def _turn(self, x: tuple[str, str], one: int, other: int, *shape: int) -> tuple[str, str]:
        axes = self._integer(one), self._integer(other)
        return _of(self._t.call("transpose.int", shape, x, *axes), *shape)

    def _heads(self, weights: Any) -> tuple[str, str]:
        return self._turn(self._linear(_of(self.x, *_X), weights, *_HEAD_ROWS), 1, 2, *_ROWS)

    def _add(self, rows: str) -> None:
        turned = self._turn(_of(rows, *_ROWS), 1, 2, *_HEAD_ROWS)
        shape = self._t.numbers(*_X), "!torch.list<int>"
        joined = _of(self._t.call("reshape", _X, turned, shape), *_X)
        self.x = self._t.call("add.Tensor", _X, _of(self.x, *_X), joined, self._integer(1))

    def softmax(self, x: str, *shape: int) -> str:
        """Of the last axis."""
        half = self._t.number("bool", "false"), "!torch.bool"
        return self._t.call("_softmax", shape, _of(x, *shape), self._integer(-1), half)

    def attention(self) -> None:
        """As one operation."""
        nothing = self._t.number("none", ""), "!torch.none"
        false = self._t.number("bool", "false"), "!torch.bool"
        zero = self._t.number("float", "0.000000e+00"), "!torch.float"
        operands = [self._heads(w) for w in (_QUERY, _KEY, _VALUE)]
        settings = nothing, zero, false, nothing, false
        self._add(self._t.call("scaled_dot_product_attention", _ROWS, *operands, *settings))

    def decomposed_attention(self) -> None:
        """As PyTorch itself decomposes it."""
        t = self._t
        query, key, value = (self._heads(w) for w in (_KEY, _VALUE, _QUERY))
        root = t.number("float", f"{_DEPTH**-0.25:.9e}"), "!torch.float"
        turned = self._turn(key, -2, -1, *_COLUMNS)
        query = _of(t.call("mul.Scalar", _ROWS, query, root), *_ROWS)
        turned = _of(t.call("mul.Scalar", _COLUMNS, turned, root), *_COLUMNS)
        weights = self.softmax(t.call("matmul", _SCORES, query, turned), *_SCORES)
        self._add(t.call("matmul", _ROWS, _of(weights, *_SCORES), value))

    def norm(self) -> None:
        """Of the last axis."""
        t = self._t
        shape, epsilon = t.numbers(_WIDTH), t.number("float", "1.000000e-05")
        gamma, beta, name = t.weights(_GAMMA), t.weights(_BETA), f"%norm{len(t.lines)}"
        one, mean, x = _tensor(_WIDTH), _tensor(_BATCH, _TOKENS, 1), _tensor(*_X)
        given = f"{self.x}, {shape}, {gamma}, {beta}, {epsilon}"
        types = f"{x}, !torch.list<int>, {one}, {one}, !torch.float -> {x}, {mean}, {mean}"
        called = f"torch.aten.native_layer_norm {given} : {types}"
        t.lines.append(f"{name}, {name}_mean, {name}_factor = {called}")
        self.x = name

    def gelu(self, kind: str) -> None:
        """Between two products."""
        t, bias = self._t, _of(self._t.weights(_BIAS), len(_BIAS))
        wide = self._linear(_of(self.x, *_X), _WIDE, *_HIDDEN)
        hidden = _of(t.call("add.Tensor", _HIDDEN, wide, bias, self._integer(1)), *_HIDDEN)
        setting = t.number("str", f'"{kind}"'), "!torch.str"
        found = _of(t.call("gelu", _HIDDEN, hidden, setting), *_HIDDEN)
        self.x, _ = self._linear(found, _NARROW, *_X)


def _torch(directory: Path) -> None:
    from modelwheel.compiler.formats.pytorch.torch_mlir_library import load_torch_mlir
    from modelwheel.compiler.stablehlo.channels_last import put_channels_last

    load_torch_mlir()
    from torch_mlir import ir
    from torch_mlir.dialects import torch
    from torch_mlir.passmanager import PassManager

    text = _Torch()
    layers = _TorchLayers(text)
    layers.attention()
    layers.decomposed_attention()
    layers.norm()
    layers.gelu("none")
    layers.gelu("tanh")
    result, kind, body = layers.softmax(layers.x, *_X), _tensor(*_X), "\n".join(text.lines)
    program = f"func.func @main(%x: {kind}) -> {kind} {{\n{body}\nreturn {result} : {kind}\n}}"
    with ir.Context() as context:
        torch.register_dialect(context)
        module = ir.Module.parse(program)
        for passes in (
            "func.func(torch-match-quantized-custom-ops),torchdynamo-export-to-torch-backend-pipeline{extra-library=}",
            "torch-backend-to-stablehlo-backend-pipeline{allow-non-finites=true}",
        ):
            PassManager.parse(f"builtin.module({passes})").run(module.operation)
        put_channels_last(module)
        (directory / "torch.mlir").write_text(str(module), encoding="utf-8")


_WRITERS: dict[str, Callable[[Path], None]] = {"jax": _jax, "onnx": _onnx, "torch": _torch}

if __name__ == "__main__":
    _WRITERS[sys.argv[1]](Path(sys.argv[2]))
