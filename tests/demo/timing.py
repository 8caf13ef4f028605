"""How both sides of the demonstration are timed: alike, and when the other side rests."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

BATCHES = (1, 32)
SECONDS = 0.2
"""Time spent on each batch size in each round."""


def serve(answer: dict[str, Any], predict: Callable[[Any], Any], images: Any) -> None:
    """Prints the answer as one line of JSON, then one line of timings for each line read.

    Args:
        answer: What the side found.
        predict: Takes images of shape [n, 8, 8, 1].
        images: At least 32 of them.
    """
    print(json.dumps(answer), flush=True)  # noqa: T201 - the protocol
    for _ in sys.stdin:
        timings = {batch: _seconds_per_image(predict, images[:batch]) for batch in BATCHES}
        print(json.dumps(timings), flush=True)  # noqa: T201


def _seconds_per_image(predict: Callable[[Any], Any], images: Any) -> float:
    """The median over calls, divided by the number of images."""
    predict(images)
    times = []
    end = time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        predict(images)
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] / len(images)
