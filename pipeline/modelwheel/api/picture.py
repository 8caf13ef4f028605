"""Pictures of results in notebooks: HTML with SVG in it, without scripts, in the colours of the notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ..util.text import one_line
from ..util.words import percent, shape_text, size_text

if TYPE_CHECKING:
    from ..model.findings import Finding

_WIDTH = 320
_ROW = 18
_BAR = 160
_GREEN, _RED, _PARTS = "#2e8b57", "#c0392b", ("#4c78a8", "#f58518", "#b0b0b0")


def found(findings: Sequence[Finding]) -> str:
    """A table of findings; nothing if there are none."""
    return table(("found", ""), [(finding.severity, str(finding)) for finding in findings])


def free_shape(shape: Sequence[int | None]) -> str:
    """A shape as a model declares it."""
    # One free axis is the batch in most models; several are shown as such.
    if shape.count(None) == 1:
        return shape_text(shape)
    return f"[{', '.join('?' if extent is None else str(extent) for extent in shape)}]"


def line(text: str) -> str:
    """A line of text."""
    return f"<div>{_text(text)}</div>"


def _text(value: object) -> str:
    return escape(one_line(value))


def card(title: str, below: str, parts: Iterable[str]) -> str:
    """A frame with a title, a line below it, and further parts, which are HTML."""
    body = "".join(part for part in parts if part)
    return (
        '<div style="border:1px solid #8886;border-radius:6px;padding:.6em 1em;max-width:46em;display:inline-block">'
        f"<strong>{_text(title)}</strong><div>{_text(below)}</div>{body}</div>"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; nothing if it has no rows."""
    if not rows:
        return ""
    head = "".join(f"<th>{_text(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<table style="margin:.4em 0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def errors(shares: Sequence[tuple[str, float, bool]]) -> str:
    """A bar for each CPU level: the part of the allowed error that was used."""
    bars = []
    for row, (level, share, passed) in enumerate(shares):
        y, width = row * _ROW, max(1.0, _BAR * min(share, 1.0))
        bars.append(
            f'<text x="0" y="{y + 13}">{_text(level)}</text>'
            f'<rect x="90" y="{y + 3}" width="{_BAR}" height="12" fill="#8883"/>'
            f'<rect x="90" y="{y + 3}" width="{width:.1f}" height="12" fill="{_GREEN if passed else _RED}"/>'
            f'<text x="{95 + _BAR}" y="{y + 13}">{_text(percent(share))}</text>'
        )
    return _svg("error, of what is allowed", bars, len(shares) * _ROW) if bars else ""


def stack(parts: Sequence[tuple[str, int]]) -> str:
    """One bar that is divided as the library is, and its legend."""
    total = max(1, sum(max(0, size) for _, size in parts))
    shapes, x = [], 0.0
    for row, ((name, size), colour) in enumerate(zip(parts, _PARTS, strict=True)):
        width = _WIDTH * max(0, size) / total
        y = _ROW * (row + 1)
        shapes.append(
            f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="12" fill="{colour}"/>'
            f'<rect x="0" y="{y + 3}" width="10" height="10" fill="{colour}"/>'
            f'<text x="16" y="{y + 13}">{_text(name)} {_text(size_text(size))}</text>'
        )
        x += width
    return _svg("the library", shapes, _ROW * (len(parts) + 1))


def _svg(title: str, shapes: Iterable[str], height: int) -> str:
    return (
        f'<div style="margin-top:.4em">{_text(title)}</div><svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="{_text(title)}" width="{_WIDTH}" height="{height}" font-size="12" fill="currentColor">'
        f"{''.join(shapes)}</svg>"
    )
