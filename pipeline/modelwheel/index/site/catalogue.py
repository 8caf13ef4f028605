"""The catalogue: a static page that shows every model of the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from urllib.parse import urlsplit

from ...accuracy import COLUMNS
from ...assembly.manifest import Manifest
from ...signature import Tensor
from ...util.words import count, shape_text
from ...wheelfile.reports import Comparison, notes_on_report, report_lines
from .install import install_texts
from .rendering import render
from .wheels import IndexedFile, ModelWheel

ASSETS = ("catalogue.css", "catalogue.js")

PLACEHOLDER_URL = "INDEX-URL/"
"""In install texts if the site's address is not known; the script replaces it with the page's own."""


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


def render_catalogue(
    wheels: Sequence[IndexedFile],
    base_url: str | None,
    index_url: str | None = None,
    template: str | None = None,
) -> dict[str, bytes]:
    """The page and its assets by their path in the site.

    Args:
        wheels: The whole index, sorted by project and version. The newest version of each model is
            shown.
        base_url: Where wheels are served, ending with a slash; None for relative links.
        index_url: The simple API for the install texts; None if it is not known.
        template: The address of each wheel, if they are elsewhere; see `IndexedFile.link`.
    """
    models = [wheel for wheel in wheels if isinstance(wheel, ModelWheel)]
    address = index_url or f"{base_url or PLACEHOLDER_URL}simple/"
    cards = [
        _card(list(group), wheels, lambda wheel: wheel.link(base_url or "", template), address)
        for _, group in groupby(models, key=lambda wheel: wheel.project)
    ]
    static = Path(__file__).with_name("static")
    return {
        "index.html": render("catalogue.html.j2", cards=cards, placeholder=PLACEHOLDER_URL),
        **{name: (static / name).read_bytes() for name in ASSETS},
    }


def _card(
    releases: Sequence[ModelWheel],
    index: Sequence[IndexedFile],
    link: Callable[[IndexedFile], str],
    index_url: str,
) -> dict[str, object]:
    newest = releases[-1].version
    wheels = [wheel for wheel in releases if wheel.version == newest]
    manifest = wheels[0].manifest
    comparisons = [c for wheel in wheels if wheel.report for c in wheel.report.comparisons]
    return {
        "id": wheels[0].project,
        "version": str(newest),
        "older": sorted({w.version for w in releases if w.version < newest}, reverse=True),
        "model": manifest.model,
        "install": install_texts(wheels, index, index_url),
        "tensors": _tensors(manifest),
        "sizes": manifest.batching.sizes,
        "batching": _batching_text(manifest),
        "levels": list(dict.fromkeys(level for w in wheels for level in w.manifest.levels)),
        "files": [_file(wheel, link(wheel)) for wheel in wheels],
        "passed": _passed(wheels),
        "errors": _error_bars(comparisons),
        "compared": len(comparisons),
        "columns": (*COLUMNS, "tolerance"),
        "accuracy": _accuracy(wheels),
        "notes": _notes(wheels),
        "times": _time_bars(wheels),
        "links": [(name, web_address(url), url) for name, url in manifest.model.urls.items()],
        "source": [
            (name.replace("_", " "), value, web_address(value))
            for name, value in sorted(manifest.provenance.source.items())
            # Shown with the rest of the provenance.
            if name != "tree_sha256"
        ],
        "provenance": manifest.provenance,
        "compiler": manifest.compiler,
    }


def _batching_text(manifest: Manifest) -> str:
    if not manifest.signature.batched:
        return "fixed shape"
    reason = manifest.batching.no_emulation_reason
    if reason is not None:
        return f"only these: {reason}"
    return "other sizes are split into these"


def web_address(text: str) -> str | None:
    """The text if it is an http(s) address and so safe as the target of a link; otherwise None."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.scheme in ("https", "http") and parts.netloc else None


def _tensors(manifest: Manifest) -> list[tuple[str, Tensor, str]]:
    signature = manifest.signature
    both = [("input", t) for t in signature.inputs] + [("output", t) for t in signature.outputs]
    return [
        (kind, tensor, shape_text(tensor.shape, tensor.leading_per_row, tensor.extents))
        for kind, tensor in both
    ]


def _file(wheel: ModelWheel, url: str) -> dict[str, object]:
    return {
        "name": wheel.name,
        "url": url,
        "python": wheel.python,
        "platform": wheel.platform,
        "requires_python": wheel.requires_python,
        "size": wheel.size,
        "library": wheel.sizes.library,
        "sha256": wheel.sha256,
        "parts": _parts(wheel),
    }


def _parts(wheel: ModelWheel) -> list[Part]:
    """Weights, machine code and runtime. The linker may merge sections, so the sum can be too large."""
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
    """Whether all verified wheels agree with their reference; None if none was verified."""
    verdicts = [wheel.report.passed for wheel in wheels if wheel.report]
    return all(verdicts) if verdicts else None


def _error_bars(comparisons: Sequence[Comparison]) -> list[Bar]:
    """The worst error of each output and level, as a share of the allowed error."""
    worst: dict[tuple[str, str], Comparison] = {}
    for comparison in comparisons:
        key = (comparison.label, comparison.level)
        if key not in worst or _share(comparison) > _share(worst[key]):
            worst[key] = comparison
    return [
        Bar(key, _percent(_share(c)), f"{c.absolute:.2g} of {c.limit:.2g}")
        for key, c in worst.items()
    ]


def _accuracy(wheels: Iterable[ModelWheel]) -> list[tuple[str, ...]]:
    """The lines of all reports; those of the reference are the same in each."""
    reports = (wheel.report for wheel in wheels if wheel.report)
    lines = [(*line.cells, line.limit) for report in reports for line in report_lines(report)]
    return list(dict.fromkeys(lines))


def _notes(wheels: Iterable[ModelWheel]) -> list[str]:
    """What was not compared or not run, in any of the reports."""
    reports = (wheel.report for wheel in wheels if wheel.report)
    return list(dict.fromkeys(note for report in reports for note in notes_on_report(report)))


def _share(comparison: Comparison) -> float:
    # A limit of 0 means that outputs must be equal: the bar is empty or full.
    if comparison.limit > 0:
        return comparison.absolute / comparison.limit
    return float(comparison.absolute > 0)


def _time_bars(wheels: Iterable[ModelWheel]) -> list[Bar]:
    """The time of one row for each number of rows, relative to the slowest."""
    timed = [
        (wheel, timing, timing.nanoseconds / 1000 / max(timing.rows, 1))
        for wheel in wheels
        for timing in wheel.timings
    ]
    slowest = max((micros for _, _, micros in timed), default=0.0) or 1.0
    return [
        Bar(
            (count(timing.rows, "row"), f"{timing.level}, {wheel.platform}"),
            _percent(micros / slowest),
            f"{micros:.3g} µs",
        )
        for wheel, timing, micros in timed
    ]


def _percent(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.2f}"
