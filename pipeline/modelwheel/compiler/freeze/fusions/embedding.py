"""Rows of a table, one after the other in the function that is marked, gathered at once.

The names and the order of the arguments are those of TensorFlow Lite: its page on operation fusion has
`embedding_lookup`, its converter (prepare_composite_functions_tf.cc) `embedding_matmul`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ....model.fusions.registry import Argument, Fusion

_ARGUMENTS = (
    Argument("embs", ("float16", "bfloat16", "float32", "float64"), ("rows", "features")),
    Argument("ids", ("int32", "int64"), ("ids",)),
)


def _gather(embs: Any, ids: Any) -> Any:
    return tf.gather(embs, ids)


LOOKUP = Fusion("embedding_lookup", _ARGUMENTS, _gather)
MATMUL = Fusion("embedding_matmul", _ARGUMENTS, _gather)
