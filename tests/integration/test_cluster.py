"""A small model on a cluster of this machine, by the commands that people use."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import list_entries
from tests.support.commands import Modelwheel
from tests.support.wheels import HOST, LOWEST, Built

pytestmark = pytest.mark.slow

NAME = "batch-mean"
STEPS = [
    *("inspect", "reference", "freeze/b1", "freeze/b4"),
    *(f"{HOST}/{LOWEST}/b1", f"{HOST}/{LOWEST}/b4", "project", "wheel", "verify"),
]
"""All that know the model."""


def forget_model(cache: Path, copy: Path) -> Modelwheel:
    """The command with a copy of a store that has what all models share, and nothing of this model."""
    shutil.copytree(cache, copy, copy_function=os.link, ignore=shutil.ignore_patterns("tmp"))
    store, names = Store(copy), [f"{NAME}-1.0.0/{step}" for step in STEPS]
    for entry in list_entries(store):
        if entry.note.get("step") in names:
            store.record_path(entry.key).unlink()
    store.close()
    return Modelwheel(copy)


def test_a_wheel_of_a_cluster_has_the_bytes_of_a_local_one(
    built: Built, modelwheel: Modelwheel, tmp_path: Path
) -> None:
    command = forget_model(modelwheel.cache, tmp_path / "cache")
    build = (
        "build",
        "--cluster",
        "local:2",
        "--json",
        "--out",
        tmp_path / "dist",
        built.spec(NAME),
    )
    (result,) = command(*build).json
    assert result["errors"] == []
    assert sorted(result["run"]) == sorted(f"{NAME}-1.0.0/{step}" for step in STEPS)
    assert Path(result["wheel"]).read_bytes() == built.wheel(NAME).read_bytes()
    assert result["report"]["passed"]
    assert list((tmp_path / "cache" / "tmp").glob("process-*")) == []
