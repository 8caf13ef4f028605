"""The operations of ONNX, written as StableHLO: a function for each, in modules by kind.

`graph` walks the graphs of a model, `node` has what functions of operations read. The definitions are in
https://onnx.ai/onnx/operators/. An operation without a function here is written by ONNX's own definition
in terms of others, where it has one.
"""

from . import (
    arithmetic,
    casts,
    generators,
    indexing,
    movement,
    neural,
    quantized,
    reductions,
    scans,
    sequences,
    signal,
)
from . import matmul as products
from . import rnn as recurrent
from . import subgraphs as control
from .domains import classical, microsoft, microsoft_attention, microsoft_quantized
from .images import resize, sampling
from .images import sliding as windows
from .onnx_node import OPERATORS

__all__ = [
    "OPERATORS",
    "arithmetic",
    "casts",
    "classical",
    "control",
    "generators",
    "indexing",
    "microsoft",
    "microsoft_attention",
    "microsoft_quantized",
    "movement",
    "neural",
    "products",
    "quantized",
    "recurrent",
    "reductions",
    "resize",
    "sampling",
    "scans",
    "sequences",
    "signal",
    "windows",
]
