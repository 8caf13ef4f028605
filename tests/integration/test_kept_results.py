"""A collection keeps what specs and releases need, and the next build runs nothing of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.store.opening import open_store
from modelwheel.store.upkeep.inventory import take_inventory
from modelwheel.util.files import digest_file
from tests.support.commands import Modelwheel
from tests.support.wheels import Built


@pytest.fixture
def copied(modelwheel: Modelwheel, built: Built, tmp_path: Path) -> Modelwheel:  # noqa: ARG001
    """A store of its own with all results."""
    target = tmp_path / "store"
    modelwheel("cache", "copy", modelwheel.cache, target)
    return Modelwheel(target)


def _wheels(store: Modelwheel) -> set[str]:
    """The wheels that a store has, by their hashes: specs that differ in a comment build the same one."""
    inventory = take_inventory(open_store(store.cache).backend)
    files = (item for one in inventory.records for item in one.record.files.items())
    return {file.sha256 for name, file in files if name.endswith(".whl")}


def test_what_a_spec_needs_stays(copied: Modelwheel, built: Built) -> None:
    spec = built.spec("mlp")
    dry = copied("cache", "gc", "--keep", spec, "--dry-run", "--json").json
    done = copied("cache", "gc", "--keep", spec, "--json").json
    assert dry["kinds"] == done["kinds"]
    assert _wheels(copied) == {digest_file(built.wheel("mlp")).sha256}
    assert copied.missing(spec) == []
    assert "wheel" in copied.missing(built.spec("kinds"))
    copied("cache", "verify")


def test_what_a_wheel_was_made_from_stays(copied: Modelwheel, built: Built) -> None:
    copied("cache", "gc", "--keep-release", built.wheel("kinds"))
    assert _wheels(copied) == {digest_file(built.wheel("kinds")).sha256}
    assert copied.missing(built.spec("kinds")) == []
    assert "wheel" in copied.missing(built.spec("mlp"))


def test_a_wheel_of_another_store(copied: Modelwheel, built: Built, tmp_path: Path) -> None:
    other = Modelwheel(tmp_path / "other")
    said = other("cache", "gc", "--keep-release", built.wheel("kinds"), code=10).err
    assert "has nothing that" in said
    assert "[MW705]" in said
    assert copied("cache", "gc", "--keep-release", built.wheel("kinds").parent, "--dry-run")
