"""Writes many small ONNX models with their specs, within a second: `python -m tests.scale.models DIRECTORY 40`.

Needs the extra `onnx`. Layers differ, so that every model has steps of its own; kernels and bindings are shared.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import onnx
from onnx import helper

from tests.support.onnx_models import model_of, random

Size: TypeAlias = Literal["small", "images", "large"]

_SPEC = """\
model: {{name: {name}, version: "1.0.0", description: "One of many models."}}
source: {{directory: ., path: {name}.onnx}}
targets: [{levels}]
compilation: {{batch_sizes: [{batch_sizes}]}}
package: {{bindings: shared, weights_license: CC0-1.0}}
verify: {{rows: 8, tolerance: {{rtol: 1.0e-4}}}}
"""


def write_models(
    directory: Path,
    count: int,
    *,
    size: Size = "small",
    levels: str = "x86-64-v3",
    batch_sizes: str = "1",
) -> list[Path]:
    """Writes models, each with a spec beside it.

    Args:
        directory: Created if needed.
        count: How many.
        size: `small` has two dense layers, `images` some convolutions, `large` 40 MB of weights.
        levels: CPU levels of the specs, with commas between.
        batch_sizes: The same of batch sizes.

    Returns:
        The specs.
    """
    directory.mkdir(parents=True, exist_ok=True)
    specs = []
    for number in range(count):
        name = f"{size}-{number:04}"
        onnx.save(_MAKERS[size](number), directory / f"{name}.onnx")
        spec = directory / f"{name}.yaml"
        spec.write_text(spec_text(name, levels=levels, batch_sizes=batch_sizes), encoding="utf-8")
        specs.append(spec)
    return specs


def spec_text(name: str, *, levels: str, batch_sizes: str) -> str:
    """The spec of the model in `NAME.onnx`."""
    return _SPEC.format(name=name, levels=levels, batch_sizes=batch_sizes)


def _dense(number: int, widths: tuple[int, ...]) -> onnx.ModelProto:
    nodes, constants, last = [], {}, "x"
    for place, (rows, columns) in enumerate(pairwise(widths)):
        constants[f"w{place}"] = random(rows, columns, seed=number) / np.float32(rows**0.5)
        nodes.append(helper.make_node("MatMul", [last, f"w{place}"], [f"m{place}"]))
        nodes.append(helper.make_node("Relu", [f"m{place}"], [f"r{place}"]))
        last = f"r{place}"
    nodes.append(helper.make_node("Identity", [last], ["y"]))
    return _with_batch(model_of(nodes, {"x": random(1, widths[0])}, constants=constants))


def _small(number: int) -> onnx.ModelProto:
    return _dense(number, (8, 16 + number % 7, 4))


def _large(number: int) -> onnx.ModelProto:
    return _dense(number, (512, 3072 + number % 5, 2048, 512))


def _images(number: int) -> onnx.ModelProto:
    nodes, constants, last, features = [], {}, "x", 3
    for place in range(6):
        wider = 16 + 8 * place
        constants[f"w{place}"] = random(wider, features, 3, 3, seed=number) / np.float32(features)
        nodes.append(
            helper.make_node("Conv", [last, f"w{place}"], [f"c{place}"], pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{place}"], [f"r{place}"]))
        last, features = f"r{place}", wider
    nodes.append(helper.make_node("GlobalAveragePool", [last], ["y"]))
    return _with_batch(model_of(nodes, {"x": random(1, 3, 32, 32)}, constants=constants))


_MAKERS = {"small": _small, "images": _images, "large": _large}


def _with_batch(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with a free first axis."""
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    return model


if __name__ == "__main__":
    write_models(Path(sys.argv[1]), int(sys.argv[2]))
