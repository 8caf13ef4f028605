"""Finds the truth of a reference: the outputs in float64, and the errors of float32 against it.

Float32 is what the framework computed (ONNX Runtime for ONNX files), and what XLA does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from ....accuracy import INEXACT, NOTABLE, Deviation, Truth, rounding_at
from ....errors import UnsupportedModelError
from ....model.measuring import difference, measure, widen
from ....model.reference_result import (
    Reference,
    case_of,
    exact_key,
    input_key,
    noise_key,
    output_key,
)
from ....workers.jobs import ReferenceRequest
from ...freeze.frozen import FrozenGraph, freeze_graph
from ...loaded.base import TENSORFLOW, Arrays, LoadedModel, framework_of
from ..lengths import Lengths
from .double import widen_graph
from .evaluate import run_calls, run_compiled
from .largest import largest_value
from .magnitudes import narrow_of, scales_of
from .missing import NoTruthError
from .noise import Case, Noise, conversion_error, find_noise, scale_of
from .parts import exact_part
from .pieces import MANY, Pieces, find_pieces
from .rounding import has_ties, sorts
from .spread import measure_spread

PLAUSIBLE = 0.05
"""The largest error of float32, relative to the largest output, up to which float64 computes the same
model, and not one that overflows elsewhere or takes other branches."""

_MAX_WEIGHTS = 800 << 20
"""Bytes of constants: in float64, a graph of more is larger than a message of protobuf may be."""


_Array: TypeAlias = np.ndarray[Any, Any]


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
    """Finds the arrays to add to those of a reference, and what is known about errors."""
    return _Search(loaded, arrays, summary, request).run()


@dataclass
class _Measured:
    """One evaluation of the reference and what is known about its errors."""

    place: _Case
    case: Case
    largest: Case
    """The evaluation with the most rows, of which these are the first: it says how much may be left out."""


@dataclass(frozen=True)
class _Known:
    """Properties of the graph that are the same for every shape."""

    scales: Mapping[str, float]
    """See `scales_of`."""
    narrow: Mapping[str, str]
    """See `narrow_of`."""
    has_ties: bool
    """See `has_ties`."""
    sorts: bool
    """See `sorts`."""


class _Search:
    def __init__(
        self, loaded: LoadedModel, arrays: Arrays, summary: Reference, request: ReferenceRequest
    ) -> None:
        self._loaded, self._arrays = loaded, arrays
        self._summary, self._request = summary, request
        self._framework = framework_of(loaded)
        self._truth = Truth(evaluator=self._framework)
        self._without: dict[str, str] = {}
        self._converted: dict[str, str] = {}
        self._measured: list[_Measured] = []
        self._known: _Known | None = None

    def run(self) -> tuple[Arrays, Truth]:
        try:
            *_, last = groups = list(self._groups())
            for group in groups:
                self._search(group, is_last=group is last)
        except (NoTruthError, UnsupportedModelError) as error:
            return {}, Truth(evaluator=self._framework, missing=str(error))
        arrays, framework = dict[str, _Array](), list[Deviation]()
        undecided, sensitive = dict[str, str](), dict[str, str]()
        for measured in self._measured:
            for name in measured.case.ours:
                known = name in measured.case.exact and self._is_known(name)
                case = measured.case if known else measured.case.without_exact(name)
                whole = find_noise(measured.largest, name, self._framework)
                noise = find_noise(
                    replace(case, most=0.0 if whole.sensitive else 1.0), name, self._framework
                )
                arrays |= dict(_as_arrays(measured.place, name, case, noise))
                if whole.clause and not whole.sensitive:
                    undecided[name] = whole.clause
                if whole.sensitive:
                    sensitive[name] = whole.sensitive
                if known:
                    framework.append(_error(name, measured.place, *_decided(case, name, noise)))
        return arrays, self._truth.model_copy(
            update={
                "framework": tuple(framework),
                "without": self._without,
                "converted": self._converted,
                "undecided": undecided,
                "sensitive": sensitive,
            }
        )

    def _is_known(self, name: str) -> bool:
        return self._truth.missing is None and name not in self._without

    def _search(self, group: _Group, *, is_last: bool) -> None:
        frozen, pieces = self._freeze(group)
        if self._known is None:  # the same for every shape
            graph = frozen.graph_def
            self._known = _Known(
                scales_of(frozen), narrow_of(frozen), has_ties(graph), sorts(graph)
            )
        known = self._known
        part, truths = self._evaluate_exactly(frozen, pieces, group)
        spreads: Sequence[Arrays] = ()
        cases = list(self._cases(group, truths, spreads, known))
        errors = [
            _error(n, measured.place, *_both(measured.case, n))
            for measured in cases
            for n in measured.case.exact
        ]
        relative = [error.relative for error in errors if error.ulp is not None]
        is_decided = not known.has_ties and not known.sorts and not _needs_spread(cases)
        if not is_decided or any(error > INEXACT for error in relative):
            spreads = self._spread(frozen, pieces, group, known)
            self._add_variation(group, spreads)
            cases = list(self._cases(group, truths, spreads, known))
        self._measured += cases
        for measured in cases:
            self._judge(measured)
        if not is_last:
            return
        moved = tuple(_moved(cases, group))
        self._update(scales=known.scales, narrow=known.narrow, moved=moved)
        if any(error > NOTABLE for error in relative) and part is not None:
            xla, xla_missing = self._compile(part, pieces, group, truths)
            self._update(xla=xla, xla_missing=xla_missing)

    def _update(self, **changes: Any) -> None:
        self._truth = self._truth.model_copy(update=changes)

    def _evaluate_exactly(
        self, frozen: FrozenGraph, pieces: Pieces, group: _Group
    ) -> tuple[FrozenGraph | None, Sequence[Arrays]]:
        """The part of the graph that has a form in float64, and what that computes."""
        try:
            require_small(frozen)
            part, inexact = exact_part(frozen)
            self._without |= inexact
            wide = widen_graph(part.graph_def)
            return part, pieces.run(partial(run_calls, wide, part), group.calls)
        except NoTruthError as error:
            self._update(missing=str(error))
            return None, [{} for _ in group.calls]

    def _spread(
        self,
        frozen: FrozenGraph,
        pieces: Pieces,
        group: _Group,
        known: _Known,
    ) -> Sequence[Arrays]:
        measure = partial(measure_spread, frozen, narrow=known.narrow, ties=known.has_ties)
        try:
            require_small(frozen)
            if not self._are_alike(pieces, group, known):
                return pieces.run(measure, group.calls)
            few = measure([pieces.first(inputs) for inputs in group.calls])
            return [pieces.as_first(spread) for spread in few]
        except (NoTruthError, UnsupportedModelError):
            return ()

    def _are_alike(self, pieces: Pieces, group: _Group, known: _Known) -> bool:
        """Whether what rounding moves in a few of many rows says it of the others: each is as random as any other."""
        if pieces.count <= MANY or not pieces.is_split or self._request.samples:
            return False
        case = group.cases[0][-1].name
        outputs = (self._arrays[output_key(case, name)] for name in self._summary.leading_per_row)
        decides = known.has_ties or known.sorts or any(a.dtype.kind in "biu" for a in outputs)
        return not decides

    def _add_variation(self, group: _Group, spreads: Sequence[Arrays]) -> None:
        """Adds to the spread how far the framework's own results for the same rows are apart in other numbers of rows."""
        for several, spread in zip(group.cases, spreads, strict=False):
            for name, moves in spread.items():
                whole = self._arrays[output_key(several[-1].name, name)]
                for case in several[:-1]:
                    part = self._arrays[output_key(case.name, name)]
                    first = moves[: len(part)] if self._summary.leading_per_row[name] else moves
                    same = whole[: len(part)] if first is not moves else whole
                    if first.shape == same.shape == part.shape:
                        np.maximum(first, difference(part, same).astype(first.dtype), out=first)

    def _cases(
        self,
        group: _Group,
        truths: Sequence[Arrays],
        spreads: Sequence[Arrays],
        known: _Known,
    ) -> Iterator[_Measured]:
        leading = self._summary.leading_per_row
        for number, several in enumerate(group.cases):
            made: list[tuple[_Case, Case]] = []
            for case in several:
                ours = {n: self._arrays[output_key(case.name, n)] for n in leading}
                exact = self._first_rows(truths[number], case.rows, several[-1].rows)
                spread = spreads[number] if spreads else {}
                spread = self._first_rows(spread, case.rows, several[-1].rows)
                same = {n: values for n, values in exact.items() if values.shape == ours[n].shape}
                for name in exact.keys() - same.keys():
                    self._without[name] = "it has another shape in float64"
                found = Case(ours, same, spread, leading, known.scales, has_ties=known.has_ties)
                made.append((case, found.sorted_by_scores() if known.sorts else found))
            yield from (_Measured(place, case, made[-1][1]) for place, case in made)

    def _judge(self, measured: _Measured) -> None:
        """Finds outputs whose truth is not one."""
        converted = self._loaded.evaluator != TENSORFLOW
        for name in measured.case.exact:
            # However much it is: what decides nothing says nothing about the conversion either.
            case = replace(measured.case.without_exact(name), most=1.0)
            noise = find_noise(case, name, self._framework)
            error = _error(name, measured.place, *_decided(measured.case, name, noise))
            if converted and (
                reason := conversion_error(measured.case, name, noise, self._framework)
            ):
                self._without[name] = self._converted[name] = reason
            elif error.ulp is not None and not (
                # All values may be next to nothing: probabilities of what is not there.
                error.relative <= PLAUSIBLE
                or error.absolute <= rounding_at(case.scales.get(name, 0.0))
            ):
                self._without[name] = (
                    f"{self._framework} in float32 and float64 differ by {error.relative:.2g} of the "
                    "largest value"
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
        arrays = {name: self._arrays[input_key(name)] for name in names}
        cut = Lengths(self._loaded, self._request.padded, {}).cut
        for length in (*summary.lengths, None):
            inputs = arrays if length is None else cut(arrays, length)
            numbers_of_rows = summary.rows if length is None else summary.length_rows
            shared = [numbers_of_rows] if summary.independent else [(n,) for n in numbers_of_rows]
            for several in shared:
                cases = tuple(_Case(rows, length) for rows in several)
                yield _Group((self._cut_rows(inputs, several[-1]),), (cases,))

    def _cut_rows(self, inputs: Arrays, rows: int) -> Arrays:
        batched = self._summary.batched_inputs
        return {name: a[:rows] if name in batched else a for name, a in inputs.items()}

    def _first_rows(self, outputs: Arrays, rows: int, of: int) -> Arrays:
        """The part that belongs to the first of some rows; how much that is may depend on the length."""
        leading = self._summary.leading_per_row
        return {n: a[: len(a) // of * rows] if leading[n] else a for n, a in outputs.items()}

    def _freeze(self, group: _Group) -> tuple[FrozenGraph, Pieces]:
        """The graph, and how it evaluates the calls of the group."""
        (inputs, *_), (cases, *_) = group.calls, group.cases
        frozen = self._frozen(inputs)
        pieces = find_pieces(largest_value(frozen.graph_def), self._summary, cases[-1].rows)
        return (self._frozen(pieces.first(inputs)) if pieces.is_split else frozen), pieces

    def _frozen(self, inputs: Arrays) -> FrozenGraph:
        shapes = {name: array.shape for name, array in inputs.items()}
        return freeze_graph(self._loaded.graph(shapes), shapes, keep_state=self._request.keep_state)

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

    def _errors(
        self,
        cases: Sequence[Sequence[_Case]],
        outputs: Sequence[Arrays],
        truths: Sequence[Arrays],
    ) -> Iterator[Deviation]:
        """The errors of calls in a row, each for its numbers of rows."""
        for several, arrays, exact in zip(cases, outputs, truths, strict=True):
            for case in several:
                truth = self._first_rows(exact, case.rows, several[-1].rows)
                for name, values in self._first_rows(arrays, case.rows, several[-1].rows).items():
                    yield _error(name, case, values, truth[name])


def _needs_spread(cases: Sequence[_Measured]) -> bool:
    """Whether an output has no truth, or is of integers, which rounding may change as a whole."""
    return any(
        name not in measured.case.exact or values.dtype.kind in "biu"
        for measured in cases
        for name, values in measured.case.ours.items()
    )


def _moved(cases: Sequence[_Measured], group: _Group) -> Iterator[Deviation]:
    """The largest spread of each output, in the evaluations with the most rows."""
    largest = {several[-1] for several in group.cases}
    for measured in cases:
        if measured.place not in largest:
            continue
        for name, spread in measured.case.spread.items():
            far, changed = float(spread.max(initial=0)), None
            if measured.case.ours[name].dtype.kind in "biu":
                changed = int(np.count_nonzero(spread))
            scale = scale_of(measured.case, name)
            yield Deviation(
                output=name,
                rows=measured.place.rows,
                length=measured.place.length,
                call=measured.place.call,
                absolute=far,
                relative=far / scale if scale else far,
                changed=changed,
            )


def _both(case: Case, name: str) -> tuple[_Array, _Array]:
    return case.ours[name], case.exact[name]


def _decided(case: Case, name: str, noise: Noise) -> tuple[_Array, _Array]:
    """The values of an output and their truth; what decides nothing is the same in both."""
    ours, exact = _both(case, name)
    return ours, np.where(noise.decided(ours), exact, ours)


def _as_arrays(place: _Case, name: str, case: Case, noise: Noise) -> Iterator[tuple[str, _Array]]:
    if noise.allowed.any():
        yield noise_key(place.name, name), noise.allowed.astype(np.float32)
    if name in case.exact:
        correction = find_correction(*_both(case, name))
        if correction is not None:
            yield exact_key(place.name, name), correction


def require_small(frozen: FrozenGraph) -> None:
    """Raises NoTruthError if a graph in float64 would be larger than protobuf allows."""
    if frozen.graph_def.ByteSize() > _MAX_WEIGHTS:
        raise NoTruthError("its weights are too large for a graph in float64")


def _error(name: str, case: _Case, values: _Array, truth: _Array) -> Deviation:
    deviation = measure(values, truth)
    return Deviation(
        output=name, rows=case.rows, length=case.length, call=case.call, **deviation._asdict()
    )


def find_correction(
    ours: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any] | None:
    """The array to add to an output in float32 for the truth; None for integers that are the same.

    As precise as a whole array in float64, since it is small, and half as large.
    """
    if ours.dtype.kind in "biu":
        correction = widen(truth) - widen(ours)
        return correction if correction.any() else None
    with np.errstate(invalid="ignore", over="ignore"):
        correction = np.nan_to_num(widen(truth) - widen(ours), nan=0.0, posinf=0.0, neginf=0.0)
    narrow: np.ndarray[Any, Any] = correction.astype(ours.dtype)
    return narrow
