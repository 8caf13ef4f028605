"""Evaluates boundary rows, and finds out for which of them a model is defined.

It is where TensorFlow in float32 and in float64 agree about what its outputs are, and where they are not finite
or numbers at all, TensorFlow with XLA too: operations such as a minimum or a cast say nothing about NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import isfinite
from typing import Any

import numpy as np

from ...accuracy import Deviation, Truth
from ...errors import UnsupportedModelError
from ...util.text import one_line
from ..jobs import ReferenceRequest
from ..measuring import measure, widen
from ..reference import Reference, case_of, exact_key, input_key, output_key
from .boundary_inputs import LARGE, boundary_inputs
from .formats.base import Arrays, LoadedModel, StatefulModel
from .formats.rows_first import innermost
from .frozen import FrozenGraph, freeze_graph
from .rows import Evaluate, Rows, find_influence
from .truth.double import widen_graph
from .truth.evaluate import run_calls, run_compiled
from .truth.find import find_correction, require_small
from .truth.largest import largest_value
from .truth.missing import NoTruthError
from .truth.parts import exact_part
from .truth.pieces import Pieces, find_pieces
from .turns import turns_by_values

_AGREED = 1e-3
"""The largest relative error up to which evaluations agree. One row may be where rounding decides: the logarithm of a
spectrum of zeros."""

_TINY = float(np.finfo(np.float32).smallest_normal)
_FINITE = frozenset({"zeros", "lowest", "highest"})
"""Rows that are compared without a float64 truth too, if their outputs are finite."""


@dataclass
class Boundary:
    """What boundary rows have shown."""

    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """For the reference."""
    framework: list[Deviation] = field(default_factory=list)
    undefined: dict[str, str] = field(default_factory=dict)

    def add_to(self, truth: Truth) -> Truth:
        """A truth with what boundary rows have shown."""
        update = {
            "framework": (*truth.framework, *self.framework),
            "undefined": self.undefined,
        }
        return truth.model_copy(update=update)


@dataclass(frozen=True)
class _Evaluated:
    """Rows of one kind that the model accepts."""

    kind: str
    inputs: Arrays
    outputs: Arrays


def evaluate_boundary(
    loaded: LoadedModel,
    evaluate: Evaluate,
    arrays: Arrays,
    summary: Reference,
    request: ReferenceRequest,
) -> tuple[Reference, Boundary]:
    """Evaluates boundary rows.

    Args:
        loaded: The signature.
        evaluate: One call of it.
        arrays: Of the reference so far: its inputs are those beside boundary rows.
        summary: Of the same reference.
        request: Has the valid values.

    Returns:
        The summary with what they have shown: rows that seemed independent may not be; and the boundary.
    """
    model = innermost(loaded)
    found = Boundary()
    first = 0 if summary.calls is not None else None
    given = {t.name: arrays[input_key(t.name, first)] for t in loaded.info.inputs}
    # A model that may not split batches has no other numbers of rows.
    count = request.batch_sizes[0] if request.batch_sizes else 1
    small = _first_rows(given, summary, count)
    graph = _Graph(loaded, small, request)
    if graph.unusable is not None:
        kinds = boundary_inputs(small, _varied(summary, small), request)
        found.undefined |= dict.fromkeys(sorted(kinds.keys() - {LARGE}), graph.unusable)
        return summary, found
    restore = model.snapshot() if isinstance(model, StatefulModel) else None
    evaluated = list(_evaluate_kinds(evaluate, small, summary, request, found))
    if restore is not None:
        restore()
    if summary.independent and evaluated:
        summary = _test_neighbours(evaluate, given, summary, request, evaluated)
    summary = summary.model_copy(update={"boundary_rows": count})
    graph.split(summary)
    kept = _judge(graph, evaluated, summary, found)
    update = {"boundary": tuple(kept)}
    return summary.model_copy(update=update), found


def _first_rows(given: Arrays, summary: Reference, rows: int) -> Arrays:
    return {n: a[:rows] if n in summary.batched_inputs else a for n, a in given.items()}


def _varied(summary: Reference, given: Arrays) -> tuple[str, ...]:
    """The inputs that boundary rows replace: the others are the same for all rows of a batch."""
    return summary.batched_inputs or tuple(given)


def _evaluate_kinds(
    evaluate: Evaluate,
    given: Arrays,
    summary: Reference,
    request: ReferenceRequest,
    found: Boundary,
) -> Iterator[_Evaluated]:
    stopped = ""
    for kind, inputs in boundary_inputs(given, _varied(summary, given), request).items():
        if stopped:
            found.undefined[kind] = f"the call before it, {stopped}, is refused"
            continue
        try:
            yield _Evaluated(kind, inputs, evaluate(inputs))
        except UnsupportedModelError as error:
            found.undefined[kind] = f"the model refuses them ({one_line(error)})"
            stopped = kind if summary.calls is not None else ""


def _test_neighbours(
    evaluate: Evaluate,
    given: Arrays,
    summary: Reference,
    request: ReferenceRequest,
    evaluated: list[_Evaluated],
) -> Reference:
    """The summary, with the reason if extreme rows change others."""
    batched = frozenset(summary.batched_inputs)
    count = max(2, summary.rows[-1])
    # Two alike, so that each is beside ordinary rows; the most extreme kinds are the last.
    picked = [evaluated[-1 - i // 2 % len(evaluated)].inputs for i in range(count)]
    extreme = {
        name: np.concatenate([one[name][:1] for one in picked]) if name in batched else a
        for name, a in given.items()
    }
    rows = Rows(given, batched).take(slice(count))
    reason = find_influence(evaluate, rows, Rows(extreme, batched), summary.leading_per_row)
    if reason is None:
        return summary
    update = {"independent": False, "reason": reason, "rows": request.batch_sizes}
    return summary.model_copy(update=update)


class _Graph:
    """The frozen graph for boundary rows, evaluated in other ways than by TensorFlow's float32."""

    def __init__(self, loaded: LoadedModel, given: Arrays, request: ReferenceRequest) -> None:
        self._loaded, self._request = loaded, request
        self.inexact: Mapping[str, str] = {}
        """Why outputs have no form in float64, by name."""
        self._given = given
        self._pieces = Pieces(1, 1, 0)

    def split(self, summary: Reference) -> None:
        """Evaluates few rows at once from now on if the graph is large."""
        self._pieces = find_pieces(
            largest_value(self._frozen.graph_def), summary, summary.boundary_rows
        )
        if self._pieces.is_split:
            self._frozen = self._freeze(self._pieces.first(self._given))

    @cached_property
    def _frozen(self) -> FrozenGraph:
        return self._freeze(self._given)

    def _freeze(self, given: Arrays) -> FrozenGraph:
        shapes = {name: array.shape for name, array in given.items()}
        graph = self._loaded.graph(shapes)
        return freeze_graph(graph, shapes, keep_state=self._request.keep_state)

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

    def compiled(self, calls: list[Arrays]) -> list[Arrays]:
        """The outputs by XLA; raises NoTruthError."""
        return self._pieces.run(partial(run_compiled, self._frozen), calls)


class _Others:
    """What other evaluations say about the rows that the model accepts."""

    def __init__(self, graph: _Graph, evaluated: list[_Evaluated]) -> None:
        self._ours = {one.kind: one.outputs for one in evaluated}
        self._exact, self._missing = _try(graph.exact, evaluated)
        self._inexact = graph.inexact
        needed = self._exact and any(map(_is_special, evaluated))
        # All of them: the rows of a model that keeps state are calls in a row.
        self._compiled, self._not_compiled = _try(graph.compiled, evaluated if needed else [])

    def exact(self, kind: str, output: str) -> np.ndarray[Any, Any] | None:
        """The output in float64; None if there is none."""
        return self._exact[kind].get(output) if kind in self._exact else None

    def objection(self, one: _Evaluated, output: str) -> str | None:
        """Why an output is not defined for these rows, as a clause."""
        ours, exact = one.outputs[output], self.exact(one.kind, output)
        if exact is None:
            if one.kind in _FINITE and _is_finite(ours):
                return None
            why = self._inexact.get(output, self._missing)
            return f"no float64 tells what is right ({why})"
        if difference := _compare(ours, exact):
            return f"in float64 {difference}"
        if not _is_special(one):
            return None
        if one.kind not in self._compiled:
            return f"it cannot be compared with XLA ({self._not_compiled})"
        if difference := _compare(self._compiled[one.kind][output], exact):
            return f"with XLA {difference}"
        lost = self._lost_nan(output) if one.kind == "nan" else 0
        return f"NaN becomes a number in {lost} of {ours.size} values" if lost else None

    def _lost_nan(self, output: str) -> int:
        """In how many values of the row of NaN there is a number that NaN has changed.

        Neither ONNX nor XLA says whether the maximum of NaN and a number is NaN, and one compiler does both. Where
        infinity in the same place makes the same number, NaN has changed nothing.
        """
        ours = self._ours["nan"][output]
        changed = np.isfinite(widen(ours))
        infinite = self._ours.get("infinity", {}).get(output)
        if infinite is not None and infinite.shape == ours.shape:
            changed &= ours != infinite
        return int(np.count_nonzero(changed))


def _try(
    run: Callable[[list[Arrays]], list[Arrays]], rows: list[_Evaluated]
) -> tuple[Mapping[str, Arrays], str]:
    """The results by kind; none and the reason if there are none."""
    try:
        found = run([one.inputs for one in rows]) if rows else []
    except (NoTruthError, UnsupportedModelError) as error:
        return {}, one_line(error)
    return {one.kind: outputs for one, outputs in zip(rows, found, strict=True)}, ""


def _is_special(one: _Evaluated) -> bool:
    """Whether it has values that are not finite numbers."""
    return one.kind != LARGE and not all(
        map(_is_finite, (*one.inputs.values(), *one.outputs.values()))
    )


def _is_finite(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())


def _compare(values: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> str | None:
    """How values differ by more than their rounding, as the end of a sentence."""
    if values.shape != exact.shape:
        return "it has another shape"
    found = measure(values, exact)
    if values.dtype.kind in "biu":
        return f"{found.changed} of {values.size} values differ" if found.changed else None
    if not isfinite(found.absolute):
        return "other values are finite"
    # TensorFlow's threads take numbers below the smallest normal one for zero, others do not.
    if found.relative <= _AGREED or found.absolute <= _TINY:
        return None
    return f"it differs by {found.relative:.2g} of the largest value"


def _judge(
    graph: _Graph, evaluated: list[_Evaluated], summary: Reference, found: Boundary
) -> list[str]:
    """Adds what is defined; returns the kinds whose inputs are of use."""
    others, defined = _Others(graph, evaluated), set[str]()
    for one in evaluated:
        if one.kind == LARGE:
            continue
        objections = {name: others.objection(one, name) for name in one.outputs}
        for name, objection in objections.items():
            if objection is None:
                _add(one, name, others.exact(one.kind, name), summary.boundary_rows, found)
                defined.add(one.kind)
        if said := _join(objections):
            found.undefined[one.kind] = said
    kinds = [one.kind for one in evaluated]
    if summary.calls is not None:  # calls in a row, of which later ones need the earlier
        kept = kinds[: max((kinds.index(kind) + 1 for kind in defined), default=0)]
    else:
        kept = [kind for kind in kinds if kind in defined or kind == LARGE]
    for one in evaluated:
        if one.kind in kept:
            varied = _varied(summary, one.inputs)
            found.arrays |= {input_key(name, one.kind): one.inputs[name] for name in varied}
    return kept


def _join(objections: Mapping[str, str | None]) -> str:
    """One reason if it is that of all outputs."""
    if len(set(objections.values())) == 1:
        return next(iter(objections.values())) or ""
    return ", ".join(f"output {name!r}: {said}" for name, said in objections.items() if said)


def _add(
    one: _Evaluated, name: str, exact: np.ndarray[Any, Any] | None, rows: int, found: Boundary
) -> None:
    case, values = case_of(rows, one.kind), one.outputs[name]
    found.arrays[output_key(case, name)] = values
    if exact is None:
        return
    correction = find_correction(values, exact)
    if correction is not None:
        found.arrays[exact_key(case, name)] = correction
    measured = measure(values, exact)._asdict()
    found.framework.append(Deviation(output=name, rows=rows, circumstance=one.kind, **measured))
