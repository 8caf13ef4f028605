"""The result of building the wheels of one source distribution."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import ModelwheelError
from ..wheelfile.reports import read_timings, write_framework


@dataclass(frozen=True)
class Outcome:
    """The wheels of one source distribution, or why there are none."""

    sdist: Path
    wheels: tuple[Path, ...]
    """Empty if the build failed."""
    seconds: float
    error: ModelwheelError | None = None


def record_outcome(sdist: Path, build: Callable[[], tuple[Path, ...]]) -> Outcome:
    """Builds the wheels of a source distribution; an error becomes part of the outcome.

    The wheels get the times of the framework that are beside the source distribution.
    """
    start = time.monotonic()
    wheels: tuple[Path, ...] = ()
    error = None
    try:
        framework = [timing for timing in read_timings(sdist) if timing.framework]
        wheels = build()
        for wheel in wheels:
            write_framework(framework, wheel)
    # Only expected errors: a bug must not pass for a wheel that cannot be built.
    except ModelwheelError as caught:
        error = caught
    return Outcome(sdist, wheels, round(time.monotonic() - start, 1), error)
