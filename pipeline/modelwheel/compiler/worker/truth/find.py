"""Finds the truth of a reference: the outputs in float64, and the errors of float32 against it.

Float32 is what the framework computed (ONNX Runtime for ONNX files), and what XLA does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from ....accuracy import NOTABLE, Deviation, Truth, worst_of
from ....errors import UnsupportedModelError
from ...jobs import ReferenceRequest
from ...measuring import measure, widen
from ...reference import Reference, case_of, exact_key, input_key, output_key
from ..formats.base import TENSORFLOW, Arrays, LoadedModel, framework_of
from ..frozen import FrozenGraph, freeze_graph
from ..lengths import Lengths
from .double import widen_graph
from .evaluate import run_calls, run_compiled
from .largest import largest_value
from .missing import NoTruthError
from .nudge import nudge
from .parts import exact_part
from .pieces import Pieces, find_pieces

PLAUSIBLE = 0.05
"""The largest error of float32, relative to the largest output, up to which float64 computes the same
model, and not one that overflows elsewhere or takes other branches."""

_ROUNDED, _ROUNDINGS = 1e-5, 16
"""The largest relative error of a framework whose model was converted to StableHLO: this, or so many times what
half a unit in the last place of all weights and inputs makes. More may be an error of the conversion,
which float64 would share with the wheel."""

_MAX_WEIGHTS = 800 << 20
"""Bytes of constants: in float64, a graph of more is larger than a message of protobuf may be."""


@dataclass(frozen=True)
class _Case:
    """One evaluation of the reference."""

    rows: int
    length: int | None = None
    call: int | None = None

    @property
    def name(self) -> str:
        return case_of(self.rows, self.call, self.length)


@dataclass(frozen=True)
class _Group:
    """Evaluations of which one graph computes all."""

    calls: tuple[Arrays, ...]
    """Inputs of calls in a row; one without state."""
    cases: tuple[tuple[_Case, ...], ...]
    """For each call, the evaluations that its first rows are."""


def find_truth(
    loaded: LoadedModel, arrays: Arrays, summary: Reference, request: ReferenceRequest
) -> tuple[Arrays, Truth]:
    """What to add to the arrays of a reference, and what is known about errors."""
    search = _Search(loaded, arrays, summary, request)
    try:
        return search.run()
    except (NoTruthError, UnsupportedModelError) as error:
        return {}, Truth(evaluator=framework_of(loaded), missing=str(error))


class _Search:
    def __init__(
        self, loaded: LoadedModel, arrays: Arrays, summary: Reference, request: ReferenceRequest
    ) -> None:
        self._loaded, self._arrays = loaded, arrays
        self._summary, self._request = summary, request
        self._exact: dict[str, np.ndarray[Any, Any]] = {}
        self._own: list[Deviation] = []
        self._framework = framework_of(loaded)
        self._inexact: Mapping[str, str] = {}

    def run(self) -> tuple[Arrays, Truth]:
        for group in self._groups():
            frozen, pieces = self._freeze(group)
            wide = widen_graph(frozen.graph_def)
            truths = pieces.run(partial(run_calls, wide, frozen), group.calls)
            for cases, outputs in zip(group.cases, truths, strict=True):
                for case in cases:
                    self._add(case, self._first_rows(outputs, case.rows, cases[-1].rows))
        xla: tuple[Deviation, ...] = ()
        moved: tuple[Deviation, ...] = ()
        xla_missing = None
        # The last group has the largest shapes; a graph for each would be compiled again.
        if any(error.ulp is not None and error.relative > NOTABLE for error in self._own):
            xla, xla_missing = self._compile(frozen, pieces, group, truths)
            moved = self._move(frozen, pieces, group, truths)
        without = self._without(moved)
        exact = {k: v for k, v in self._exact.items() if k.split("/", 2)[2] not in without}
        return exact, Truth(
            evaluator=self._framework,
            without=without,
            # An infinite one is among the reasons.
            framework=tuple(error for error in self._own if isfinite(error.absolute)),
            xla=xla,
            xla_missing=xla_missing,
            moved=moved,
        )

    def _groups(self) -> Iterator[_Group]:
        summary, names = self._summary, [tensor.name for tensor in self._loaded.info.inputs]
        if summary.calls is not None:
            numbers = range(summary.calls)
            for rows in summary.rows:
                calls = [
                    {name: self._arrays[input_key(name, n)] for name in names} for n in numbers
                ]
                yield _Group(
                    tuple(self._cut_rows(call, rows) for call in calls),
                    tuple((_Case(rows, call=n),) for n in numbers),
                )
            return
        given = {name: self._arrays[input_key(name)] for name in names}
        cut = Lengths(self._loaded, self._request.padded, {}).cut
        for length in (*summary.lengths, None):
            inputs = given if length is None else cut(given, length)
            numbers_of_rows = summary.rows if length is None else summary.length_rows
            shared = [numbers_of_rows] if summary.independent else [(n,) for n in numbers_of_rows]
            for several in shared:
                cases = tuple(_Case(rows, length) for rows in several)
                yield _Group((self._cut_rows(inputs, several[-1]),), (cases,))

    def _cut_rows(self, inputs: Arrays, rows: int) -> Arrays:
        batched = self._summary.batched_inputs
        return {name: a[:rows] if name in batched else a for name, a in inputs.items()}

    def _first_rows(self, outputs: Arrays, rows: int, of: int) -> Arrays:
        """What belongs to the first of some rows; how much that is may depend on the length."""
        leading = self._summary.leading_per_row
        return {n: a[: len(a) // of * rows] if leading[n] else a for n, a in outputs.items()}

    def _freeze(self, group: _Group) -> tuple[FrozenGraph, Pieces]:
        """The graph, and how it evaluates the calls of the group."""
        (inputs, *_), (cases, *_) = group.calls, group.cases
        frozen = self._frozen(inputs)
        pieces = find_pieces(largest_value(frozen.graph_def), self._summary, cases[-1].rows)
        if pieces.is_split:
            frozen = self._frozen(pieces.first(inputs))
        require_small(frozen)
        frozen, self._inexact = exact_part(frozen)
        return frozen, pieces

    def _frozen(self, inputs: Arrays) -> FrozenGraph:
        shapes = {name: array.shape for name, array in inputs.items()}
        return freeze_graph(self._loaded.graph(shapes), shapes, keep_state=self._request.keep_state)

    def _add(self, case: _Case, truths: Arrays) -> None:
        for name, truth in truths.items():
            ours = self._arrays[output_key(case.name, name)]
            if ours.shape != truth.shape:
                raise NoTruthError(f"output {name!r} has another shape in float64")
            self._own.append(_error(name, case, ours, truth))
            correction = find_correction(ours, truth)
            if correction is not None:
                self._exact[exact_key(case.name, name)] = correction

    def _without(self, moved: Sequence[Deviation]) -> dict[str, str]:
        """The outputs whose truth is not one."""
        converted = self._loaded.evaluator != TENSORFLOW
        moves, found = worst_of(moved), dict(self._inexact)
        for error in self._own:
            name, differ = error.output, f"{self._framework} in float32 and float64 differ"
            if error.ulp is None:
                if converted and error.absolute:
                    found[name] = f"{differ} in {error.changed} values"
            elif not error.relative <= PLAUSIBLE:
                found[name] = f"{differ} by {error.relative:.2g} of the largest value"
            elif converted and error.relative > max(
                _ROUNDED, _ROUNDINGS * (moves[name].relative if name in moves else 0.0)
            ):
                found[name] = (
                    f"{differ} by {error.relative:.2g} of the largest value, more than rounding explains"
                )
        return found

    def _compile(
        self, frozen: FrozenGraph, pieces: Pieces, group: _Group, truths: Sequence[Arrays]
    ) -> tuple[tuple[Deviation, ...], str | None]:
        try:
            outputs = pieces.run(partial(run_compiled, frozen), group.calls)
        except NoTruthError as error:
            return (), str(error)
        errors = tuple(self._errors(group.cases, outputs, truths))
        if not all(isfinite(error.absolute) for error in errors):
            return (), "its outputs are finite in other places than the truth"
        return errors, None

    def _move(
        self, frozen: FrozenGraph, pieces: Pieces, group: _Group, truths: Sequence[Arrays]
    ) -> tuple[Deviation, ...]:
        floating = {
            name for name, a in group.calls[0].items() if a.dtype in (np.float32, np.complex64)
        }
        moved = [
            {name: nudge(a, name) if name in floating else a for name, a in call.items()}
            for call in group.calls
        ]
        graph = widen_graph(frozen.graph_def, nudged=True)
        outputs = pieces.run(partial(run_calls, graph, frozen), moved)
        largest = [cases[-1:] for cases in group.cases]
        errors = self._errors(largest, outputs, truths)
        # Units in the last place would be those of float64.
        return tuple(error.model_copy(update={"ulp": None}) for error in errors)

    def _errors(
        self,
        cases: Sequence[Sequence[_Case]],
        outputs: Sequence[Arrays],
        truths: Sequence[Arrays],
    ) -> Iterator[Deviation]:
        """The errors of calls in a row, each for its numbers of rows."""
        for several, given, exact in zip(cases, outputs, truths, strict=True):
            for case in several:
                truth = self._first_rows(exact, case.rows, several[-1].rows)
                for name, values in self._first_rows(given, case.rows, several[-1].rows).items():
                    yield _error(name, case, values, truth[name])


def require_small(frozen: FrozenGraph) -> None:
    """Raises NoTruthError if a graph in float64 would be larger than protobuf allows."""
    if frozen.graph_def.ByteSize() > _MAX_WEIGHTS:
        raise NoTruthError("its weights are too large for a graph in float64")


def _error(
    name: str, case: _Case, values: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]
) -> Deviation:
    found = measure(values, truth)
    return Deviation(
        output=name, rows=case.rows, length=case.length, call=case.call, **found._asdict()
    )


def find_correction(
    ours: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any] | None:
    """What to add to an output in float32 for the truth; None for integers that are the same.

    As precise as a whole array in float64, since it is small, and half as large.
    """
    if ours.dtype.kind in "biu":
        found = widen(truth) - widen(ours)
        return found if found.any() else None
    with np.errstate(invalid="ignore", over="ignore"):
        found = np.nan_to_num(widen(truth) - widen(ours), nan=0.0, posinf=0.0, neginf=0.0)
    narrow: np.ndarray[Any, Any] = found.astype(ours.dtype)
    return narrow
