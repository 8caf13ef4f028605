"""The model's library, opened by the extension that the packages of many models share."""

from __future__ import annotations

from modelwheel_runtime import Evaluator, Library, open_library

from ._paths import get_library

__all__ = ["Evaluator", "Library", "library"]

library: Library = open_library(get_library(), __name__.split(".")[0])
