"""Compares wheels with other runtimes on the same model: speed, memory, start, sizes."""

from __future__ import annotations
