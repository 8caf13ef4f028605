"""What steps took, out of the records of a store: `python -m tests.scale.times STORE > times.json`.

Seconds are those of a processor where a step noted them, so that a busy machine does not count; sizes are those of its
files. One profile for each model, each with the steps of a kind in their order.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modelwheel.store.records import Record
from modelwheel.store.store import Store
from tests.support.stores import every_record

MEASURED = Path(__file__).with_name("times.json")
"""Small models, convolutions and 40 MB of weights, each at four CPU levels and two batch sizes."""


@dataclass(frozen=True)
class StepTime:
    """One step."""

    seconds: float
    bytes: int
    files: int


@dataclass(frozen=True)
class Profile:
    """The steps of one model."""

    name: str
    model_bytes: int
    steps: dict[str, list[StepTime]]
    """By kind, in the order of the pipeline."""

    def of(self, kind: str, number: int) -> StepTime:
        """The step of a kind; of another number than was measured, one of those that were."""
        known = self.steps[kind]
        return known[number % len(known)]


def load(path: Path = MEASURED) -> list[Profile]:
    """Profiles from a file that this program wrote.

    Raises:
        ValueError: It has none.
    """
    found = [
        Profile(
            one["name"],
            one["model_bytes"],
            {kind: [StepTime(*step) for step in steps] for kind, steps in one["steps"].items()},
        )
        for one in json.loads(path.read_text(encoding="utf-8"))["models"]
    ]
    if not found:
        raise ValueError(f"{path} has no model whose steps were all timed")
    # What models share, one of them has run.
    shared = {kind: steps for profile in found for kind, steps in profile.steps.items()}
    return [replace(profile, steps={**shared, **profile.steps}) for profile in found]


def collect(store: Store) -> dict[str, Any]:
    """The content of such a file: every model of which a wheel was verified."""
    by_model: defaultdict[str, dict[str, Record]] = defaultdict(dict)
    for record in (one.record for one in every_record(store)):
        model, _, rest = str(record.note.get("step", "")).partition("/")
        if rest and "kind" in record.note:
            by_model[model][rest] = record
    models = [
        _profile(name, steps) for name, steps in sorted(by_model.items()) if "verify" in steps
    ]
    return {"models": models}


def _profile(name: str, steps: dict[str, Record]) -> dict[str, Any]:
    kinds: defaultdict[str, list[list[float]]] = defaultdict(list)
    for step in sorted(steps):
        note = steps[step].note
        seconds = note.get("cpu_seconds", note["seconds"])
        kinds[note["kind"]].append([seconds, steps[step].size, len(steps[step].files)])
    model_bytes = max(record.note.get("model_bytes", 0) for record in steps.values())
    return {"name": name, "model_bytes": model_bytes, "steps": kinds}


def _lines(content: dict[str, Any]) -> Iterator[str]:
    """JSON with a line for each kind, which people can read and compare."""
    yield '{"models": ['
    for number, model in enumerate(content["models"]):
        yield f'  {{"name": {json.dumps(model["name"])}, "model_bytes": {model["model_bytes"]}, "steps": {{'
        rows = [
            f"    {json.dumps(kind)}: {json.dumps(steps)}" for kind, steps in model["steps"].items()
        ]
        yield ",\n".join(rows)
        yield "  }}" + ("," if number + 1 < len(content["models"]) else "")
    yield "]}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(_lines(collect(Store(Path(sys.argv[1]))))) + "\n")
