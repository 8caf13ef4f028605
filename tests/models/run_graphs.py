"""Holds frozen graphs against references in TensorFlow: `run_graphs.py DIRECTORY...`.

Each directory holds `graph.pb`, `signature.json` and `reference.npz`. Prints for each the largest
difference of any output, relative to its largest value, as one JSON object. Needs TensorFlow.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla import tf2xla_pb2


def largest_difference(directory: Path) -> float:
    """How far the frozen graph's outputs are from the reference's."""
    signature = json.loads((directory / "signature.json").read_bytes())
    config = tf2xla_pb2.Config.FromString((directory / "config.pb").read_bytes())
    feeds = [f"{feed.id.node_name}:0" for feed in config.feed]
    fetches = [f"{fetch.id.node_name}:0" for fetch in config.fetch]
    with np.load(directory / "reference.npz") as arrays:
        given = [
            arrays[f"in/{tensor['name']}"][_rows(tensor, signature)]
            for tensor in signature["inputs"]
        ]
        expected = [
            arrays[f"out/{signature['batch'] or 1}/{tensor['name']}"]
            for tensor in signature["outputs"]
        ]
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        definition = tf.compat.v1.GraphDef.FromString((directory / "graph.pb").read_bytes())
        tf.import_graph_def(definition, name="")
        results = session.run(fetches, dict(zip(feeds, given, strict=True)))
    for result, tensor in zip(results, signature["outputs"], strict=True):
        assert list(result.shape) == tensor["shape"], (directory, tensor["name"], result.shape)
    return max(map(_difference, results, expected))


def _rows(tensor: dict[str, Any], signature: dict[str, Any]) -> Any:
    batched = tensor["name"] in signature["batched_inputs"]
    return slice(signature["batch"]) if batched else ...


def _difference(result: Any, expected: Any) -> float:
    a, b = result.astype(np.float64), expected.astype(np.float64)
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30))


if __name__ == "__main__":
    json.dump({path: largest_difference(Path(path)) for path in sys.argv[1:]}, sys.stdout)
