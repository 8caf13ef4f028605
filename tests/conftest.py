"""How tests are shared out when several processes run them: `pytest -n 2 --dist loadgroup`."""

from __future__ import annotations

import pytest

_COSTLY = ("built", "laboratory")
"""Fixtures whose users stay in one process; all other tests stay with their file."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives every test the name of its group."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        group = next((name for name in _COSTLY if name in fixtures), item.path.name)
        item.add_marker(pytest.mark.xdist_group(group))
