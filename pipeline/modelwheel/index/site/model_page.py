"""The page of one model: everything that its wheels and the files beside them say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...accuracy import COLUMNS
from ...assembly.manifest import Manifest
from ...signature import Signature, Tensor
from ...util.words import shape_text
from ...wheelfile.reports import PROVENANCE_SUFFIX, REPORT_SUFFIX, notes_on_report, report_lines
from .addresses import PLACEHOLDER_URL, Addresses
from .changes import changes_of
from .charts import Machine, draw_errors, draw_speed, machines_of
from .grid import Grid, make_grid, place_of
from .install import install_texts
from .projects import Project, Release
from .usage import Text, build_texts, example_programs
from .wheels import IndexedFile, ModelWheel


@dataclass(frozen=True)
class Part:
    """One part of a library, as a piece of a stacked bar."""

    name: str
    size: int
    start: str
    width: str


def page_values(
    project: Project, index: Sequence[IndexedFile], addresses: Addresses
) -> dict[str, object]:
    """The values in the template of a model's page.

    Args:
        project: The model.
        index: All files of the index.
        addresses: Where files are served.
    """
    release = project.newest
    manifest = release.manifest
    machines = machines_of(release)
    return {
        "project": project,
        "release": release,
        "model": manifest.model,
        "manifest": manifest,
        "install": _install(release, index, addresses),
        "programs": example_programs(manifest),
        "tensors": (tensors := _tensors(manifest.signature)),
        "notes_on_tensors": any(_has_notes(tensor) for _, tensor, _ in tensors),
        "batching": _batching_text(manifest),
        "sizes": sorted(wheel.size for wheel in release.wheels),
        "grid": (grid := make_grid(release.wheels)),
        "systems": _systems(grid),
        "files": [_file(wheel, addresses) for wheel in release.wheels],
        "urls": {file.name: addresses.file(file) for file in release.files},
        "bills": bill_paths(project),
        "speed": draw_speed(_fastest(machines)) if machines else None,
        "timed": [line for machine in machines for line in machine.lines()],
        **_errors(release),
        "versions": _versions(project),
        "links": [(name, web_address(url), url) for name, url in manifest.model.urls.items()],
        "source": [
            (name.replace("_", " "), value, web_address(value))
            for name, value in sorted(manifest.provenance.source.items())
            # Shown with the rest of the provenance.
            if name != "tree_sha256"
        ],
    }


def bill_paths(project: Project) -> dict[str, tuple[str, str]]:
    """One bill of materials for each platform of the newest version: its path in the site, and what it is."""
    bills: dict[str, tuple[str, str]] = {}
    for wheel in project.newest.wheels:
        name = place_of(wheel).name
        if wheel.bill is not None and name not in bills:
            place = re.sub(r"[^a-z0-9]+", "-", name.lower())
            file = f"{project.name}-{place}.cdx.json"
            bills[name] = (f"models/{file}", wheel.bill)
    return bills


def web_address(text: str) -> str | None:
    """The text if it is an http(s) address and so safe as the target of a link; otherwise None."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return text if parts.scheme in ("https", "http") and parts.netloc else None


def _install(
    release: Release, index: Sequence[IndexedFile], addresses: Addresses
) -> dict[str, object]:
    texts = install_texts(release.files, index, addresses.simple)
    return {
        "origin": texts.origin,
        "unknown": addresses.simple.startswith(PLACEHOLDER_URL),
        "texts": [
            Text("pip", texts.pip, "Run it in an empty environment."),
            Text(
                "uv", texts.uv, "Save it as pyproject.toml, or add it to yours; then run uv sync."
            ),
            Text(
                "Requirements",
                texts.requirements,
                "Save it as requirements.txt; then run pip install -r requirements.txt.",
            ),
            *build_texts(release.manifest, texts.pip),
        ],
    }


def _systems(grid: Grid) -> dict[str, list[str]]:
    """The architectures of each system, with the C libraries where there are several."""
    systems: dict[str, dict[str, list[str]]] = {}
    for row in grid.rows:
        of_system = systems.setdefault(row.place.system, {})
        of_system.setdefault(row.place.architecture, []).append(row.place.libc)
    return {
        system: [
            f"{name} ({', '.join(libcs)})" if len(libcs) > 1 else name
            for name, libcs in architectures.items()
            if name
        ]
        for system, architectures in systems.items()
    }


def _fastest(machines: Sequence[Machine]) -> Machine:
    """The machine with the shortest time of a row: its plot is shown, a table has the others."""
    return min(
        machines, key=lambda m: min(t.nanoseconds / max(t.rows, 1) for t in m.timings.values())
    )


def _batching_text(manifest: Manifest) -> str:
    if not manifest.signature.batched:
        return "fixed shape: each call evaluates the model once"
    reason = manifest.batching.no_emulation_reason
    if reason is not None:
        return f"only these: {reason}"
    return "any number of rows is split into these"


def _tensors(signature: Signature) -> list[tuple[str, Tensor, str]]:
    kinds = (("input", signature.inputs), ("output", signature.outputs), ("state", signature.state))
    return [
        (kind, tensor, shape_text(tensor.shape, tensor.leading_per_row, tensor.extents))
        for kind, tensors in kinds
        for tensor in tensors
    ]


def _has_notes(tensor: Tensor) -> bool:
    return bool(tensor.valid_text or tensor.labels or tensor.real)


def _errors(release: Release) -> dict[str, object]:
    reports = [wheel.report for wheel in release.wheels if wheel.report]
    lines = [(*line.cells, line.limit) for report in reports for line in report_lines(report)]
    return {
        "errors": draw_errors([c for report in reports for c in report.comparisons]),
        "columns": (*COLUMNS, "allowed"),
        # Those of the reference are the same in each report.
        "accuracy": list(dict.fromkeys(lines)),
        "notes": list(dict.fromkeys(n for report in reports for n in notes_on_report(report))),
    }


def _versions(project: Project) -> list[tuple[Release, list[str]]]:
    pairs = zip((None, *project.releases), project.releases, strict=False)
    return [(newer, changes_of(older, newer)) for older, newer in pairs][::-1]


def _file(wheel: ModelWheel, addresses: Addresses) -> dict[str, object]:
    beside = {
        title: addresses.beside(wheel, suffix)
        for title, suffix in (("attestation", PROVENANCE_SUFFIX), ("report", REPORT_SUFFIX))
        if suffix in wheel.companions
    }
    return {
        "name": wheel.name,
        "url": addresses.file(wheel),
        "size": wheel.size,
        "library": wheel.sizes.library,
        "sha256": wheel.sha256,
        "requires_python": wheel.requires_python,
        "beside": beside,
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
        begin, width = (f"{100 * part / whole:.2f}%" for part in (start, size))
        parts.append(Part(name, size, begin, width))
        start += size
    return parts
