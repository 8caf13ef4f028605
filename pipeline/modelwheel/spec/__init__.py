"""Specs: a model's name, its source, and how it becomes a wheel."""

from __future__ import annotations

from .batching import BatchRule
from .find import find_specs
from .load import load_spec, load_specs
from .model import Spec
from .sources import ArchiveSource, DirectorySource, GitSource

__all__ = [
    "ArchiveSource",
    "BatchRule",
    "DirectorySource",
    "GitSource",
    "Spec",
    "find_specs",
    "load_spec",
    "load_specs",
]
