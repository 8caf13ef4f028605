"""The catalogue: one static page that shows every model of the index."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from urllib.parse import quote, urlsplit

from ...assembly.manifest import Manifest
from ...signature import Tensor
from ...wheelfile.reports import Comparison
from .rendering import render
from .wheels import ModelWheel

ASSETS = ("catalogue.css", "catalogue.js")

PLACEHOLDER_URL = "INDEX-URL/"
"""In install lines where the site's address is not known; the script puts the page's own there."""


@dataclass(frozen=True)
class Bar:
    """One bar of a plot, with its text."""

    labels: tuple[str, ...]
    width: str
    """Of the bar, in percent."""
    value: str


@dataclass(frozen=True)
class Part:
    """One part of a library, as a piece of a stacked bar."""

    name: str
    size: int
    start: str
    """Where it begins, in percent."""
    width: str
    """In percent."""


def render_catalogue(wheels: Sequence[ModelWheel], base_url: str | None) -> dict[str, bytes]:
    """The page and its assets by their path in the site.

    Args:
        wheels: Sorted by project and version; the newest version of each project is shown.
        base_url: Where the site is served, ending with a slash, if it is known.
    """
    cards = [
        _card(list(group), base_url)
        for _, group in groupby(wheels, key=lambda wheel: wheel.project)
    ]
    static = Path(__file__).with_name("static")
    return {
        "index.html": render("catalogue.html.j2", cards=cards, placeholder=PLACEHOLDER_URL),
        **{name: (static / name).read_bytes() for name in ASSETS},
    }


def _card(releases: Sequence[ModelWheel], base_url: str | None) -> dict[str, object]:
    newest = releases[-1].version
    wheels = [wheel for wheel in releases if wheel.version == newest]
    manifest = wheels[0].manifest
    index_url = shlex.quote(f"{base_url or PLACEHOLDER_URL}simple/")
    comparisons = [c for wheel in wheels if wheel.report for c in wheel.report.comparisons]
    return {
        "id": wheels[0].project,
        "version": str(newest),
        "older": sorted({w.version for w in releases if w.version < newest}, reverse=True),
        "model": manifest.model,
        "install": f"pip install --index-url {index_url} {wheels[0].project}",
        "tensors": _tensors(manifest),
        "sizes": manifest.batching.sizes,
        "no_emulation_reason": manifest.batching.no_emulation_reason,
        "levels": list(dict.fromkeys(level for w in wheels for level in w.manifest.levels)),
        "files": [_file(wheel, base_url or "") for wheel in wheels],
        "passed": _passed(wheels),
        "errors": _error_bars(comparisons),
        "compared": len(comparisons),
        "times": _time_bars(wheels),
        "links": [(name, web_address(url), url) for name, url in manifest.model.urls.items()],
        "source": [
            (name.replace("_", " "), value, web_address(value))
            for name, value in sorted(manifest.provenance.source.items())
            if name != "tree_sha256"
        ],
        "provenance": manifest.provenance,
        "compiler": manifest.compiler,
    }


def web_address(text: str) -> str | None:
    """The text where it is safe as the target of a link: an address of the web; else None."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.scheme in ("https", "http") and parts.netloc else None


def _tensors(manifest: Manifest) -> list[tuple[str, Tensor, str]]:
    signature = manifest.signature
    both = [("input", t) for t in signature.inputs] + [("output", t) for t in signature.outputs]
    return [(kind, tensor, _shape_text(tensor)) for kind, tensor in both]


def _shape_text(tensor: Tensor) -> str:
    k = tensor.leading_per_row
    batch = "batch" if k == 1 else f"batch * {k}"
    return f"[{', '.join(batch if e is None else str(e) for e in tensor.shape)}]"


def _file(wheel: ModelWheel, base_url: str) -> dict[str, object]:
    return {
        "name": wheel.name,
        "url": base_url + quote(wheel.name),
        "python": wheel.python,
        "platform": wheel.platform,
        "requires_python": wheel.requires_python,
        "size": wheel.size,
        "library": wheel.sizes.library,
        "sha256": wheel.sha256,
        "parts": _parts(wheel),
    }


def _parts(wheel: ModelWheel) -> list[Part]:
    """Weights, machine code and runtime; linking may pack them closer than they are counted."""
    sizes = wheel.sizes
    named = {
        "weights": sizes.weights,
        "machine code": sizes.machine_code,
        "runtime": max(sizes.runtime, 0),
    }
    whole, start, parts = max(sum(named.values()), 1), 0, []
    for name, size in named.items():
        parts.append(Part(name, size, _percent(start / whole), _percent(size / whole)))
        start += size
    return parts


def _passed(wheels: Iterable[ModelWheel]) -> bool | None:
    """Whether all that was verified agreed with TensorFlow; None where nothing was."""
    verdicts = [wheel.report.passed for wheel in wheels if wheel.report]
    return all(verdicts) if verdicts else None


def _error_bars(comparisons: Sequence[Comparison]) -> list[Bar]:
    """For each output and level its worst error, as a share of what is allowed."""
    worst: dict[tuple[str, str], Comparison] = {}
    for comparison in comparisons:
        key = (comparison.output, comparison.level)
        if key not in worst or _share(comparison) > _share(worst[key]):
            worst[key] = comparison
    return [
        Bar(key, _percent(_share(c)), f"{c.absolute:.2g} of {c.limit:.2g}")
        for key, c in worst.items()
    ]


def _share(comparison: Comparison) -> float:
    if comparison.limit > 0:
        return comparison.absolute / comparison.limit
    return float(comparison.absolute > 0)


def _time_bars(wheels: Iterable[ModelWheel]) -> list[Bar]:
    """For each number of rows the time of one row; the slowest fills the plot."""
    timed = [
        (wheel, timing, timing.nanoseconds / 1000 / max(timing.rows, 1))
        for wheel in wheels
        for timing in wheel.timings
    ]
    slowest = max((micros for _, _, micros in timed), default=0.0) or 1.0
    return [
        Bar(
            (f"{timing.rows} row{'s' * (timing.rows != 1)}", f"{timing.level}, {wheel.platform}"),
            _percent(micros / slowest),
            f"{micros:.3g} µs",
        )
        for wheel, timing, micros in timed
    ]


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.2f}"
