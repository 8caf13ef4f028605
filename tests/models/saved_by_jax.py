"""Saves functions of JAX as SavedModels, whose modules are portable artifacts of StableHLO."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def save(function: Callable[[Any], Any], directory: Path, dtype: str, *extents: int) -> None:
    """Saves a function of one input `x`, whose batch is free before these extents."""
    import tensorflow as tf
    from jax.experimental import jax2tf

    shape = ", ".join(("batch", *map(str, extents)))
    converted = jax2tf.convert(function, polymorphic_shapes=[f"({shape})"])
    spec = tf.TensorSpec((None, *extents), dtype, name="x")
    module = tf.Module()
    module.f = tf.function(converted, autograph=False, input_signature=[spec])
    tf.saved_model.save(module, str(directory), signatures=module.f)
