"""Builds what is compared: wheels, with the seconds that they took and the programs in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ..engine.build import BuildOptions, BuildResult, build
from ..engine.programs import stored_programs
from ..engine.reporting import Reporter, Several, SilentReporter
from ..model.readings import reading_of
from ..request import Request
from ..source import fetch as source
from ..store.store import Store
from .compare import FORMATS, Contender


class _Stopwatch(SilentReporter):
    """Adds up what the steps of each request take."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.cached: set[str] = set()

    def finished(self, name: str, seconds: float, *, cached: bool, size: int | None = None) -> None:  # noqa: ARG002
        request, _, step = name.partition("/")
        self.seconds[request] += seconds
        if cached and step != "fetch":
            self.cached.add(request)


def build_contenders(
    requests: Sequence[Request], store: Store, options: BuildOptions, reporter: Reporter
) -> list[tuple[BuildResult, Contender | None]]:
    """Builds wheels; each contender has what a spec knows. None where the build failed."""
    stopwatch = _Stopwatch()
    results = build(requests, store, options, Several(reporter, stopwatch))
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
