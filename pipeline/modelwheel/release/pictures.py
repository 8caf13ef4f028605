"""Pictures of measurements as SVG: the time of a call beside the released version's and the framework's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape

from ..util.text import one_line
from ..util.words import count, time_text
from .measure import Measurement

_WIDTH, _LABEL, _ROW = 720, 260, 22
"""Of the picture, of the names at its left, and of a bar with the space below it, in pixels."""
_COLOURS = {"wheel": "#2f6fde", "released": "#9aa5b1", "framework": "#e0913a"}


def draw_times(measurement: Measurement) -> str:
    """Bars with a logarithmic length, so that a hundredth can be seen; empty if nothing was timed."""
    bars = list(_bars(measurement))
    if not bars:
        return ""
    least = min(nanoseconds for _, _, nanoseconds in bars) / 3
    whole = math.log(max(nanoseconds for _, _, nanoseconds in bars) / least)
    model = measurement.manifest.model
    title = f"{model.name} {model.version}: time of a call (logarithmic)"
    size = f'width="{_WIDTH}" height="{_ROW * (len(bars) + 2)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f"<title>{_text(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="{_ROW}" font-weight="bold">{_text(title)}</text>',
    ]
    for number, (kind, label, nanoseconds) in enumerate(bars, start=2):
        top = number * _ROW - _ROW // 2
        width = (_WIDTH - _LABEL - 80) * math.log(nanoseconds / least) / whole
        end = _LABEL + width + 6
        lines += [
            f'<text x="{_LABEL - 8}" y="{top + 12}" text-anchor="end">{_text(label)}</text>',
            f'<rect x="{_LABEL}" y="{top}" width="{width:.1f}" height="{_ROW - 6}" fill="{_COLOURS[kind]}"/>',
            f'<text x="{end:.1f}" y="{top + 12}">{time_text(nanoseconds / 1e9)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _bars(measurement: Measurement) -> Iterator[tuple[str, str, float]]:
    """Kind, label and nanoseconds, by the number of rows."""
    released = measurement.released
    sides = [("wheel", "this wheel", measurement.timings)]
    if released is not None:
        sides.append(("released", released.version, released.timings))
    for framework in dict.fromkeys(timing.framework for timing in measurement.framework):
        sides.append(("framework", framework.partition(" on ")[0], measurement.framework))
    for rows in dict.fromkeys(timing.rows for timing in measurement.timings):
        for kind, name, timings in sides:
            for timing in timings:
                if timing.rows == rows and timing.nanoseconds > 0:
                    yield kind, f"{count(rows, 'row')}, {name}", timing.nanoseconds


def _text(text: str) -> str:
    return escape(one_line(text))
