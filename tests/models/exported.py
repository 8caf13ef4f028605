"""Functions that JAX exports, and what JAX itself computes with them.

`python -m tests.models.exported DIRECTORY` writes them; `... DIRECTORY NAME ARRAYS` prints the largest
difference, relative to the largest value, between the outputs of a reference and JAX's for its inputs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from tests.models.saved_by_jax import save

# 64-bit types are among those to test.
jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call, unused-ignore] # noqa: FBT003
_RANDOM = np.random.default_rng(9)
_WEIGHTS = _RANDOM.normal(size=(4, 3)).astype(np.float32)
_DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"


def nested(inputs: dict[str, Any], *, scale: Any) -> dict[str, Any]:
    """Two inputs, a keyword, one of which only a size is read; operations that an old StableHLO lacks."""
    x = inputs["image"]
    hidden = lax.erf(x @ _WEIGHTS) * scale
    hidden = lax.fori_loop(0, 3, lambda i, h: jnp.tanh(h) + i, hidden)
    # The inner loop ends at a counter of the outer one.
    hidden = lax.fori_loop(
        0, 4, lambda i, h: lax.fori_loop(1, 2 * i, lambda j, k: jnp.sin(k) + j * 0.1, h), hidden
    )
    best, where = lax.top_k(hidden, 2)
    return {"best": (best, where), "sorted": jnp.sort(x, axis=-1), "total": hidden.sum(-1)}


def chain(x: Any, y: Any, _: Any = None) -> tuple[Any, Any]:
    """Branches, scans and windows of fixed shapes; JAX leaves the last argument out of the module."""
    z = lax.switch(y[0] % 3, [lambda a: a * 2, lambda a: a + 1, jnp.sin], x)
    sums, steps = lax.scan(lambda a, b: (a + b, a * b), jnp.zeros(4, jnp.float32), z)
    pooled = lax.reduce_window(z, -jnp.inf, lax.max, (1, 2), (1, 1), "SAME")
    return sums + pooled[0], steps.at[jnp.array([0, 1])].add(1.0)


def types(inputs: dict[str, Any]) -> dict[str, Any]:
    """Each element type in and out."""
    return {name: ~v if v.dtype == bool else v + v.astype(v.dtype) for name, v in inputs.items()}


def inverse(x: Any) -> Any:
    """Needs LAPACK, which is not in XLA."""
    return jnp.linalg.inv(x)


def embedded(inputs: dict[str, Any]) -> Any:
    """Indices into tables and classes, in the ways in which JAX writes them."""
    tokens, both, classes = inputs["tokens"], inputs["both"], inputs["classes"]
    words = jnp.asarray(_RANDOM.normal(size=(40, 4)).astype(np.float32))
    taken = words[tokens].sum(1) + jnp.take(words, both[:, 0] + 1, axis=0, mode="clip")
    paired = words[both[:, 1].astype(np.int32), inputs["axis"]]
    hot = jax.nn.one_hot(classes, 7) @ _RANDOM.normal(size=(7, 4)).astype(np.float32)
    part = lax.dynamic_slice(words, (inputs["start"], np.int32(0)), (5, 4)).sum(0)
    mixed = inputs["mixed"]
    taken += words[mixed[:, 3].astype(np.int32)] + mixed[:, 1:3].sum(-1, keepdims=True)
    return taken + paired[:, None] + hot + part + inputs["free"][:, None]


def waves(x: Any) -> tuple[Any, Any]:
    """Real and complex numbers that NumPy computes too."""
    hidden = jnp.tanh(x @ _WEIGHTS)
    return hidden, jnp.fft.rfft(hidden)


def squares(x: Any) -> dict[str, Any]:
    """Numbers that XLA's simplifier takes for not negative."""
    return {"size": jnp.abs(x * x), "sign": x * x >= 0}


def _shape(*extents: Any, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(extents, dtype)  # type: ignore[no-untyped-call, unused-ignore]


def _signatures() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    (batch,) = export.symbolic_shape("b")
    inputs = {"image": _shape(batch, 4), "unused": _shape(batch, 2)}
    every = {name: _shape(2, 3, dtype=jnp.dtype(name)) for name in _DTYPES.split()}
    embeddings = {
        "axis": _shape(batch, dtype=np.int32),
        "both": _shape(batch, 2, dtype=np.int16),
        "classes": _shape(batch, dtype=np.int32),
        "free": _shape(batch),
        "mixed": _shape(batch, 5),
        "start": _shape(dtype=np.int32),
        "tokens": _shape(batch, 6, dtype=np.int32),
    }
    return {
        "embedded": (embedded, (embeddings,), {}),
        "nested": (nested, (inputs,), {"scale": _shape()}),
        "chain": (chain, (_shape(2, 4), _shape(1, dtype=np.int32), _shape(5)), {}),
        "types": (types, (every,), {}),
        "waves": (waves, (_shape(batch, 4),), {}),
        "inverse": (inverse, (_shape(4, 4),), {}),
    }


def write(directory: Path) -> None:
    """Writes each function as an artifact, one as a module too, and the weights."""
    np.save(directory / "weights.npy", _WEIGHTS)
    for name, (function, positional, keywords) in _signatures().items():
        exported = export.export(jax.jit(function), platforms=["cpu"])(*positional, **keywords)
        (directory / f"{name}.jax").write_bytes(exported.serialize())
        if name == "chain":
            (directory / "chain.mlir").write_text(exported.mlir_module())
            (directory / "chain.mlirbc").write_bytes(exported.mlir_module_serialized)
    save(squares, directory / "squares", "int8", 256)


def compare(name: str, arrays: Path) -> dict[str, float]:
    """The differences by output."""
    function, positional, keywords = _signatures()[name]
    with np.load(arrays) as stored:
        given = {key.partition("/")[2]: stored[key] for key in stored if key.startswith("in/")}
        # Not those of boundary rows, whose evaluations have names with "@".
        outputs = {
            key.split("/")[2]: stored[key]
            for key in stored
            if key.startswith("out/") and "@" not in key.split("/")[1]
        }
    if name == "chain":
        results = function(given["arg0"], given["arg1"])
    else:
        named = {key: jnp.asarray(given[key], kind.dtype) for key, kind in positional[0].items()}
        results = function(named, **{key: given[key] for key in keywords})
    leaves = jax.tree_util.tree_leaves_with_path(results)
    names = ["_".join(str(getattr(k, "key", getattr(k, "idx", ""))) for k in p) for p, _ in leaves]
    found = {}
    for key, (_, leaf) in zip(names, leaves, strict=True):
        expected = np.asarray(leaf).astype(np.complex128)
        got = outputs[f"result{key}" if name == "chain" else key].astype(np.complex128)
        found[key] = float(np.abs(got - expected).max() / max(1.0, np.abs(expected).max()))
    return found


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write(Path(sys.argv[1]))
    else:
        json.dump(compare(sys.argv[2], Path(sys.argv[3])), sys.stdout)
