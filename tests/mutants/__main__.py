"""Overwrites weights of finished wheels and writes docs/mutants.md: `python -m tests.mutants [OPTIONS] [DIRECTORY]`.

What was compiled stays in the directory, so that the next time only what has changed is compiled.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelwheel.levels import cpu_level
from modelwheel.request import Request, make_request
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from modelwheel.wheelfile.wheel import open_wheel
from tests.models.zoo.cases import CASES
from tests.models.zoo.visit import make_models
from tests.mutants.models import MODELS
from tests.mutants.page import PAGE, write_page
from tests.mutants.weights import KINDS, find_places, make_mutants, read_weights
from tests.support.commands import Modelwheel
from tests.support.laboratory import SHARED_MODELS

ZOO = (
    *(
        "mlp",
        "multi",
        "several_rows",
        "recurrent",
        "transformer",
        "real_rows",
        "tf1_loop",
        "frozen_graph",
    ),
    *("keras", "keras_h5", "keras_2", "jax", "jax_fixed"),
    *("onnx", "onnx_resize", "onnx_control_flow", "onnx_quantised", "onnx_lstm"),
    *("large_saved_model", "large_jax", "large_onnx"),
)
"""Cases of the zoo with weights, beside the models of `tests.mutants.models`."""
PUBLISHED = ("fer_emotion", "mhcnuggets_a0201")
"""Directories of ../shared/models, where they are."""

_SPEC = """\
model: {{name: {name}, version: "1.0.0"}}
source: {{directory: {directory}, path: {path}}}
targets: [{level}]
compilation: {{batch_sizes: [1, 4]}}
"""


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    model: str
    kind: str
    verify: bool
    """Whether it was found."""
    selftest: bool
    effect: str | None
    """Of one that was missed: `none`, `small`, `rare` or `large`, on other random rows."""


def run_mutants(
    spec: Path, modelwheel: Modelwheel, work: Path, counts: Mapping[str, int], seed: int = 0
) -> list[Outcome]:
    """Builds the wheel of a spec for one level, and judges its mutants; `counts` says how many of each kind."""
    (built,) = modelwheel.build(spec, "--out", work / "dist")
    if built["errors"]:
        raise SystemExit(f"{spec.name} cannot be built: {built['errors'][0]['message']}")
    request = make_request(load_spec(spec))
    store = Store(modelwheel.cache)
    try:
        return list(_judge(request, store, Path(built["wheel"]), work, counts, seed))
    finally:
        store.close()


def _judge(
    request: Request, store: Store, wheel: Path, work: Path, counts: Mapping[str, int], seed: int
) -> Iterable[Outcome]:
    weights, regions = read_weights(request, store)
    manifest = open_wheel(wheel).manifest
    reference = store.blob(manifest.verification.reference_sha256)
    with tempfile.TemporaryDirectory(dir=work) as packages:
        for path in (wheel, *wheel.parent.glob("modelwheel_runtime-*.whl")):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(packages)
        places = find_places(Path(packages), weights)
        assert places, f"{wheel.name} does not hold its weights as they are compiled"
        jobs = {
            "packages": packages,
            "module": manifest.model.module,
            "reference": str(reference),
            "places": {str(path): place for path, place in places.items()},
            "mutants": [
                {
                    "kind": mutant.kind,
                    "offset": mutant.region.offset,
                    "positions": mutant.positions,
                    "values": mutant.values,
                }
                for mutant in make_mutants(weights, regions, counts, seed)
            ],
        }
        path = Path(packages, "jobs.json")
        path.write_text(json.dumps(jobs))
        command = [sys.executable, str(Path(__file__).with_name("judge.py")), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        for line in done.stdout.splitlines():
            found: dict[str, Any] = json.loads(line)
            yield Outcome(manifest.model.name, **found)


def write_specs(directory: Path, models: Path, level: str) -> list[Path]:
    """The specs of all models that are here."""
    directory.mkdir(parents=True, exist_ok=True)
    specs = []
    for make in MODELS:
        path = directory / f"{make.__name__}.yaml"
        file = f"{make.__name__}.keras"
        path.write_text(_SPEC.format(name=make.__name__, directory=models, path=file, level=level))
        specs.append(path)
    cases = [case for case in CASES if case.name in ZOO]
    make_models(cases, models)
    specs += [case.write_spec(models, [level], directory) for case in cases]
    for name in PUBLISHED:
        if (SHARED_MODELS / name / "saved_model").is_dir():
            path = directory / f"{name}.yaml"
            source = SHARED_MODELS / name
            path.write_text(
                _SPEC.format(name=name, directory=source, path="saved_model", level=level)
            )
            specs.append(path)
    return specs


def main(directory: Path, count: int, names: Iterable[str]) -> None:
    """Writes the page, for all models or for those that are named."""
    models = directory / "models"
    if not (models / "attention.keras").exists():
        command = [sys.executable, "-m", "tests.mutants.models", str(models)]
        subprocess.run(command, check=True)
    modelwheel, wanted = Modelwheel(directory / "cache"), set(names)
    outcomes: list[Outcome] = []
    for spec in write_specs(directory / "specs", models, cpu_level().name):
        if not wanted or spec.stem in wanted:
            found = run_mutants(spec, modelwheel, directory, dict.fromkeys(KINDS, count))
            caught = sum(one.verify for one in found)
            sys.stderr.write(f"{spec.stem}: verify finds {caught} of {len(found)}\n")
            outcomes += found
    PAGE.write_text(write_page(outcomes), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", nargs="?", type=Path, help="keeps what was compiled")
    parser.add_argument("--count", type=int, default=20, help="mutants of each kind and model")
    parser.add_argument("--model", action="append", default=[], help="only this one")
    given = parser.parse_args()
    if given.directory:
        main(given.directory.resolve(), given.count, given.model)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            main(Path(temporary), given.count, given.model)
