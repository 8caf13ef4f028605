"""Keys of actions: one hash of everything that a result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def digest(value: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON value: sorted keys, no spaces, ASCII; NaN and infinity are refused."""
    # Never change a byte of this form: another one gives every action a new key, and makes every
    # record look damaged.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def action_key(kind: str, **inputs: Any) -> str:
    """The key of an action: the hash of its kind and of everything its result depends on."""
    return digest({"kind": kind, "inputs": inputs})
