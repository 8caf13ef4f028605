"""Keys of actions: one hash of everything that a result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical(value: Mapping[str, Any]) -> bytes:
    """The one form of a JSON value that is hashed and signed: sorted keys, no spaces, ASCII.

    Raises:
        ValueError: It contains NaN or infinity.
    """
    # Never change a byte of this form: another one gives every action a new key, and makes every
    # record look damaged.
    return _ENCODER.encode(value).encode()


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical form of a JSON value."""
    return hashlib.sha256(canonical(value)).hexdigest()


def action_key(kind: str, **inputs: Any) -> str:
    """The key of an action: the hash of its kind and of everything its result depends on."""
    return digest({"kind": kind, "inputs": inputs})
