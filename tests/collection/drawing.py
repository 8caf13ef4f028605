"""A few shapes of SVG, with which the pictures of models are drawn: nothing that could run or load something."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby

import numpy as np
import numpy.typing as npt

BLUE, ORANGE, GREY, DARK = "#2f6fde", "#e0913a", "#c3c9d2", "#333a44"


class Drawing:
    """A picture on a white ground, for bright and dark pages.

    Args:
        title: Text at its top, and for readers who do not see it.
        width: In pixels.
        height: In pixels.
    """

    def __init__(self, title: str, width: int = 640, height: int = 220) -> None:
        self._title, self._size, self._parts = title, (width, height), list[str]()
        self.rect(0, 0, width, height, "white")
        self.text(12, 20, title, bold=True)

    def rect(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """A filled rectangle."""
        self._parts.append(
            f'<rect x="{x:.5g}" y="{y:.5g}" width="{width:.5g}" height="{height:.5g}" fill="{fill}"/>'
        )

    def text(self, x: float, y: float, text: str, *, end: bool = False, bold: bool = False) -> None:
        """A line of text that begins, or ends, at a place."""
        more = ' text-anchor="end"' * end + ' font-weight="bold"' * bold
        self._parts.append(f'<text x="{x:.5g}" y="{y:.5g}"{more}>{escape(text)}</text>')

    def sized_text(self, x: float, y: float, text: str, size: int) -> None:
        """A line of text of another size."""
        self._parts.append(
            f'<text x="{x:.5g}" y="{y:.5g}" font-size="{size}">{escape(text)}</text>'
        )

    def line(self, points: Iterable[tuple[float, float]], colour: str, width: float = 1.5) -> None:
        """A line through points."""
        path = " ".join(f"{x:.5g},{y:.5g}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )

    def bars(
        self, rows: Sequence[tuple[str, float, str]], *, top: float = 34, left: float = 220
    ) -> None:
        """A bar for each row: its label, its value from 0 to 1, and the text behind it."""
        for number, (label, value, behind) in enumerate(rows):
            y, width = top + 22 * number, max(value, 0.0) * (self._size[0] - left - 110)
            self.text(left - 8, y + 13, label, end=True)
            self.rect(left, y, width, 16, BLUE)
            self.text(left + width + 6, y + 13, behind)

    def heat(
        self,
        values: npt.NDArray[np.float32],
        x: float,
        y: float,
        cell: tuple[float, float],
        *,
        least: float = 0.1,
    ) -> None:
        """A matrix as squares, darker the nearer to 1 a value is; what is below `least` is left out."""
        shades = np.where(values < least, 0, np.ceil(6 * np.minimum(values, 1))).astype(int)
        for row, line in enumerate(shades):
            column = 0
            for shade, equal in groupby(line):
                count = len(list(equal))
                if shade:
                    fill = f"#{235 - 32 * shade:02x}{255 - 28 * shade:02x}f4"
                    place = (x + column * cell[0], y + row * cell[1])
                    self.rect(*place, count * cell[0], cell[1], fill)
                column += count

    def svg(self) -> str:
        """The file."""
        width, height = self._size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" font-family="sans-serif" font-size="13" fill="{DARK}">'
        )
        return "\n".join(
            [head, f"<title>{escape(self._title)}</title>", *self._parts, "</svg>", ""]
        )
