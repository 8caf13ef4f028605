"""`package.interfaces: [..., pybind11]`: modules that others write with pybind11 use an installed wheel."""

from __future__ import annotations

import sys

import pytest

from tests.support.commands import run
from tests.support.wheels import Built

pytestmark = pytest.mark.slow


def test_the_consumer_that_travels_with_a_wheel(built: Built) -> None:
    """Built by scikit-build-core against what is installed, where its tools are; nothing is skipped."""
    tests = built.project("options") / "tests" / "test_pybind11.py"
    options = ("-q", "-p", "no:cacheprovider")
    done = run(sys.executable, "-m", "pytest", *options, tests, PYTHONPATH=str(built.packages))
    assert "5 passed" in done.out
    assert "skipped" not in done.out


def test_only_wheels_that_ask_for_it_have_the_header(built: Built) -> None:
    names = {
        name: sorted(
            path.name for path in (built.packages / built.module(name)).rglob("*pybind11*")
        )
        for name in ("options", "mlp")
    }
    assert names == {"options": ["model_options_pybind11.hpp", "pybind11.hpp"], "mlp": []}
