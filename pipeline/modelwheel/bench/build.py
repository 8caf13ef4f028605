"""Builds what is compared: wheels, with the seconds that they took and the programs in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..engine.build import BuildOptions, BuildResult, build
from ..engine.programs import stored_programs
from ..engine.reporting import Reporter, Several, SilentReporter
from ..model.readings import reading_of
from ..request import Request
from ..source import fetch as source
from ..store.store import Store
from .compare import FORMATS, Contender
from .peers import EXPORTED_FORMATS, export_peers


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
    requests: Sequence[Request],
    store: Store,
    options: BuildOptions,
    reporter: Reporter,
    exported: Path | None = None,
) -> list[tuple[BuildResult, Contender | None]]:
    """Builds wheels; each contender has what a spec knows. None where the build failed.

    Args:
        requests: What is built.
        store: Results of steps.
        options: See `build`.
        reporter: Receives what happens.
        exported: A directory for files that models of TensorFlow's are exported to for other runtimes; by default there
            are none.
    """
    stopwatch = _Stopwatch()
    results = build(requests, store, options, Several(reporter, stopwatch))
    contenders = []
    for result in results:
        contender = _contender(result, store, stopwatch)
        reading = reading_of(result.request.spec.origin, result.request.spec.interface_order)
        if contender is not None and exported is not None and reading.format in EXPORTED_FORMATS:
            directory = exported / result.request.name
            files, failures = export_peers(result.request, store, options.sandbox, directory)
            contender = replace(contender, files={**files, **contender.files}, failures=failures)
        contenders.append((result, contender))
    return contenders


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
