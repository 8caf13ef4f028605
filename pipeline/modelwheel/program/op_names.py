"""Names of the model's operations: where a step of a program comes from.

A name is a path: `encoder/dense/MatMul` is an operation of the layer `encoder/dense`. An origin is one name or several, that with
most of the work first, with `;` between them, as MLIR writes the locations of operations that it has fused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_BETWEEN = ";"
_CALLS = frozenset(
    {"StatefulPartitionedCall", "PartitionedCall", "XlaCallModule", "jit_main", "main"}
)
_CALLS |= {"XLA_Args", "XLA_Retvals", "_wrapped_jax_export_main"}
"""What TensorFlow and JAX put before the names of operations (and numbers), or have themselves."""
_WRAPPERS = frozenset({"closed_call", "core_call", "core_closed_call", "custom_jvp_call"})
_WRAPPERS |= {"custom_vjp_call", "pjit", "remat", "checkpoint"}
"""What JAX puts into them, and says nothing about the model."""
_TRACED = re.compile(r"(?:jit|pjit|vmap|remat|checkpoint)\((.*)\)")
"""A function that JAX has traced."""


def clean_name(name: str) -> str:
    """A name without the calls that TensorFlow and JAX put before it and into it.

    >>> clean_name("XlaCallModule/jit(f)/encoder/jit(relu)/max")
    'encoder/relu/max'
    """
    parts = [part for part in name.split("/") if part and part not in _WRAPPERS]
    while parts and parts[0].rstrip("_0123456789") in _CALLS:
        del parts[0]
    if parts and _TRACED.fullmatch(parts[0]):
        del parts[0]
    return "/".join(_untraced(part) for part in parts)


def _untraced(part: str) -> str:
    while traced := _TRACED.fullmatch(part):
        part = traced[1]
    return part


def nested_name(outer: str, inner: str) -> str:
    """The name of an operation in another one, such as in the body of a loop; what both say is there once.

    >>> nested_name("rnn/while", "rnn/cell/tanh"), nested_name("rnn/jit(relu)", "relu/max")
    ('rnn/while/cell/tanh', 'rnn/jit(relu)/max')
    """
    before, after = list(filter(None, outer.split("/"))), list(filter(None, inner.split("/")))
    del after[: len(_shared([before, after[:-1]]))]
    if before and len(after) > 1 and _untraced(before[-1]) == _untraced(after[0]):
        del after[0]
    return "/".join([*before, *after])


def common_layer(names: Iterable[str]) -> str:
    """The layers that all names begin with; empty if they have none in common."""
    return "/".join(_shared([name.split("/") for name in names]))


def _shared(paths: list[list[str]]) -> list[str]:
    shared = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return shared


def names_of(origin: str) -> tuple[str, ...]:
    """The names in an origin, each once, that with most of the work first."""
    return tuple(dict.fromkeys(filter(None, origin.split(_BETWEEN))))


def join_names(*origins: str) -> str:
    """The origin of a step that does the work of several, the one with most of it first."""
    return _BETWEEN.join(names_of(_BETWEEN.join(origins)))


def layer_of(name: str) -> str:
    """The layer of an operation; the operation itself if it is in none.

    >>> layer_of("encoder/dense/MatMul"), layer_of("MatMul_3")
    ('encoder/dense', 'MatMul_3')
    """
    layer, _, operation = name.rpartition("/")
    return layer or operation
