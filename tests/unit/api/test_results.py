"""Pictures of results: what they show, and that names from models do not become markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from modelwheel import Verdict, Wheel
from modelwheel.errors import UnsupportedModelError
from modelwheel.model.findings import Finding
from tests.support.index_wheels import add_measurements, make_wheel

HOSTILE = "<script>alert('1')</script>&\"\x1b[2J"


def test_what_a_wheel_says(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "digits", version="2.0.0")
    add_measurements(path)
    wheel = Wheel(path)
    assert (wheel.name, wheel.version, wheel.batch_sizes) == ("digits", "2.0.0", (1, 4))
    assert [tensor.name for tensor in wheel.inputs] == ["image", "points"]
    assert wheel.sizes.weights == 2000
    assert {level: one.rows for level, one in wheel.verification.items()} == {
        "x86-64": 4,  # the one that came closest to its limit
        "x86-64-v3": 1,
    }
    assert str(wheel) == str(path)
    picture = wheel._repr_html_()
    for text in ("digits 2.0.0", "[batch, 8, 8, 1]", "[batch * 3, 2]", "x86-64-v3", "40.0 %"):
        assert text in picture


def test_a_wheel_without_a_report_has_a_picture(tmp_path: Path) -> None:
    wheel = Wheel(make_wheel(tmp_path, "digits"))
    assert wheel.report is None
    assert wheel.verification == {}
    assert "machine code" in wheel._repr_html_()


def test_names_do_not_become_markup(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, "digits", HOSTILE)
    add_measurements(path, HOSTILE)
    wheel = Wheel(path, findings=[Finding("warning", "x", HOSTILE)])
    verdict = Verdict("net", "1", HOSTILE, [(HOSTILE, HOSTILE, None)], (), (), wheel.findings)
    for picture in (wheel._repr_html_(), verdict._repr_html_()):
        assert "<script" not in picture
        assert "\x1b" not in picture
        ET.fromstring(picture)  # it is whole
        assert "alert(" in picture


def test_a_notebook_gets_text_and_picture(tmp_path: Path) -> None:
    bundle = Wheel(make_wheel(tmp_path, "digits"))._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"].startswith("Wheel(path=")


def test_a_verdict_is_true_or_raises() -> None:
    assert Verdict("net", "1.0.0", "ok net: 1 kind of operation, all compiled")
    error = UnsupportedModelError("input 'x' is a string")
    refused = Verdict("net", "1.0.0", "refused net: input 'x' is a string", error=error)
    assert not refused
    with pytest.raises(UnsupportedModelError, match="is a string"):
        refused.raise_if_refused()
