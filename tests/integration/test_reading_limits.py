"""Files of kilobytes that would take hours to read: each is refused in a sentence that names it, or is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from modelwheel.errors import UnsupportedModelError
from modelwheel.model.inspection import INSPECTION, Inspection
from modelwheel.model.readings import Reading
from modelwheel.workers.jobs import InspectRequest
from modelwheel.workers.pool import WorkerPool
from tests.models.hostile_reading import SMALL, Small

pytestmark = pytest.mark.slow

_FORMATS = {
    ".mlir": "stablehlo",
    ".jax": "stablehlo",
    ".h5": "keras",
    ".onnx": "onnx",
    ".pt2": "pytorch",
    ".pbtxt": "graph_def",
}


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    """One worker."""
    with WorkerPool(tmp_path_factory.mktemp("workers"), 1) as started:
        yield started


@pytest.mark.parametrize("small", SMALL, ids=lambda small: small.name)
def test_a_small_file_takes_no_hours(small: Small, pool: WorkerPool, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "out"
    model.mkdir()
    out.mkdir()
    given = {"format": _FORMATS[Path(small.file).suffix], "file": small.file, **small.write(model)}
    reading: Reading = TypeAdapter(Reading).validate_python(given)
    job = pool.submit(InspectRequest(reading=reading).job(model, out))
    if not small.says:
        job.result()
        assert Inspection.load(out / INSPECTION).signatures
        return
    with pytest.raises(UnsupportedModelError, match=small.says) as caught:
        job.result()
    assert small.file in str(caught.value) or small.name == "many_ports"
    assert "\n" not in str(caught.value)
