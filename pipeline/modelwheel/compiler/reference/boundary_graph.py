"""The graph of a model as boundary rows need it: in float64, with results that round elsewhere, under rules for NaN, by XLA."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

from ...errors import UnsupportedModelError
from ...model.reference_result import Reference
from ...util.text import one_line
from ...workers.jobs import ReferenceRequest
from ..freeze.frozen import FrozenGraph, freeze_graph
from ..loaded.base import Arrays, LoadedModel
from .truth.double import widen_graph
from .truth.evaluate import run_calls, run_compiled
from .truth.find import require_small
from .truth.largest import largest_value
from .truth.magnitudes import narrow_of, scales_of
from .truth.nan_rules import has_reductions, meets_nan, run_under_rules
from .truth.parts import exact_part
from .truth.pieces import Pieces, find_pieces
from .truth.rounding import has_ties, measure_rounding, sorts
from .truth.spread import measure_spread
from .turns import turns_by_values

_DRAWS = 4
"""Evaluations that show how far rounding moves the results of these rows."""


class BoundaryGraph:
    """The frozen graph for boundary rows, evaluated in other ways than by TensorFlow's float32."""

    def __init__(self, loaded: LoadedModel, inputs: Arrays, request: ReferenceRequest) -> None:
        self._loaded, self._request = loaded, request
        self.inexact: Mapping[str, str] = {}
        """Why outputs have no form in float64, by name."""
        self._given = inputs
        self._pieces = Pieces(1, 1, 0)

    def split(self, summary: Reference) -> None:
        """Evaluates few rows at once from now on if the graph is large."""
        self._pieces = find_pieces(self.largest, summary, summary.boundary_rows)
        if self._pieces.is_split:
            self._frozen = self._freeze(self._pieces.first(self._given))

    @cached_property
    def _frozen(self) -> FrozenGraph:
        return self._freeze(self._given)

    def _freeze(self, inputs: Arrays) -> FrozenGraph:
        shapes = {name: array.shape for name, array in inputs.items()}
        graph = self._loaded.graph(shapes)
        return freeze_graph(graph, shapes, keep_state=self._request.keep_state)

    @cached_property
    def largest(self) -> int:
        """The elements of the largest value, for the rows that are given."""
        return largest_value(self._frozen.graph_def)

    @cached_property
    def unusable(self) -> str | None:
        """Why boundary rows must not be evaluated, as a clause."""
        try:
            if turns_by_values(self._frozen.graph_def):
                return "values decide how often a loop turns, which might then have no end"
        except UnsupportedModelError as error:
            return one_line(error)
        return None

    def exact(self, calls: list[Arrays]) -> list[Arrays]:
        """The outputs in float64, but those in `inexact`; raises NoTruthError."""
        require_small(self._frozen)
        part, self.inexact = exact_part(self._frozen)
        return self._pieces.run(partial(run_calls, widen_graph(part.graph_def), part), calls)

    @cached_property
    def scales(self) -> Mapping[str, float]:
        """See `scales_of`."""
        return scales_of(self._frozen)

    @cached_property
    def has_ties(self) -> bool:
        """See `has_ties`."""
        return has_ties(self._frozen.graph_def)

    @cached_property
    def sorts(self) -> bool:
        """See `sorts`."""
        return sorts(self._frozen.graph_def)

    def spread(self, calls: list[Arrays]) -> list[Arrays]:
        """See `measure_spread`."""
        require_small(self._frozen)
        measure = partial(measure_spread, self._frozen, ties=self.has_ties)
        narrow = narrow_of(self._frozen)
        return self._pieces.run(partial(measure, narrow=narrow, draws=_DRAWS), calls)

    def own(self, calls: list[Arrays]) -> list[Arrays]:
        """The outputs in the types of the graph."""
        return self._pieces.run(partial(run_calls, self._frozen.graph_def, self._frozen), calls)

    def meets_nan(self, inputs: Arrays) -> bool:
        """See `meets_nan`; not of a large graph."""
        return not self._pieces.is_split and meets_nan(self._frozen, inputs)

    def rounded(self, calls: list[Arrays]) -> list[Arrays]:
        """See `measure_rounding`."""
        return self._pieces.run(partial(measure_rounding, self._frozen, draws=_DRAWS), calls)

    def under_rules(self, inputs: Arrays) -> list[Arrays]:
        """See `run_under_rules`; nothing if there is one rule."""
        if self._frozen.state or not has_reductions(self._frozen):
            return []
        return run_under_rules(self._frozen, [inputs])[0]

    def compiled(self, calls: list[Arrays]) -> list[Arrays]:
        """The outputs by XLA; raises NoTruthError."""
        return self._pieces.run(partial(run_compiled, self._frozen), calls)
