"""Whose error it is that exceeds a tolerance."""

from __future__ import annotations

import re

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
        (Truth(framework=deviate(1e-6), moved=deviate(0.5), sensitive={"y": "3 of 4 rows, which change"}),
         r"is sensitive on these rows \(3 of 4 rows, which change; up to 0.5\), .* verify\.samples"),
        # Other rows may move more than this one is allowed to.
        (Truth(framework=deviate(1e-6), moved=deviate(0.5)), "own error is 1e-06, so the wheel"),
        (Truth(framework=deviate(1e-6), xla=deviate(0.2)), "XLA computes something else: .* is 0.2 from the exact result"),
        (Truth(framework=deviate(1e-6), xla=deviate(1e-6)), "own error is 1e-06, so the wheel"),
        (Truth(missing="of its types"), r"only TensorFlow says .* \(of its types\): set verify\.outputs\.y\.rtol"),
        (Truth(missing="why", evaluator="PyTorch"), "if PyTorch's own results"),
        (Truth(missing="why", narrow={"y": "float16"}), "through float16, of which 4 units"),
        (Truth(framework=deviate(1e-6), evaluator="ONNX Runtime"), "ONNX Runtime's own error is 1e-06"),
        (Truth(evaluator="ONNX Runtime", without={"y": "they differ"}, converted={"y": "they differ"}),
         r"the conversion of the model computes something else than ONNX Runtime \(they differ\)"),
    ],
)  # fmt: skip
def test_an_error_has_an_owner(truth: Truth, said: str) -> None:
    failed = Comparison(
        level="x86-64", rows=4, rule="4:4", output="y", absolute=0.3, relative=0.3, limit=0.1,
        passed=False, exact=truth.missing is None and not truth.without,
    )  # fmt: skip
    report = Report(passed=False, comparisons=(failed,), skipped={}, truth=truth)
    with pytest.raises(VerifyError, match=said) as raised:
        require_passed(report, "a.whl")
    # Where float64 says what is right, no tolerance makes another number right.
    if failed.exact or truth.converted:
        assert not re.search(r"rtol|raise", str(raised.value))


def test_a_way_of_calling_that_changes_results_is_the_fault_of_the_wheel() -> None:
    failed = Comparison(
        level="x86-64", rows=4, rule="4:4", output="y", absolute=0.3, relative=0.3, limit=0.1,
        passed=False, circumstance="beside extreme rows",
    )  # fmt: skip
    report = Report(passed=False, comparisons=(failed,), skipped={}, truth=Truth(missing="why"))
    with pytest.raises(VerifyError, match="when it is called in this way; please report it"):
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
