"""A model in float64, for inputs of any shapes: it says what float32 is too noisy for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from ....errors import UnsupportedModelError
from ...freeze.frozen import freeze_graph
from ...loaded.base import Arrays, LoadedModel
from .double import widen_graph
from .evaluate import opened
from .find import require_small
from .missing import NoTruthError

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class Exactly:
    """Evaluates a model without state; a graph for each combination of shapes is kept until it is closed."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self._stack = ExitStack()
        self._calls: dict[_Shapes, Callable[[Arrays], Arrays]] = {}

    def close(self) -> None:
        """Ends the sessions."""
        self._stack.close()

    def __call__(self, inputs: Arrays) -> Arrays:
        """All outputs.

        Raises:
            NoTruthError: One of them has no form in float64 that means the same.
        """
        shapes = {name: values.shape for name, values in inputs.items()}
        key = tuple(sorted(shapes.items()))
        if key not in self._calls:
            self._calls[key] = self._open(shapes)
        return self._calls[key](inputs)

    def _open(self, shapes: dict[str, tuple[int, ...]]) -> Callable[[Arrays], Arrays]:
        try:
            frozen = freeze_graph(self._loaded.graph(shapes), shapes)
        except UnsupportedModelError as error:
            raise NoTruthError(str(error)) from error
        require_small(frozen)
        return self._stack.enter_context(opened(widen_graph(frozen.graph_def), frozen))
