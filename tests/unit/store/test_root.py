"""Where the store is."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from modelwheel.store.disk import CACHE_VARIABLE, default_root


def test_the_environment_chooses_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "~/elsewhere")
    assert default_root() == Path.home() / "elsewhere"
    monkeypatch.delenv(CACHE_VARIABLE)
    assert default_root() == platformdirs.user_cache_path("modelwheel")
