"""Whose error it is that exceeds a tolerance."""

from __future__ import annotations

import pytest

from modelwheel.accuracy import Deviation, Truth
from modelwheel.errors import VerifyError
from modelwheel.verify.selftest import require_passed
from modelwheel.wheelfile.reports import Comparison, Report, report_lines


def deviate(absolute: float) -> tuple[Deviation, ...]:
    return (Deviation(output="y", rows=4, absolute=absolute, relative=absolute),)


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        (Truth(framework=deviate(1e-6), moved=deviate(0.5)), "is chaotic on these rows: .* moves by 0.5 "),
        (Truth(framework=deviate(1e-6), xla=deviate(0.2)), "with XLA .* is 0.2 from the exact result too"),
        (Truth(framework=deviate(1e-6), xla=deviate(1e-6)), "own error is 1e-06, so the wheel"),
        (Truth(missing="of its types"), "only if TensorFlow's own results"),
        (Truth(missing="of its types", evaluator="PyTorch"), "only if PyTorch's own results"),
        (Truth(framework=deviate(1e-6), evaluator="ONNX Runtime"), "ONNX Runtime's own error is 1e-06"),
    ],
)  # fmt: skip
def test_an_error_has_an_owner(truth: Truth, said: str) -> None:
    failed = Comparison(
        level="x86-64", rows=4, rule="4:4", output="y", absolute=0.3, relative=0.3, limit=0.1,
        passed=False, exact=truth.missing is None,
    )  # fmt: skip
    report = Report(passed=False, comparisons=(failed,), skipped={}, truth=truth)
    with pytest.raises(VerifyError, match=said):
        require_passed(report, "a.whl")


def test_replaced_parts_are_named() -> None:
    failed = Comparison(
        level="x86-64", rows=4, rule="4:4", output="y", absolute=0.3, relative=0.3, limit=0.1,
        passed=False, exact=True,
    )  # fmt: skip
    truth = Truth(framework=deviate(1e-6), xla=deviate(1e-6))
    report = Report(passed=False, comparisons=(failed,), skipped={}, truth=truth)
    with pytest.raises(
        VerifyError, match="compute something else: 'a' of acme 1, 'b' of modelwheel; leave"
    ):
        require_passed(report, "a.whl", ["'a' of acme 1", "'b' of modelwheel"])


def test_weights_of_fewer_bits_are_named() -> None:
    failed = Comparison(
        level="x86-64", rows=4, rule="4:4", output="y", absolute=0.3, relative=0.3, limit=0.1,
        passed=False, exact=True,
    )  # fmt: skip
    report = Report(
        passed=False,
        comparisons=(failed,),
        skipped={},
        truth=Truth(framework=deviate(1e-6)),
        weights_storage="int8",
    )
    with pytest.raises(
        VerifyError, match=r"the weights are stored as int8; choose a package\.weights"
    ):
        require_passed(report, "a.whl")
    assert [line.cells[1] for line in report_lines(report)] == [
        "TensorFlow",
        "x86-64, int8 weights",
    ]
