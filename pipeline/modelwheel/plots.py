"""Plots as SVG: the same bytes for the same data and the same Matplotlib."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import extras
from .util.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COORDINATES = re.compile(rb'\s(?:d|x|y|transform|points|width|height)="[^"]*"')
_DECIMALS = re.compile(rb"(\.\d\d)\d+")

_SETTINGS: Any = {
    "svg.hashsalt": "modelwheel",  # identifiers of elements are random without
    "svg.fonttype": "none",  # text stays text, which browsers can search
    "axes.grid": True,
    "grid.alpha": 0.3,
}


@contextmanager
def svg_plot(path: Path, title: str, *, width: float = 8, height: float = 4.5) -> Iterator[Axes]:
    """Axes to draw on; the file is written when the block ends without an error.

    Args:
        path: The SVG file.
        title: Text above the plot.
        width: Inches.
        height: Inches.

    Raises:
        EnvironmentProblemError: Matplotlib is not installed.
    """
    with svg_panels(path, title, (1,), width=width, height=height) as (axes,):
        yield axes


@contextmanager
def svg_panels(
    path: Path, title: str, heights: Sequence[float], *, width: float = 8, height: float = 4.5
) -> Iterator[list[Axes]]:
    """Axes above each other that share the horizontal axis; otherwise as `svg_plot`.

    Args:
        path: The SVG file.
        title: Text above the first plot.
        heights: How high the plots are, relative to each other.
        width: Inches.
        height: Inches.

    Raises:
        EnvironmentProblemError: Matplotlib is not installed.
    """
    extras.require("plot", "plotting")
    import io

    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # A figure of its own: pyplot has state that all of a process shares, and looks for a window.
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        panels = figure.subplots(
            len(heights), sharex=True, squeeze=False, height_ratios=list(heights)
        )
        axes = list(panels[:, 0])
        axes[0].set_title(title)
        yield axes
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    write_atomically(path, _shorten(content.getvalue()))


def _shorten(svg: bytes) -> bytes:
    """Writes a picture in fewer bytes: no indentation, coordinates to a hundredth of a point."""
    lines = re.sub(rb"^ +", b"", svg, flags=re.MULTILINE)
    return _COORDINATES.sub(lambda match: _DECIMALS.sub(rb"\1", match[0]), lines)
