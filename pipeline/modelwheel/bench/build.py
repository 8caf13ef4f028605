"""Builds what is compared: wheels, with the seconds that they took and the programs in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..compiler.findings import Finding
from ..compiler.readings import reading_of
from ..engine.build import BuildOptions, BuildResult, Reporter, build
from ..engine.programs import stored_programs
from ..errors import ModelwheelError
from ..request import Request
from ..source import fetch as source
from ..store.store import Store
from .compare import FORMATS, Contender


@dataclass
class _Stopwatch:
    """Adds up what the steps of each request take."""

    display: Reporter

    def __post_init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.cached: set[str] = set()

    def planned(self, names: Sequence[str]) -> None:
        self.display.planned(names)

    def started(self, name: str) -> None:
        self.display.started(name)

    def progressed(self, name: str, text: str) -> None:
        self.display.progressed(name, text)

    def finished(self, name: str, seconds: float, *, cached: bool) -> None:
        request, _, step = name.partition("/")
        self.seconds[request] += seconds
        if cached and step != "fetch":
            self.cached.add(request)
        self.display.finished(name, seconds, cached=cached)

    def failed(self, name: str, error: ModelwheelError) -> None:
        self.display.failed(name, error)

    def findings(self, name: str, findings: Sequence[Finding]) -> None:
        self.display.findings(name, findings)


def build_contenders(
    requests: Sequence[Request], store: Store, options: BuildOptions, reporter: Reporter
) -> list[tuple[BuildResult, Contender | None]]:
    """Builds wheels; each contender has what a spec knows. None where the build failed."""
    stopwatch = _Stopwatch(reporter)
    results = build(requests, store, options, stopwatch)
    return [(result, _contender(result, store, stopwatch)) for result in results]


def _contender(result: BuildResult, store: Store, stopwatch: _Stopwatch) -> Contender | None:
    if result.wheel is None:
        return None
    request = result.request
    reading = reading_of(request.spec.origin, request.spec.interface_order)
    files: dict[str, Path] = {}
    if reading.format in FORMATS:
        # It has been judged before it was built, and what reads it runs in the sandbox.
        directory = source.fetch(request.spec.origin, store).directory
        files[reading.format] = directory / getattr(reading, "file", "")
    cached = request.name in stopwatch.cached
    return Contender(
        wheel=result.wheel,
        needed=result.needed,
        files=files,
        programs={level.name: stored_programs(request, store, level) for level in request.levels},
        build_seconds=None if cached else round(stopwatch.seconds[request.name], 1),
    )
