"""The numbers that kernels and the compiler share: one file, which C++ has as constants."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from modelwheel.packaging.template import template_directory
from modelwheel.thresholds import THRESHOLDS, Thresholds, header

KERNELS = template_directory() / "model" / "src" / "kernels"


def test_the_header_has_every_number() -> None:
    found = re.findall(r"^inline constexpr std::int64_t (k\w+) = (\d+);$", header(), re.MULTILINE)
    assert [int(value) for _, value in found] == list(THRESHOLDS.model_dump().values())
    assert ("kWinogradLineFeatures", str(THRESHOLDS.winograd_line_features)) in found


def test_no_kernel_gives_them_a_value_of_its_own() -> None:
    """And kernels use each of them: a number that only one side needs stays there."""
    text = "".join(path.read_text("utf-8") for path in sorted(KERNELS.rglob("*.h")))
    for name in re.findall(r"(k\w+) =", header()):
        assert len(re.findall(rf"\b{name}\b", text)) > 0
        assert re.findall(rf"\b{name} = \d+;", text) == []


def test_a_misspelt_or_missing_number_is_refused() -> None:
    numbers = THRESHOLDS.model_dump()
    with pytest.raises(ValidationError, match="pannel"):
        Thresholds.model_validate({**numbers, "pannel": 16})
    with pytest.raises(ValidationError, match="line_taps"):
        Thresholds.model_validate({**numbers, "line_taps": 0})
