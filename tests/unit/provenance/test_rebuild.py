"""Building a wheel again, as far as that goes without a compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.packaging.template import template_directory
from modelwheel.provenance.consistency import (
    BrokenLinkError,
    UncheckedLinkError,
)
from modelwheel.provenance.rebuild import LEVELS_SENTENCE, compare_rebuilt
from modelwheel.store.store import Store
from modelwheel.wheelfile.contents import open_contents
from tests.support.described import describe, wheel_files, write_wheel


def rebuild_elsewhere(directory: Path, weights: bytes) -> str:
    """What is said of a wheel for another platform, whose library should hold these weights."""
    manifest = describe().model_copy(update={"platform": "windows-amd64"})
    files = wheel_files(manifest)
    files["model_a/lib/libmodel_a.so"] += b"the weights"
    contents = open_contents(write_wheel(directory, files))
    (directory / "project" / "weights").mkdir(parents=True)
    (directory / "project" / manifest.weights).write_bytes(weights)
    store = Store(directory / "cache")
    return compare_rebuilt(contents, store.publish("0" * 64, directory / "project"), store)


def test_a_wheel_for_another_platform_is_not_built_again(tmp_path: Path) -> None:
    with pytest.raises(UncheckedLinkError, match="is for windows-amd64, but this is"):
        rebuild_elsewhere(tmp_path, b"the weights")


def test_weights_of_another_model(tmp_path: Path) -> None:
    with pytest.raises(BrokenLinkError, match="does not contain the weights"):
        rebuild_elsewhere(tmp_path, b"other weights")


def test_the_sentence_about_levels_is_the_one_of_the_template() -> None:
    readme = template_directory() / "package" / "README.md.in"
    lines = readme.read_bytes().splitlines()
    assert [line for line in lines if line.startswith(LEVELS_SENTENCE + b"{{ levels }}")]
