"""Says whether rows change by noise alone when they are among others: by float64, else by what rounding moves."""

from __future__ import annotations

import numpy as np

from ...accuracy import ROUNDINGS, UNDECIDED
from ...errors import UnsupportedModelError
from ...model.measuring import widen
from ..freeze.frozen import freeze_graph
from ..loaded.base import LoadedModel
from .rows import Arrays, Change, Rows, is_the_same
from .truth.exactly import Exactly
from .truth.find import require_small
from .truth.magnitudes import narrow_of
from .truth.missing import NoTruthError
from .truth.rounding import has_ties
from .truth.spread import measure_spread


class RowNoise:
    """An `Explain` of `.rows` for one model without state. Close it.

    It evaluates the very rows that change: whether the sum of others is positive, for example, may be the same for all
    but some.
    """

    def __init__(self, loaded: LoadedModel, *, by_spread: bool) -> None:
        """Evaluates nothing yet.

        Args:
            loaded: The model.
            by_spread: Whether what rounding moves decides about a model that has no form in float64.
        """
        self._loaded, self._by_spread = loaded, by_spread
        self._exactly = Exactly(loaded)
        self._exact: tuple[Rows, Arrays] | None = None
        self._noise: tuple[Rows, Arrays] | None = None

    def close(self) -> None:
        """Ends the sessions."""
        self._exactly.close()

    def __call__(self, rows: Rows, whole: Arrays, change: Change, changed: Arrays) -> bool:
        """Whether noise makes that outputs of rows change."""
        try:
            if self._exact is None or self._exact[0] is not rows:
                self._exact = rows, self._exactly(rows.arrays)
            changed_exactly = self._exactly(change.rows.arrays)
            return is_the_same(rows, self._exact[1], change, changed_exactly)
        except NoTruthError:
            pass
        if not self._by_spread:
            return False
        try:
            if self._noise is None or self._noise[0] is not rows:
                self._noise = rows, self._measure_noise(rows, whole)
        except (NoTruthError, UnsupportedModelError):
            return False
        return is_the_same(rows, whole, change, changed, self._noise[1])

    def _measure_noise(self, rows: Rows, whole: Arrays) -> Arrays:
        """How far rounding moves the outputs, and so other rows may; see `measure_spread`."""
        shapes = {name: values.shape for name, values in rows.arrays.items()}
        frozen = freeze_graph(self._loaded.graph(shapes), shapes)
        require_small(frozen)
        ties = has_ties(frozen.graph_def)
        (spread,) = measure_spread(frozen, [rows.arrays], narrow_of(frozen), ties=ties)
        noise = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]()
        for name, moves in spread.items():
            values = widen(whole[name])
            scale = np.abs(values[np.isfinite(values)]).max(initial=0.0)
            if whole[name].dtype.kind not in "biu" and moves.shape == values.shape:
                # What moves further decides nothing about rows either.
                limited = np.where(moves <= UNDECIDED / ROUNDINGS * scale, moves, 0.0)
                noise[name] = ROUNDINGS * limited
        return noise
