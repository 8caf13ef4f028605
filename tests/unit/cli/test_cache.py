"""The commands for the store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.store.records import Record
from modelwheel.store.store import Store
from tests.support.commands import Modelwheel, write_tiny_spec
from tests.support.stores import CONTENT, KEY, blob_file, make, open_store, record_file


@pytest.fixture
def modelwheel(tmp_path: Path) -> Modelwheel:
    return Modelwheel(tmp_path / "cache")


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[tuple[Store, Record]]:
    """A store with a result that nobody has used for long."""
    with open_store(tmp_path / "cache") as store:
        record = store.publish(KEY, make(tmp_path / "made"), {"step": "m/compile/1"})
        store.close()
        os.utime(record_file(store), (1000, 1000))
        for path in (store.root / "blobs").glob("*/*"):
            os.utime(path, (1000, 1000))
        yield store, record


@pytest.mark.usefixtures("filled")
def test_garbage_is_shown_and_then_removed(modelwheel: Modelwheel) -> None:
    said = modelwheel("cache", "gc", "--unused", "30", "--dry-run").out
    assert said == (
        "would remove 1 result (1 compile), 4 kB, and keep 0 results, 0 bytes; nothing was removed\n"
    )
    assert modelwheel("cache", "gc", "--max-size", "5kB", "--json").json["results"] == 0
    said = modelwheel("cache", "gc", "--max-size", "3.5 kB").out
    assert said == "removed 1 result (1 compile) and kept 0 results, 0 bytes; freed 4 kB\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gc", "say what to remove: --unused DAYS or --max-size SIZE"),
        ("gc --max-size 200", "--max-size 200 is not a size; write a number with kB, MB, GB or TB"),
        ("gc --max-size -1GB", "is not a size"),
        ("gc --keep-release made", "made has no wheels or source distributions"),
        ("--remove-unused 3 gc --unused 1", "cache gc cannot be combined with --remove-unused"),
        ("--json stats", "cache stats cannot be combined with --json before it"),
        ("--store cache stats", "cache stats cannot be combined with --store before it"),
        ("copy gone cache", "gone is not there; name the directory or URL of a store"),
        ("copy cache cache", "cache cannot be copied to itself"),
    ],
)
@pytest.mark.usefixtures("filled")
def test_what_cannot_be_done_is_one_sentence(
    line: str, said: str, modelwheel: Modelwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in modelwheel("cache", *line.split(), code=2).err


def test_results_of_other_specs_are_removed(
    modelwheel: Modelwheel, filled: tuple[Store, Record], tmp_path: Path
) -> None:
    spec = write_tiny_spec(tmp_path)
    assert modelwheel("cache", "gc", "--keep", spec, "--json").json["kinds"] == {"compile": 1}
    assert not record_file(filled[0]).exists()


def test_statistics_in_units_of_people(
    modelwheel: Modelwheel, filled: tuple[Store, Record]
) -> None:
    first, *rest = modelwheel("cache", "stats").out.splitlines()
    assert first == f"1 result with 3 files, 4 kB, in {filled[0].root}"
    assert any(line.split() == ["compile", "1", "4", "kB"] for line in rest)
    assert any(line.split() == ["longer", "ago", "1", "4", "kB"] for line in rest)
    found = modelwheel("cache", "stats", "--json", "--store", filled[0].root).json
    assert found["kinds"] == {"compile": {"results": 1, "bytes": filled[1].size}}


def test_a_check_names_what_is_damaged(
    modelwheel: Modelwheel, filled: tuple[Store, Record]
) -> None:
    store, record = filled
    assert "read 1 result with 3 files, 4 kB" in modelwheel("cache", "verify").out
    path = blob_file(store, record, "objects/a.o")
    path.chmod(0o644)
    path.write_bytes(CONTENT["objects/a.o"][:-1] + b"\0")
    done = modelwheel("cache", "verify", code=10)
    assert f"{path.name}: its content does not match its name (of m/compile/1)" in done.err
    assert "1 file of the store" in done.err
    assert "[MW704]" in done.err
    assert len(modelwheel("cache", "verify", "--json", code=10).json["damaged"]) == 1
    modelwheel("cache", "verify", "--remove", code=10)
    modelwheel("cache", "verify")


def test_a_store_is_copied(
    modelwheel: Modelwheel, filled: tuple[Store, Record], tmp_path: Path
) -> None:
    target = tmp_path / "target"
    said = modelwheel("cache", "copy", filled[0].root, target).out
    assert said == f"copied 1 result, 4 kB, to {target}; 0 were there\n"
    assert "; 1 were there" in modelwheel("cache", "copy", filled[0].root, target).out
