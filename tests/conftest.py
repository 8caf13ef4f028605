"""What all tests share: no test changes what the next one logs, and tests that tests run have options of their own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest

os.environ.pop("PYTEST_ADDOPTS", None)
# In a workflow of GitHub, commands print annotations too; tests of these set it.
os.environ.pop("GITHUB_ACTIONS", None)


@pytest.fixture(autouse=True)
def log_levels() -> Iterator[None]:
    """A command that a test runs in this process sets the level of the package's logger."""
    logger = logging.getLogger("modelwheel")
    level = logger.level
    yield
    logger.setLevel(level)
