"""A file with the events of a build in which everything happens."""

from __future__ import annotations

import json
from pathlib import Path

BUILD = "0123456789ab"

LINES: list[tuple[str, str, dict[str, object]]] = [
    ("10:00:00", "began", {"version": "1.2.0", "host": "driver"}),
    ("10:00:00", "connected", {"address": "tls://scheduler:8786"}),
    ("10:00:00", "worker_joined", {"worker": "w-1", "slots": 1}),
    ("10:00:00", "worker_joined", {"worker": "w-2", "slots": 1}),
    ("10:00:01", "planned", {"steps": ["net-1/fetch", "net-1/freeze/b1", "net-1/freeze/b4"]}),
    ("10:00:01", "planned", {"steps": ["bad-1/fetch", "bad-1/inspect", "bad-1/wheel"]}),
    ("10:00:02", "cached", {"step": "net-1/fetch", "seconds": 0.0, "bytes": 1000}),
    ("10:00:02", "started", {"step": "net-1/freeze/b1", "worker": "w-1"}),
    ("10:00:03", "worker_lost", {"worker": "w-1", "why": "<b>killed</b>"}),
    ("10:00:03", "retried", {"step": "net-1/freeze/b1", "worker": "w-1", "attempt": 2}),
    ("10:00:03", "started", {"step": "net-1/freeze/b1", "worker": "w-2"}),
    ("10:00:33", "finished", {"step": "net-1/freeze/b1", "seconds": 30.0, "bytes": 2_000_000}),
    ("10:00:34", "failed", {"step": "bad-1/inspect", "message": "no\u202e", "code": "MW400"}),
    ("10:00:34", "started", {"step": "net-1/freeze/b4", "worker": "w-2"}),
]


def write(path: Path, *, build: str = BUILD, day: int = 1, ended: bool = True) -> Path:
    """Appends the events of a build, which may still run; returns the path."""
    lines = [*LINES, *([("10:02:00", "ended", {"result": "failed", "seconds": 120.0})] * ended)]
    with path.open("a") as file:
        for time, event, fields in lines:
            stamp = f"2026-03-{day:02}T{time}.000Z"
            line = {"time": stamp, "build": build, "event": event, **fields}
            file.write(json.dumps(line) + "\n")
    return path
