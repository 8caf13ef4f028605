"""Operations that are written with others at fixed shapes compute what ONNX Runtime computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from modelwheel.errors import UnsupportedModelError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from onnx import helper

from tests.support.onnx_models import agree_in_runtime, model_of, random, rewrite

node = helper.make_node


@dataclass
class Case:
    """One node."""

    op: str
    inputs: dict[str, Any]
    constants: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 17
    outputs: tuple[str, ...] = ("y",)

    def model(self) -> Any:
        names = sorted({**self.inputs, **self.constants})
        given = [name if name in names else "" for name in "abcde"[: "abcde".index(names[-1]) + 1]]
        one = node(self.op, given, list(self.outputs), **self.attributes)
        return model_of([one], self.inputs, self.outputs, self.constants, self.opset)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


IMAGE = random(2, 3, 6, 5)
GRID = 1.6 * np.tanh(random(2, 4, 3, 2, seed=3))
REGIONS = np.array([[1, 2, 9, 10.5], [0, 0, 4.5, 11], [-3, 1, 2, 14], [6, 6, 6.2, 6.1]], np.float32)
PLACES = np.array([[[[1, 7], [12, 18]]]], np.int64)

CASES = {
    "det": Case("Det", {"a": random(2, 3, 5, 5)}),
    "det of one": Case("Det", {"a": random(2, 1, 1)}),
    "det of a singular matrix": Case("Det", {"a": np.ones((2, 3, 3), np.float32)}),
    "lengths": Case(
        "ReverseSequence",
        {"a": random(4, 3, 2), "b": ints(4, 1, 3)},
        attributes={"time_axis": 0, "batch_axis": 1},
        opset=10,
    ),
    "constant lengths": Case(
        "ReverseSequence",
        {"a": random(3, 4)},
        {"b": ints(4, 0, 2)},
        {"time_axis": 1, "batch_axis": 0},
    ),
    "unpool": Case(
        "MaxUnpool",
        {"a": random(1, 1, 2, 2)},
        {"b": PLACES},
        {"kernel_shape": [2, 3], "strides": [2, 3]},
    ),
    "regions": Case(
        "RoiAlign",
        {"a": IMAGE, "b": REGIONS},
        {"c": ints(0, 1, 1, 0)},
        {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5},
    ),
    "regions of opset 10": Case(
        "RoiAlign",
        {"a": IMAGE, "b": REGIONS, "c": ints(0, 1, 1, 0)},
        {},
        {"output_height": 3, "output_width": 2, "sampling_ratio": 3, "spatial_scale": 0.5},
        10,
    ),
    "largest of regions": Case(
        "RoiAlign",
        {"a": IMAGE, "b": REGIONS},
        {"c": ints(0, 1, 1, 0)},
        {"output_height": 2, "output_width": 2, "sampling_ratio": 2, "mode": "max"},
    ),
    "moved taps": Case(
        "DeformConv",
        {
            "a": random(2, 4, 5, 6),
            "c": random(2, 36, 3, 4, seed=3),
            "e": random(2, 18, 3, 4, seed=5),
        },
        {"b": random(6, 2, 3, 3, seed=4), "d": random(6, seed=6)},
        {
            "kernel_shape": [3, 3],
            "pads": [1, 2, 1, 1],
            "strides": [2, 2],
            "group": 2,
            "offset_group": 2,
        },
        19,
    ),
    "compress": Case(
        "Compress", {"a": random(2, 3)}, {"b": np.array([True, False, True])}, {"axis": 1}
    ),
    "compress all": Case("Compress", {"a": random(2, 3)}, {"b": np.array([False, True, True])}),
    "norm": Case("GlobalLpPool", {"a": random(2, 3, 4, 5)}, {}, {"p": 3}),
    "spectrum": Case("DFT", {"a": random(2, 6, 3, 1)}, {}, {"axis": 1}),
    "half a spectrum": Case("DFT", {"a": random(2, 9, 1)}, {}, {"axis": 1, "onesided": 1}),
    "a longer spectrum": Case(
        "DFT", {"a": random(2, 6, 2)}, {"b": np.array(8)}, {"axis": 1, "inverse": 1}
    ),
    "an axis as input": Case("DFT", {"a": random(2, 6, 2)}, {"c": np.array(1)}, {}, 20),
    "spectrogram": Case(
        "STFT",
        {"a": random(2, 40, 1)},
        {"b": np.array(4), "c": np.hanning(8).astype(np.float32)},
    ),
    **{
        f"grid {mode} {padding} {aligned}": Case(
            "GridSample",
            {"a": IMAGE, "b": GRID},
            {},
            {"mode": mode, "padding_mode": padding, "align_corners": aligned},
        )
        for mode in ("bilinear", "nearest")
        for padding in ("border", "reflection")
        for aligned in (0, 1)
    },
}


@pytest.mark.parametrize("name", CASES)
def test_it_agrees(name: str) -> None:
    case = CASES[name]
    made = agree_in_runtime(case.model(), case.inputs)
    assert case.op not in made


def test_the_largest_in_any_order_are_sorted() -> None:
    case = Case("TopK", {"a": random(3, 7)}, {"b": ints(4)}, {"sorted": 0}, outputs=("y", "i"))
    (kept,) = rewrite(case.model(), case.inputs).straight.nodes
    assert {a.name: a.i for a in kept.attribute} == {"sorted": 1}


REFUSED = {
    "pools as many pixels as each region": Case(
        "MaxRoiPool",
        {"a": IMAGE, "b": np.zeros((1, 5), np.float32)},
        attributes={"pooled_shape": [2, 2]},
    ),
    "has no conversion": Case(
        "Col2Im", {"a": random(1, 12, 12)}, {"b": ints(5, 5), "c": ints(2, 3)}, opset=18
    ),
    "combines values at the same place": Case(
        "ScatterND",
        {"a": random(3, 4)},
        {"b": np.array([[1], [1]], np.int64), "c": random(2, 4)},
        {"reduction": "add"},
        18,
    ),
    "set its sampling_ratio": Case(
        "RoiAlign", {"a": IMAGE, "b": REGIONS}, {"c": ints(0, 1, 1, 0)}, opset=16
    ),
    "interpolates with cubes": Case("GridSample", {"a": IMAGE, "b": GRID}, {}, {"mode": "bicubic"}),
    "transforms 2000 values, above 1024": Case("DFT", {"a": random(1, 2000, 1)}, {}, {"axis": 1}),
    "is of 40 x 40 matrices, above 32": Case("Det", {"a": random(40, 40)}),
    "returns as many elements": Case(
        "Compress", {"a": random(3), "b": np.array([True, False, True])}
    ),
}


@pytest.mark.parametrize("said", REFUSED)
def test_the_rest_is_refused(said: str) -> None:
    case = REFUSED[said]
    with pytest.raises(UnsupportedModelError, match=rf"^{case.op} 'y' {said}|{said}"):
        rewrite(case.model(), case.inputs)
