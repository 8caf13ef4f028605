"""What a new version of a wheel changes, as a reviewer reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from modelwheel.assembly.manifest import Manifest
from modelwheel.index.differences import wheel_differences
from modelwheel.wheelfile.wheel import Wheel, open_wheel
from tests.support.index_wheels import make_manifest, make_wheel


def make(directory: Path, version: str, manifest: Manifest | None = None, main: str = "") -> Wheel:
    directory.mkdir()
    path = make_wheel(directory, "digits", version=version, manifest=manifest, main=main)
    return open_wheel(path)


def changed(version: str, **updates: Any) -> Manifest:
    return make_manifest("digits", version=version).model_copy(update=updates)


def test_another_version_of_the_same_changes_nothing(tmp_path: Path) -> None:
    older, newer = make(tmp_path / "old", "1.0.0"), make(tmp_path / "new", "1.1.0")
    assert wheel_differences(older, newer) == ()


def test_what_users_of_a_model_must_know(tmp_path: Path) -> None:
    manifest = make_manifest("digits", version="2.0.0")
    image, points = manifest.signature.inputs
    (scores,) = manifest.signature.outputs
    signature = manifest.signature.model_copy(
        update={
            "inputs": (image.model_copy(update={"shape": (None, 9, 8, 1)}),),
            "outputs": (scores, points.model_copy(update={"name": "found"})),
        }
    )
    updates: dict[str, Any] = {
        "signature": signature,
        "levels": ("x86-64-v3", "x86-64-v4"),
        "batching": manifest.batching.model_copy(update={"sizes": (1, 16)}),
        "model": manifest.model.model_copy(update={"weights_license": None}),
    }
    older = make(tmp_path / "old", "1.0.0")
    newer = make(tmp_path / "new", "2.0.0", changed("2.0.0", **updates), main="pass\n")
    assert wheel_differences(older, newer) == (
        "input image is float32 [batch, 9, 8, 1], was float32 [batch, 8, 8, 1]",
        "input points is gone: float32 [batch * 3, 2]",
        "output found is new: float32 [batch * 3, 2]",
        "1 CPU level added: x86-64-v4",
        "1 CPU level removed: x86-64",
        "1 batch size added: 16",
        "1 batch size removed: 4",
        "licence of the weights is not stated, was CC-BY-4.0",
        "1 file added: model_digits/__main__.py",
    )
