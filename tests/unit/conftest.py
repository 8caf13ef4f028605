"""What unit tests share: commands start quickly, and an empty store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from modelwheel.store.store import Store
from tests.support import commands
from tests.support.stores import open_store

commands.preload = True


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store, which is closed after the test."""
    with open_store(tmp_path / "store") as opened:
        yield opened
