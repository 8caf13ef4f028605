"""Why there is no truth."""

from __future__ import annotations


class NoTruthError(Exception):
    """A graph has no float64 form that means the same; the message is a clause. Nobody has to act on it."""
