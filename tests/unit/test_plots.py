"""Plots are SVG files that depend on their data alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.plots import svg_plot


def draw(path: Path, values: list[float]) -> bytes:
    with svg_plot(path, "Times <by rows>") as axes:
        axes.plot([1, 2], values, label="ours")
        axes.legend()
    return path.read_bytes()


def test_the_same_data_are_the_same_bytes(tmp_path: Path) -> None:
    first = draw(tmp_path / "first.svg", [1, 2])
    assert first == draw(tmp_path / "second.svg", [1, 2])
    assert first != draw(tmp_path / "third.svg", [1, 3])
    assert b">Times &lt;by rows&gt;<" in first


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no data"), svg_plot(tmp_path / "a.svg", "A"):
        raise ValueError("no data")
    assert list(tmp_path.iterdir()) == []
