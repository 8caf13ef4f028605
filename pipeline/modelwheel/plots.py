"""Plots as SVG: the same bytes for the same data and the same Matplotlib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import extras
from .util.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    extras.require("plot", "plotting")
    import io

    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # A figure of its own: pyplot has state that all of a process shares, and looks for a window.
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title)
        yield axes
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    write_atomically(path, content.getvalue())
