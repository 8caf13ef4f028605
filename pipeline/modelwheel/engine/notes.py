"""Notes in the store about a step beside its result: its inputs by name, and the time it took.

Nothing is decided by it: `modelwheel plan --why` and `plan --cost` read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import __version__
from ..levels import cpu_name
from ..store.history import remember
from ..store.keys import action_key, digest
from ..store.records import Record
from ..store.store import Store
from ..util.removal import folders_of
from ..util.text import one_line
from ..util.trees import digest_tree
from ..workers.jobs import JobResult

_LONGEST = 300
"""Characters of a text that a note holds as it is."""

_LARGEST = 200
"""Entries of a list, such as the labels of a model's classes, that a note holds as they are."""

_LONGEST_SECONDS = 1e7
"""No step takes longer."""

CONDENSED = "sha256:"
"""What the hash begins with that stands for a longer text or list."""


@dataclass(frozen=True)
class Work:
    """A step that has run."""

    name: str
    kind: str
    lineage: str
    """See `Step.lineage`."""
    inputs: Mapping[str, Any]
    """What its key is made of; see `Step.key_inputs`."""
    meanings: Mapping[str, Mapping[str, Any]]
    """See `Step.meanings`."""
    model: Path
    """The model's directory, whose size is the measure of what steps take."""
    used: JobResult
    """What it took."""
    needs: Mapping[str, str] = field(default_factory=dict)
    """The keys of the results that it used, by the names of their steps."""

    def publish(self, out: Path, store: Store) -> Record:
        """Stores the files of a directory as its result, with all that is known about it."""
        key = action_key(self.kind, **self.inputs)
        for hashed, meaning in self.meanings.items():
            _keep_meaning(hashed, meaning, store)
        remember(store, self.lineage, key)
        return store.publish(key, out, self.note())

    def note(self) -> Mapping[str, Any]:
        """The note of its record."""
        measured = {"cpu_seconds": self.used.cpu_seconds, "peak_bytes": self.used.peak_bytes}
        return {
            "step": self.name,
            "kind": self.kind,
            "inputs": condense(self.inputs),
            "needs": dict(self.needs),
            "seconds": round(self.used.seconds, 3),
            **{name: round(value, 3) for name, value in measured.items() if value is not None},
            "model_bytes": _size(self.model),
            "host": _host(),
            "modelwheel": __version__,
        }


@lru_cache(maxsize=1024)
def _size(directory: Path) -> int:
    """Bytes of the files in the directory of a model, which has a name of its own in each build: looked at once for all
    steps. Those that vanish meanwhile are left out: a note fails no step."""
    size = 0
    for _, files in folders_of(directory):
        for path in files:
            with suppress(OSError):
                size += path.stat().st_size
    return size


def model_files(model: Path) -> dict[str, str]:
    """The SHA-256 of each file of a model."""
    return {name: file.sha256 for name, file in digest_tree(model).items()}


def noted_inputs(record: Record) -> Mapping[str, Any]:
    """The inputs of a result by its record; empty if the record does not say."""
    inputs = record.note.get("inputs")
    return inputs if isinstance(inputs, Mapping) else {}


def noted_seconds(record: Record) -> float | None:
    """The seconds of a step by its record; None if the record does not say."""
    seconds = record.note.get("seconds")
    if isinstance(seconds, (int, float)) and 0 <= seconds < _LONGEST_SECONDS:
        return float(seconds)
    return None


def meaning_key(hashed: str) -> str:
    """The key of the record whose note says what a hash stands for."""
    return action_key("meaning", of=hashed)


def _keep_meaning(hashed: str, meaning: Mapping[str, Any], store: Store) -> None:
    """Keeps what a hash stands for, once for all steps that have it among their inputs."""
    key = meaning_key(hashed)
    # Looked up, not only found, so that what is in use stays in the store.
    if store.lookup(key) is None:
        note = {"step": f"meaning of {hashed[:12]}", "kind": "meaning", "inputs": condense(meaning)}
        with store.scratch() as nothing:
            store.publish(key, nothing, note)


def condense(value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object in which long texts and long lists are replaced by their hashes."""
    condensed: dict[str, Any] = json.loads(json.dumps(_condense(value)))
    return condensed


def _condense(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _condense(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_condense(item) for item in value] if len(value) <= _LARGEST else _hash(value)
    return _hash(value) if isinstance(value, str) and len(value) > _LONGEST else value


def _hash(value: Any) -> str:
    return CONDENSED + digest({"value": value})


@lru_cache(maxsize=1)
def _host() -> str:
    return one_line(cpu_name())
