"""A static package index and a catalogue page of the models in a directory of wheels."""

from __future__ import annotations

from .write import Site, write_site

__all__ = ["Site", "write_site"]
