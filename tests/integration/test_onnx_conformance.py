"""A tenth of ONNX's conformance suite: converted, compiled by XLA and compared. `make onnx-conformance` runs all of it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("onnx") is None, reason="onnx is not installed"),
]


def test_a_tenth_of_the_suite_passes_or_is_refused_with_a_reason() -> None:
    from tests.conformance.cases import names
    from tests.conformance.run import run_cases

    outcomes = list(run_cases(names()[::10]))
    assert [o for o in outcomes if o.verdict in ("wrong", "crashed")] == []
    applicable = [o for o in outcomes if o.verdict != "not applicable"]
    refused = [o for o in applicable if o.verdict == "refused"]
    assert len(applicable) > 150
    assert len(refused) <= 0.03 * len(applicable)
    assert [o for o in refused if "; " not in o.reason] == []  # a reason and a way out
