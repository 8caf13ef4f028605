"""The end of a detector that returns the best of all boxes, of which many have scores that are equal but for rounding."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from modelwheel.model.readings import OnnxReading
from modelwheel.model.reference_result import Reference
from modelwheel.workers.jobs import ReferenceRequest
from tests.support.laboratory import Laboratory

_MISSING = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(_MISSING), reason=f"{' and '.join(_MISSING)} is not installed"),
]

ANCHORS, BEST, FEATURES = 64, 32, 24

_GRAPH = f"""<ir_version: 8, opset_import: ["" : 16]>
detector (float[N,{FEATURES}] x) => (float[N,{BEST},5] detections) {{
  corners = MatMul(x, boxes)
  all = Reshape(corners, by_anchor)
  logits = MatMul(x, classes)
  sure = Sigmoid(logits)
  best, places = TopK(sure, most)
  columns = Unsqueeze(places, last)
  four = Expand(columns, extents)
  chosen = GatherElements<axis=1>(all, four)
  scores = Unsqueeze(best, last)
  detections = Concat<axis=2>(chosen, scores)
}}"""


def _write(path: Path) -> None:
    import onnx
    from onnx import numpy_helper, parser

    model = parser.parse_model(_GRAPH)
    random = np.random.default_rng(5)
    half = random.normal(size=(FEATURES, ANCHORS // 2)).astype(np.float32)
    # Every second anchor is the first half once more, but for the last place of its weights.
    again = np.nextafter(half, np.where(random.random(half.shape) < 0.5, np.inf, -np.inf))
    constants = {
        "boxes": random.normal(size=(FEATURES, 4 * ANCHORS)).astype(np.float32),
        "classes": np.concatenate([half, again.astype(np.float32)], axis=1),
        "by_anchor": np.array([-1, ANCHORS, 4]),
        "most": np.array([BEST]),
        "last": np.array([-1]),
        "extents": np.array([1, 1, 4]),
    }
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in constants.items())
    onnx.save(model, path)


def test_the_order_of_equal_scores_is_no_error_of_anybody(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    _write(tmp_path / "model.onnx")
    request = ReferenceRequest(
        reading=OnnxReading(file="model.onnx"), signature="serving_default", batch_sizes=(1, 4)
    )
    out = laboratory.run(request.job(tmp_path, laboratory.new_directory()))
    summary = Reference.load(out / "reference.json")
    assert (summary.independent, summary.reason) == (True, None)
    truth = summary.truth
    assert (truth.missing, truth.without, truth.converted, truth.sensitive) == (None, {}, {}, {})
    assert (
        "places depend on scores that are equal but for rounding" in truth.undecided["detections"]
    )
    with np.load(out / "reference.npz") as arrays:
        (allowed,) = (arrays[name] for name in arrays if name.startswith("noise") and "4" in name)
        assert np.isfinite(allowed[..., 4]).all()
        assert np.isinf(allowed[..., :4]).any()
