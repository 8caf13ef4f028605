"""Many specs, and a store with a result for each of their steps: the tool at its full size, without TensorFlow.

Results are valid as far as anything reads them when nothing is left to do: inspections, signatures, lists of kernels, reports.
Numbers and sizes of files are those of small models that were really built.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from modelwheel.engine.steps import Goal, steps_of
from modelwheel.engine.steps.base import Step
from modelwheel.model.frozen_signature import (
    CONFIG,
    GRAPH,
    SIGNATURE,
    STATE,
    FrozenSignature,
    FrozenTensor,
)
from modelwheel.model.inspection import INSPECTION, Inspection, SignatureInfo, TensorInfo
from modelwheel.model.reference_result import ARRAYS, SUMMARY, TIMES, FrameworkTimes
from modelwheel.request import Request, make_request
from modelwheel.source.fetch import source_key, tree_digest
from modelwheel.spec import load_specs
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from modelwheel.wheelfile.reports import Comparison, Report, dump_report
from tests.support.index_wheels import make_wheel
from tests.support.stores import make

PLATFORM = "linux-x86_64"
SIZES = (1, 16)
LAYERS = "platforms/linux-x86_64/generated"


def write_specs(directory: Path, count: int) -> list[Path]:
    """Specs of that many models, each with 18 steps; their sources are archives that only a filled store has."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for number in range(count):
        name = f"synthetic-{number:05}"
        path = directory / f"{name}.yaml"
        pin = hashlib.sha256(name.encode()).hexdigest()
        path.write_text(
            f'model:\n  name: {name}\n  version: "1.0.0"\n  author: Release Group\n'
            f"  description: Model {number} of a large release.\n"
            f"source:\n  archive: https://example.org/{name}.tar.gz\n  sha256: {pin}\n"
            "compilation:\n  batch_sizes: [1, 16]\n"
            "targets: [x86-64, x86-64-v2, x86-64-v3, x86-64-v4]\n"
            "package: {weights_license: Apache-2.0}\n"
        )
        paths.append(path)
    return paths


def load_requests(paths: Sequence[Path]) -> list[Request]:
    """What `modelwheel build` makes of the specs on Linux."""
    return [make_request(spec, platforms=[PLATFORM]) for spec in load_specs(paths)]


def fill(store: Store, requests: Sequence[Request], scratch: Path, goal: Goal = "wheel") -> int:
    """Publishes a result for each step of the requests; returns how many there are."""
    published = 0
    for request in requests:
        origin = request.spec.origin
        model = make(
            scratch / request.name / "model", {"saved_model.pb": _bytes(request.name, 40_000)}
        )
        record = store.publish(source_key(origin), model, {"step": f"{request.name}/fetch"})
        tree = tree_digest(record.files)
        records: dict[str, Record] = {}
        for number, step in enumerate(steps_of(request, tree, origin.provenance(tree), goal)):
            made = make(scratch / request.name / str(number), _result(step, request))
            records[step.name] = store.publish(step.key(store, records), made, {"step": step.name})
        published += 1 + len(records)
    return published


def _bytes(seed: str, size: int) -> bytes:
    """Bytes that no compression makes smaller and no two results share."""
    return hashlib.shake_128(seed.encode()).digest(size)


def _result(step: Step, request: Request) -> Mapping[str, bytes]:
    content = _RESULTS[step.kind]
    return content(step, request)


def _inspect(step: Step, request: Request) -> Mapping[str, bytes]:  # noqa: ARG001
    inputs, outputs = ((TensorInfo(name=n, dtype="float32", shape=(None, 16)),) for n in ("x", "y"))
    signature = SignatureInfo(key="serving_default", inputs=inputs, outputs=outputs)
    found = Inspection(
        written_by=request.name, tags=("serve",), signatures=(signature,), ops=(), assets=()
    )
    return {INSPECTION: found.model_dump_json(indent=1).encode()}


def _reference(step: Step, request: Request) -> Mapping[str, bytes]:  # noqa: ARG001
    times = FrameworkTimes(framework="TensorFlow", cpu="any", missing="nothing was timed")
    return {
        ARRAYS: _bytes(step.name, 28_000),
        SUMMARY: b"{}",
        TIMES: times.model_dump_json().encode(),
    }


def _freeze(step: Step, request: Request) -> Mapping[str, bytes]:  # noqa: ARG001
    x, y = (FrozenTensor(name=n, c_name=n, dtype="float32", shape=(1, 16)) for n in ("x", "y"))
    signature = FrozenSignature(
        key="serving_default", batch=1, inputs=(x,), outputs=(y,), batched_inputs=("x",),
        pruned_inputs=(), order=("x",), ordered_by="model",
    )  # fmt: skip
    return {
        GRAPH: _bytes(step.name, 11_000),
        CONFIG: b"feeds and fetches",
        SIGNATURE: signature.model_dump_json().encode(),
        STATE: b"",
    }


def _compile(step: Step, request: Request) -> Mapping[str, bytes]:
    return {
        "program.json": _bytes(step.name, 8_000),
        "kernels.o": _bytes(f"{step.name} o", 8_000),
        "constants.bin": _bytes(request.name, 4_000),
    }


def _project(step: Step, request: Request) -> Mapping[str, bytes]:
    levels = [level.identifier for level in request.levels]
    return {
        f"{LAYERS}/kernels.txt": b"gemm_float\nepilogue_float\n",
        f"{LAYERS}/model_tables.cpp": _bytes(f"{step.name} tables", 5_700),
        **{
            f"{LAYERS}/program_{level}.cpp": _bytes(f"{step.name} {level}", 4_600)
            for level in levels
        },
        **{
            f"platforms/linux-x86_64/objects/{level}_b{size}.o": _bytes(
                f"{step.name} {level} {size}", 8_000
            )
            for level in levels
            for size in SIZES
        },
        "platforms/linux-x86_64/manifest.json": _bytes(f"{step.name} manifest", 12_000),
        "platforms/linux-x86_64/sbom.cdx.json.in": _bytes(f"{step.name} sbom", 11_000),
        f"python/{request.spec.module}/_reference.npz": _bytes(f"{step.name} reference", 8_700),
        "weights/weights.bin": _bytes(f"{step.name} weights", 8_400),
    }


def _objects(step: Step, request: Request) -> Mapping[str, bytes]:  # noqa: ARG001
    return {"module.o": _bytes("objects", 758_000)}


def _kernels(step: Step, request: Request) -> Mapping[str, bytes]:  # noqa: ARG001
    return {
        f"{kernel}-{level.identifier}.o": _bytes(f"{kernel} {level.name}", 100_000)
        for kernel in ("gemm_float", "epilogue_float")
        for level in request.levels
    }


def _wheel(step: Step, request: Request) -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as directory:
        path = make_wheel(
            Path(directory), request.spec.model.name, tag="cp311-cp311-linux_x86_64",
            bill=_bytes(step.name, 125_000).hex(),
        )  # fmt: skip
        return {path.name: path.read_bytes()}


def _verify(step: Step, request: Request) -> Mapping[str, bytes]:  # noqa: ARG001
    comparisons = tuple(
        Comparison(
            level=level.name, rows=rows, rule=f"{rows}:{rows}", output="y", absolute=1e-7,
            relative=1e-6, limit=1e-5, passed=True,
        )
        for level in request.levels
        for rows in (1, 7, 16, 33)
    )  # fmt: skip
    return {"report.json": dump_report(Report(passed=True, comparisons=comparisons, skipped={}))}


_RESULTS = {
    "inspect": _inspect,
    "reference": _reference,
    "freeze": _freeze,
    "compile": _compile,
    "project": _project,
    "objects": _objects,
    "kernels": _kernels,
    "wheel": _wheel,
    "verify": _verify,
}
