"""A hundred models on a cluster of two worker processes, one of which is killed every twenty seconds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.scale.killing import Killer, count_results, read_events
from tests.scale.models import write_models
from tests.support.clusters import cluster
from tests.support.commands import Modelwheel

_MODELS = int(os.environ.get("MODELWHEEL_CLUSTER_MODELS", "100"))
_SECONDS = 20.0


def _wheels(directory: Path) -> Mapping[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.whl"))}


@pytest.mark.exhaustive
def test_killed_workers_change_no_wheel_and_repeat_no_finished_step(tmp_path: Path) -> None:
    write_models(tmp_path / "specs", _MODELS)
    specs, events = tmp_path / "specs", tmp_path / "events.jsonl"
    modelwheel = Modelwheel(tmp_path / "store")
    with cluster() as found, Killer([one.pid for one in found.workers], _SECONDS) as killer:
        modelwheel(
            *("build", "--cluster", found.address, "--json-events", events),
            *("--out", tmp_path / "disturbed", specs),
        )
    assert killer.kills
    results = count_results(read_events(events))
    assert len(results) > 7 * _MODELS
    assert {step: number for step, number in results.items() if number > 1} == {}
    wheels = _wheels(tmp_path / "disturbed")
    assert len([name for name in wheels if name.startswith("model_small")]) == _MODELS

    Modelwheel(tmp_path / "other")("build", "--out", tmp_path / "undisturbed", specs)
    assert _wheels(tmp_path / "undisturbed") == wheels
