"""Networks of images, sequences and volumes in ONNX: `onnx_images DIRECTORY`.

Prints one JSON object: by the number of axes of places, the largest difference from ONNX Runtime relative to the largest value, and how often
the axes of a value that is no weight are exchanged in the module that the network becomes, where something reads the result.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from modelwheel.compiler import formats
from modelwheel.compiler.formats.onnx.operators import onnx_graph as graph
from modelwheel.model.readings import OnnxReading
from tests.models.onnx_operations import difference, run_graph
from tests.support.onnx_models import Array, model_of, random

node = helper.make_node


def _network(rank: int) -> tuple[list[Any], dict[str, Array]]:
    """Convolutions with what usually follows them: normalisation, also of groups, activations, pooling, gates, residuals, padding."""
    ones, threes = [1] * rank, [3] * rank
    constants: dict[str, Array] = {
        "w1": random(8, 3, *threes, seed=2),
        "w2": random(8, 1, *threes, seed=3),
        "w3": random(8, 8, *ones, seed=4),
        "w4": random(8, 8, *ones, seed=5),
        "scale": random(8, seed=6),
        "shift": random(8, seed=7),
        "mean": random(8, seed=8),
        "variance": np.abs(random(8, seed=9)) + 0.1,
        "slope": random(8, *ones, seed=10),
        "rows": random(5, seed=11),
        "grouped": np.array([0, 4, -1]),
        "ones": np.ones(4, np.float32),
        "zeros": np.zeros(4, np.float32),
    }
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1] * (2 * rank)),
        node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["b"]),
        node("HardSwish", ["b"], ["activated"]),
        node("Shape", ["activated"], ["whole"]),
        node("Reshape", ["activated", "grouped"], ["groups"]),
        node("InstanceNormalization", ["groups", "ones", "zeros"], ["normal"]),
        node("Reshape", ["normal", "whole"], ["c"]),
        node("Conv", ["c", "w2"], ["d"], pads=[1] * (2 * rank), group=8),
        node("PRelu", ["d", "slope"], ["e"]),
        node("GlobalAveragePool", ["e"], ["f"]),
        node("Conv", ["f", "w3"], ["g"]),
        node("HardSigmoid", ["g"], ["h"]),
        node("Mul", ["e", "h"], ["i"]),
        node("Add", ["c", "i"], ["j"]),
        node("MaxPool", ["j"], ["k"], kernel_shape=threes, strides=[2] * rank),
        node("Add", ["j", "rows"], ["l"]),
        node("Conv", ["k", "w4"], ["m"]),
        node("Flatten", ["m"], ["n"]),
        node("ReduceSum", ["l"], ["o"], keepdims=0),
        node("Add", ["n", "o"], ["y"]),
    ]
    return nodes, constants


def _is_read(name: str, text: str) -> bool:
    """Whether a result depends on a value: a shape that nothing takes leaves an exchange behind it."""
    readers = re.findall(rf"(?:(%\d+) = )?\"[a-z.]+\"\([^)]*{name}\b", text)
    return any(not reader or _is_read(reader, text) for reader in readers)


def main(directory: Path) -> None:
    """Prints what was found."""
    found = {}
    texts: list[str] = []
    convert = graph.convert

    def noted(*given: Any) -> Any:
        converted = convert(*given)
        texts.append(converted.module.text)
        return converted

    graph.convert = noted  # type: ignore[assignment]
    for rank in (1, 2, 3):
        nodes, constants = _network(rank)
        x = random(2, 3, *[6, 7, 5][3 - rank :])
        name = f"{rank}.onnx"
        onnx.save(model_of(nodes, {"x": x}, constants=constants), directory / name)
        (expected,) = onnxruntime.InferenceSession(directory / name).run(None, {"x": x})
        reading = OnnxReading(file=name)
        loaded = formats.of(reading).load(directory, reading, formats.DEFAULT_SIGNATURE)
        results = run_graph(loaded, {"x": x})
        worst = difference(np.asarray(results["y"]), expected)
        moved = re.findall(r"(%\d+) = \"stablehlo.transpose\".* : \(tensor<2x", texts[-1])
        found[str(rank)] = [worst, sum(_is_read(one, texts[-1]) for one in moved)]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
