"""What unit tests share: commands start quickly, examples have no deadline, and an empty store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from modelwheel.store.store import Store
from tests.support import commands
from tests.support.stores import open_store

commands.preload = True

# A busy machine takes long for any example: that is no failure.
settings.register_profile("modelwheel", deadline=None)
settings.load_profile("modelwheel")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store, which is closed after the test."""
    with open_store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds make no environment with NumPy while they wait, for a verification that never comes."""
    monkeypatch.setattr("modelwheel.engine.ahead.Ahead.start", lambda _: None)
