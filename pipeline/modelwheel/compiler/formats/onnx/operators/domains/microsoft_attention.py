"""Attention of the domain com.microsoft, in the forms that optimised transformers contain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .....stablehlo.writer import Value
from .....stablehlo.writer import contractions as p
from .....stablehlo.writer import gathering as i
from .....stablehlo.writer import pointwise as e
from .....stablehlo.writer import reducing as r
from .....stablehlo.writer import reshaping as s
from .....stablehlo.writer.integer_products import Whole, integer_product
from .....stablehlo.writer.mlir_types import BOOL, FLOAT32, INT64
from ..onnx_node import MICROSOFT, Node, Result, operator
from ..quantized import along


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values: [batch, heads, length, size]."""

    query: Value
    key: Value
    value: Value

    @property
    def scores(self) -> tuple[int, int, int, int]:
        """The shape of the scores: batch, heads, queries, keys."""
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.key.shape[2]


def attend(node: Node, of: Heads, bias: Value | None, softcap: float = 0.0) -> Value:
    """The values by the softmax of the scores, [batch, length, heads * size].

    Args:
        node: With an attribute `scale`.
        of: The heads.
        bias: What is added to the scores.
        softcap: The limit of the scores, if it is not 0.
    """
    size = of.query.shape[-1]
    scale = node.get("scale", 0.0) or 1 / math.sqrt(size)
    turned = s.transpose(of.key, [0, 1, 3, 2])
    scores = p.matmul(of.query * scale, turned)
    if softcap:
        scores = e.tanh(scores / softcap) * softcap
    if bias is not None:
        scores = scores + e.convert(bias, scores.dtype)
    result = p.matmul(r.softmax(scores, 3), of.value)
    return _joined(result)


def _joined(x: Value) -> Value:
    batch, heads, length, size = x.shape
    return s.reshape(s.transpose(x, [0, 2, 1, 3]), [batch, length, heads * size])


def split_heads(x: Value, heads: int) -> Value:
    """[batch, length, heads * size] as [batch, heads, length, size]."""
    batch, length, width = x.shape
    return s.transpose(s.reshape(x, [batch, length, heads, width // heads]), [0, 2, 1, 3])


def _bias(node: Node, of: Heads, mask: Value | None, added: Value | None) -> Value | None:
    """The numbers that are added to the scores: for masked keys, for later ones, and a bias of the model."""
    total = added
    if mask is not None:
        allowed = _allowed(node, of, mask)
        low = float(node.get("mask_filter_value", -10000.0))
        masked = e.select(allowed, _number(node, 0.0), _number(node, low))
        total = masked if total is None else total + e.convert(masked, total.dtype)
    if node.get("unidirectional", 0):
        later = e.select(_earlier(node, of), _number(node, 0.0), _number(node, _lowest(of)))
        total = (
            later
            if total is None
            else e.maximum(total + e.convert(later, total.dtype), _lowest(of))
        )
    return total


def _number(node: Node, value: float) -> Value:
    return node.builder.constant(value, FLOAT32)


def _lowest(of: Heads) -> float:
    return float(np.finfo(np.float32 if of.query.dtype.itemsize > 2 else np.float16).min) / 2


def _earlier(node: Node, of: Heads) -> Value:
    """Whether a query may see a key, which is not later than it: [1, 1, queries, keys]."""
    _, _, queries, keys = of.scores
    places = np.arange(queries)[:, None] + (keys - queries)
    return node.builder.constant((np.arange(keys)[None] <= places)[None, None], BOOL)


def _allowed(node: Node, of: Heads, mask: Value) -> Value:
    """Whether a key may be seen: [batch, 1, 1 or queries, keys]."""
    batch, _, queries, keys = of.scores
    if mask.rank == 1 and mask.shape[0] in (batch, 2 * batch):
        places = node.builder.constant(np.arange(keys).reshape(1, 1, 1, keys), mask.dtype)
        end = s.reshape(s.slice_axis(mask, 0, 0, batch), [batch, 1, 1, 1])
        inside = places < end
        if mask.shape[0] == batch:
            return inside
        start = s.reshape(s.slice_axis(mask, 0, batch, 2 * batch), [batch, 1, 1, 1])
        return e.and_(inside, places >= start)
    flags = mask > 0 if mask.dtype != BOOL else mask
    if mask.rank == 2 and mask.shape == (batch, keys):
        return s.reshape(flags, [batch, 1, 1, keys])
    if mask.rank == 3 and mask.shape == (batch, queries, keys):
        return s.reshape(flags, [batch, 1, queries, keys])
    raise node.refuse(
        f"has a mask of the shape {list(mask.shape)}",
        "use a mask of a row for each batch and a column for each key",
    )


def _refuse_inputs(node: Node, *numbers: int) -> None:
    """Refuses inputs that say how much of a buffer is filled."""
    if any(node.optional(number) is not None for number in numbers):
        raise node.refuse(
            "keeps keys and values in a buffer that is filled while it runs",
            "export the model without past_present_share_buffer",
        )


# --- attention with projections -------------------------------------------------------------------


@operator("Attention", domain=MICROSOFT)
def attention(node: Node) -> Result:
    """Self-attention with the products that make queries, keys and values."""
    _refuse_inputs(node, 6)
    projected = p.matmul(node.input(0), node.input(1))
    bias = node.optional(2)
    projected = projected if bias is None else projected + bias
    return _self_attention(node, projected, node.optional(3), node.optional(4), node.optional(5))


@operator("QAttention", domain=MICROSOFT)
def q_attention(node: Node) -> Result:
    """Attention of a quantised input and quantised weights."""
    x, weights = node.input(0), node.input(1)
    zero, zeros = node.optional(6), node.optional(7)
    first = Whole(x, None if zero is None else s.reshape(zero, []))
    second = Whole(weights, None if zeros is None else along(zeros, weights, 1))
    scale = s.reshape(node.input(3), []) * along(node.input(4), weights, 1)
    projected = e.convert(integer_product(first, second), FLOAT32) * scale + node.input(2)
    return _self_attention(node, projected, node.optional(5), node.optional(8), None)


def _self_attention(
    node: Node, projected: Value, mask: Value | None, past: Value | None, added: Value | None
) -> list[Value]:
    if node.get("do_rotary", 0):
        raise node.refuse("turns its queries (do_rotary)", "export it without this fusion")
    heads = int(node.attributes["num_heads"])
    width = projected.shape[-1]
    sizes = [int(n) for n in node.get("qkv_hidden_sizes", None) or [width // 3] * 3]
    query, key, value = (split_heads(part, heads) for part in s.split(projected, -1, sizes))
    if past is not None:
        key = s.concatenate([s.index_axis(past, 0, 0), key], 2)
        value = s.concatenate([s.index_axis(past, 0, 1), value], 2)
    of = Heads(query, key, value)
    result = attend(node, of, _bias(node, of, mask, added))
    present = [s.stack([key, value], 0)] if node.outputs[1:2] == (True,) else []
    return [result, *present]


# --- attention of given queries, keys and values --------------------------------------------------


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: Node) -> Result:
    """Attention of queries, keys and values, which may be packed together."""
    _refuse_inputs(node, 8, 9)
    query, key, value = _given_heads(node)
    past = [node.optional(6), node.optional(7)]
    if past[0] is not None and past[1] is not None:
        key = s.concatenate([past[0], key], 2)
        value = s.concatenate([past[1], value], 2)
    of = Heads(query, key, value)
    result = attend(node, of, _bias(node, of, node.optional(4), node.optional(5)))
    return [result, key, value]


def _given_heads(node: Node) -> list[Value]:
    """Queries, keys and values with their biases: [batch, heads, length, size]."""
    heads = int(node.attributes["num_heads"])
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    if query.rank == 5:  # [batch, length, heads, 3, size]
        parts = [s.index_axis(query, 3, number) for number in range(3)]
    elif key is not None and key.rank == 5:  # [batch, length, heads, 2, size]
        parts = [split_heads(query, heads), *(s.index_axis(key, 3, number) for number in range(2))]
        parts[1:] = [s.transpose(part, [0, 2, 1, 3]) for part in parts[1:]]
    else:
        if key is None or value is None:
            raise IndexError("the keys or values are missing")
        parts = [query, key, value]
    if query.rank == 5:
        parts = [s.transpose(part, [0, 2, 1, 3]) for part in parts]
    parts = [split_heads(part, heads) if part.rank == 3 else part for part in parts]
    bias = node.optional(3)
    if bias is None:
        return parts
    sizes = [heads * part.shape[-1] for part in parts]
    biases = s.split(bias, 0, sizes)
    return [
        part + s.reshape(bias, [1, heads, 1, part.shape[-1]])
        for part, bias in zip(parts, biases, strict=True)
    ]


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node: Node) -> Result:
    """Causal attention in which several heads of queries share one of keys and values, without a past."""
    heads, groups = int(node.attributes["num_heads"]), int(node.attributes["kv_num_heads"])
    past = node.optional(3)
    if past is not None and past.shape[2]:
        raise node.refuse(
            "continues from keys and values of earlier calls",
            "fix the past's length to 0, or export the model without a cache",
        )
    unknown = [n for n in range(10, len(node.inputs)) if node.optional(n) is not None]
    special = [name for name in ("smooth_softmax", "kv_cache_bit_width") if node.get(name, 0)]
    if unknown or special or node.get("causal", 1) == 0:
        raise node.refuse(
            "has inputs or attributes that are not of its first version",
            "export the model without this fusion",
        )
    query, key, value = node.input(0), node.optional(1), node.optional(2)
    if key is None or value is None:
        size = query.shape[-1] // (heads + 2 * groups)
        query, key, value = s.split(query, -1, [heads * size, groups * size, groups * size])
    query, key, value = (
        split_heads(x, n) for x, n in ((query, heads), (key, groups), (value, groups))
    )
    if node.get("do_rotary", 0):
        query, key = (_rotate_from_start(node, x) for x in (query, key))
    repeated = [_repeat_heads(x, heads // groups) for x in (key, value)]
    of = Heads(query, repeated[0], repeated[1])
    return [attend(node, of, _window(node, of), node.get("softcap", 0.0)), key, value]


def _repeat_heads(x: Value, count: int) -> Value:
    if count == 1:
        return x
    batch, heads, length, size = x.shape
    wide = s.broadcast_to(s.expand_dims(x, 2), [batch, heads, count, length, size])
    return s.reshape(wide, [batch, heads * count, length, size])


def _window(node: Node, of: Heads) -> Value:
    """The numbers that are added to the scores of keys that are later, too early, or padding."""
    batch, _, queries, keys = of.scores
    lengths = s.reshape(node.input(5), [batch, 1, 1, 1])
    places = node.builder.constant(np.arange(keys).reshape(1, 1, 1, keys), lengths.dtype)
    seen = e.and_(_earlier(node, of), places <= lengths)  # one less than the length is given
    distance, reach = (
        np.arange(queries)[:, None] - np.arange(keys)[None],
        node.get("local_window_size", -1),
    )
    if reach > 0:
        seen = e.and_(seen, node.builder.constant((distance < reach)[None, None], BOOL))
    return e.select(seen, _number(node, 0.0), _number(node, _lowest(of)))


def _rotate_from_start(node: Node, x: Value) -> Value:
    positions = node.optional(9)
    if positions is None:
        length = x.shape[2]
        positions = node.builder.constant(np.arange(length)[None], INT64)
    return rotate(
        x,
        (node.input(7), node.input(8)),
        positions,
        interleaved=bool(node.get("rotary_interleaved", 0)),
    )


# --- rotary embeddings ----------------------------------------------------------------------------


def rotate(x: Value, tables: tuple[Value, Value], positions: Value, *, interleaved: bool) -> Value:
    """[batch, heads, length, size] turned by angles of positions, [batch or 1, length].

    Args:
        x: What is turned, in its first elements.
        tables: Cosines and sines: [positions, half of the elements].
        positions: Of each element of the length.
        interleaved: Whether pairs are neighbours; otherwise they are one half apart.
    """
    cosine, sine = (s.expand_dims(i.take(table, positions, 0), 1) for table in tables)
    half = cosine.shape[-1]
    front, rest = s.split(x, -1, [2 * half, x.shape[-1] - 2 * half])
    if interleaved:
        pairs = s.reshape(front, [*front.shape[:-1], half, 2])
        first, second = (s.index_axis(pairs, -1, number) for number in range(2))
    else:
        first, second = s.split(front, -1, [half, half])
    turned = [first * cosine - second * sine, second * cosine + first * sine]
    if interleaved:
        joined = s.reshape(s.stack(turned, -1), front.shape)
    else:
        joined = s.concatenate(turned, -1)
    return s.concatenate([joined, rest], -1)


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: Node) -> Result:
    """Queries or keys, turned by their positions."""
    x, positions = node.input(0), node.input(1)
    tables = (node.input(2), node.input(3))
    heads = int(node.get("num_heads", 0))
    size = 2 * tables[0].shape[-1]
    wide = x if x.rank == 4 else split_heads(x, heads or x.shape[-1] // size)
    length = wide.shape[2]
    if positions.size == 1 and positions.rank == 1:
        steps = node.builder.constant(np.arange(length)[None], positions.dtype)
        positions = s.reshape(positions, [1, 1]) + steps
    result = rotate(wide, tables, positions, interleaved=bool(node.get("interleaved", 0)))
    return result if x.rank == 4 else _joined(result)
