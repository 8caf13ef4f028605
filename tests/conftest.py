"""How tests are shared out when several processes run them: `pytest -n 2 --dist loadgroup`."""

from __future__ import annotations

import pytest

_COSTLY = ("built", "laboratory")
"""Fixtures whose users stay in one process."""


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives every test the name of its group: its file, or what costly thing any test of its file uses."""
    groups: dict[str, str] = {}
    for fixture in reversed(_COSTLY):
        groups |= {
            item.path.name: fixture
            for item in items
            if fixture in getattr(item, "fixturenames", ())
        }
    for item in items:
        item.add_marker(pytest.mark.xdist_group(groups.get(item.path.name, item.path.name)))
