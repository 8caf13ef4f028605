"""Calls of installed models without memory: each allocation fails in turn, and then all from there on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.allocations import compile_library, starve
from tests.support.once import Once
from tests.support.wheels import SPECS, Built

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def library(once: Once) -> Path:
    """The library that lets allocations fail."""
    return once("allocations", compile_library)


@pytest.mark.parametrize(
    "name",
    [name if name == "mlp" else pytest.param(name, marks=pytest.mark.exhaustive) for name in SPECS],
)
def test_each_allocation_that_fails_is_a_memory_error(
    built: Built, environment: Path, library: Path, name: str
) -> None:
    printed = starve(environment, library, built.module(name))
    assert "first of two threads: " in printed
    assert "unknown level: " in printed  # the last one
