"""The binding of compiled models: opens a model's library and evaluates it.

Packages of models call this; they offer the interface that is meant for people.
"""

from ._core import Evaluator, Library, __version__, open_library

__all__ = ["Evaluator", "Library", "__version__", "open_library"]
