"""Opens the library of a compiled model and evaluates it.

The packages of models call this; use their interface instead.
"""

from ._core import Evaluator, Library, __version__, open_library

__all__ = ["Evaluator", "Library", "__version__", "open_library"]
