"""Evaluates boundary rows, and finds out for which of them a model is defined.

It is where TensorFlow in float32 and in float64 agree about what its outputs are, and where they are not finite
or numbers at all, TensorFlow with XLA too: operations such as a minimum or a cast say nothing about NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ...accuracy import INEXACT, MORE, Deviation, Truth
from ...errors import UnsupportedModelError
from ...model.measuring import difference, measure, widen
from ...model.reference_result import (
    Reference,
    case_of,
    exact_key,
    input_key,
    noise_key,
    output_key,
)
from ...util.text import one_line
from ...workers.jobs import ReferenceRequest
from ..loaded.base import TENSORFLOW, Arrays, LoadedModel, StatefulModel, framework_of
from ..loaded.rows_first import innermost
from .boundary_graph import BoundaryGraph
from .boundary_inputs import LARGE, boundary_inputs
from .differences import compare, explain, is_finite
from .fitting import fitting
from .row_noise import RowNoise
from .rows import Evaluate, Rows, find_influence
from .truth.find import find_correction
from .truth.missing import NoTruthError
from .truth.noise import Case, Noise, conversion_error, find_noise

_FINITE = frozenset({"zeros", "lowest", "highest"})
"""Rows that are compared without a float64 truth too, if their outputs are finite."""
_SPECIAL = frozenset({"infinity", "nan"})
_Leading: TypeAlias = Mapping[str, int]
_Result = TypeVar("_Result")


@dataclass
class Boundary:
    """The findings about boundary rows."""

    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    """For the reference."""
    framework: list[Deviation] = field(default_factory=list)
    undefined: dict[str, str] = field(default_factory=dict)
    converted: dict[str, str] = field(default_factory=dict)
    """How float64 differs from the framework by more than rounding explains, by output."""

    def add_to(self, truth: Truth) -> Truth:
        """A truth with what boundary rows have shown."""
        update = {
            "framework": (*truth.framework, *self.framework),
            "undefined": self.undefined,
            "converted": {**self.converted, **truth.converted},
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
    boundary = Boundary()
    first = 0 if summary.calls is not None else None
    inputs = {t.name: arrays[input_key(t.name, first)] for t in loaded.info.inputs}
    # A model that may not split batches has no other numbers of rows.
    count = request.batch_sizes[0] if request.batch_sizes else 1
    small = _first_rows(inputs, summary, count)
    graph = BoundaryGraph(loaded, small, request)
    if graph.unusable is not None:
        kinds = boundary_inputs(small, _varied(summary, small), request)
        boundary.undefined |= dict.fromkeys(sorted(kinds.keys() - {LARGE}), graph.unusable)
        return summary, boundary
    restore = model.snapshot() if isinstance(model, StatefulModel) else None
    evaluated = list(_evaluate_kinds(evaluate, small, summary, request, boundary))
    if restore is not None:
        restore()
    if summary.independent and evaluated:
        most = fitting(graph.largest, count)
        summary = _test_neighbours(loaded, evaluate, inputs, summary, request, evaluated, most)
    summary = summary.model_copy(update={"boundary_rows": count})
    graph.split(summary)
    kept = _judge(loaded, graph, evaluated, summary, boundary)
    update = {"boundary": tuple(kept)}
    return summary.model_copy(update=update), boundary


def _first_rows(inputs: Arrays, summary: Reference, rows: int) -> Arrays:
    return {n: a[:rows] if n in summary.batched_inputs else a for n, a in inputs.items()}


def _varied(summary: Reference, inputs: Arrays) -> tuple[str, ...]:
    """The inputs that boundary rows replace: the others are the same for all rows of a batch."""
    return summary.batched_inputs or tuple(inputs)


def _evaluate_kinds(
    evaluate: Evaluate,
    arrays: Arrays,
    summary: Reference,
    request: ReferenceRequest,
    boundary: Boundary,
) -> Iterator[_Evaluated]:
    stopped = ""
    for kind, inputs in boundary_inputs(arrays, _varied(summary, arrays), request).items():
        if stopped:
            boundary.undefined[kind] = f"the call before it, {stopped}, is refused"
            continue
        try:
            yield _Evaluated(kind, inputs, evaluate(inputs))
        except UnsupportedModelError as error:
            boundary.undefined[kind] = f"the model refuses them ({one_line(error)})"
            stopped = kind if summary.calls is not None else ""


def _test_neighbours(
    loaded: LoadedModel,
    evaluate: Evaluate,
    inputs: Arrays,
    summary: Reference,
    request: ReferenceRequest,
    evaluated: list[_Evaluated],
    most: int,
) -> Reference:
    """The summary, with the reason if extreme rows change others, of which at most so many are evaluated at once."""
    batched = frozenset(summary.batched_inputs)
    count = max(2, min(summary.rows[-1], most))
    # Two alike, so that each is beside ordinary rows; the most extreme kinds are the last.
    picked = [evaluated[-1 - i // 2 % len(evaluated)].inputs for i in range(count)]
    extreme = {
        name: np.concatenate([row[name][:1] for row in picked]) if name in batched else a
        for name, a in inputs.items()
    }
    rows = Rows(inputs, batched).take(slice(count))
    others, leading = Rows(extreme, batched), summary.leading_per_row
    with closing(RowNoise(loaded, by_spread=False)) as noise:
        reason = find_influence(evaluate, rows, others, leading, noise)
    if reason is None:
        return summary
    update = {"independent": False, "reason": reason, "rows": request.batch_sizes}
    return summary.model_copy(update=update)


class _Others:
    """The findings of other evaluations about the rows that the model accepts."""

    def __init__(
        self,
        loaded: LoadedModel,
        graph: BoundaryGraph,
        evaluated: list[_Evaluated],
        leading: _Leading,
    ) -> None:
        self._framework, self._leading = framework_of(loaded), leading
        self._is_converted = loaded.evaluator != TENSORFLOW
        self._graph, self._evaluated = graph, evaluated
        self._ours = {evaluation.kind: evaluation.outputs for evaluation in evaluated}
        self._exact, self._missing = _try(graph.exact, evaluated)
        self._inexact = graph.inexact
        needed = self._exact and any(map(_is_special, evaluated))
        # All of them: the rows of a model that keeps state are calls in a row.
        self._compiled, self._not_compiled = _try(graph.compiled, evaluated if needed else [])
        self._under_rules: dict[str, list[Arrays]] = {}
        """See `run_under_rules`, by kind."""
        self.converted: dict[tuple[str, str], str] = {}
        """How float64 differs from the framework by more than rounding explains, by kind and output."""

    def exact(self, kind: str, output: str) -> np.ndarray[Any, Any] | None:
        """The output in float64; None if there is none, or if it is that of a wrong conversion."""
        if kind not in self._exact or (kind, output) in self.converted:
            return None
        return self._exact[kind].get(output)

    def noise(self, evaluation: _Evaluated, output: str) -> Noise:
        """The errors of an output by rounding."""
        case = self._case(evaluation)
        if self.exact(evaluation.kind, output) is None:
            case = case.without_exact(output)
        return find_noise(case, output, self._framework)

    def _case(self, evaluation: _Evaluated) -> Case:
        exact = {
            name: values
            for name, values in self._exact.get(evaluation.kind, {}).items()
            if values.shape == evaluation.outputs[name].shape
        }
        # Ties of equal values, which these rows have, are decided: inputs that differ would break them.
        spread = {
            name: moves & (evaluation.outputs[name] != exact[name])
            if moves.dtype.kind == "b" and name in exact
            else moves
            for name, moves in self._spread.get(evaluation.kind, {}).items()
        }
        # One row, all of which may be left out; where inputs are not finite, NaN is what is compared.
        most = 0.0 if evaluation.kind in _SPECIAL else 1.0
        graph = self._graph
        case = Case(
            evaluation.outputs, exact, spread, self._leading, graph.scales, most, graph.has_ties
        )
        return case.sorted_by_scores() if graph.sorts else case

    @cached_property
    def _spread(self) -> Mapping[str, Arrays]:
        if not any(self._is_unsure(evaluation) for evaluation in self._evaluated):
            return {}
        return _try(self._graph.spread, self._evaluated)[0]

    def _is_unsure(self, evaluation: _Evaluated) -> bool:
        if evaluation.kind == LARGE or evaluation.kind in _SPECIAL:
            return False
        return (
            self._graph.has_ties
            or self._graph.sorts
            or any(
                self._compare(evaluation.outputs[name], exact, name) is not None
                or measure(evaluation.outputs[name], exact).relative > INEXACT
                for name, exact in self._exact.get(evaluation.kind, {}).items()
            )
        )

    def _compare(
        self, values: np.ndarray[Any, Any], exact: np.ndarray[Any, Any], output: str
    ) -> str | None:
        return compare(values, exact, self._graph.scales.get(output, 0.0))

    def objection(self, evaluation: _Evaluated, output: str) -> str | None:
        """Why an output is not defined for these rows, as a clause."""
        ours, exact = evaluation.outputs[output], self.exact(evaluation.kind, output)
        if exact is None:
            if evaluation.kind.split(" ")[0] in (*_FINITE, MORE) and is_finite(ours):
                return None
            why = self._inexact.get(output, self._missing)
            return f"this model has no float64 reference ({why})"
        if difference := self._compare(ours, exact, output):
            # The runtime of the file says what is right, unless rounding explains the difference.
            if self._is_converted and evaluation.kind in _FINITE and ours.shape == exact.shape:
                if self._is_nan_left_out(evaluation, exact, output):
                    return explain(difference, ours, exact, self._framework, "in float64")
                case, noise = self._case(evaluation), self.noise(evaluation, output)
                if reason := conversion_error(case, output, noise, self._framework):
                    if self._does_rounding_decide(evaluation, case, output):
                        return "rounding decides what they are"
                    self.converted[evaluation.kind, output] = (
                        f"on rows of {evaluation.kind}, {reason}"
                    )
                    return None
            return explain(difference, ours, exact, self._framework, "in float64")
        if not _is_special(evaluation):
            return None
        if evaluation.kind not in self._compiled:
            return f"it cannot be compared with XLA ({self._not_compiled})"
        compiled = self._compiled[evaluation.kind][output]
        if difference := self._compare(compiled, exact, output):
            return explain(difference, compiled, exact, "XLA", "with XLA")
        lost = self._lost_nan(output) if evaluation.kind == "nan" else 0
        if not lost:
            lost = self._ruled(evaluation, output)
        return f"NaN becomes a number in {lost} of {ours.size} values" if lost else None

    def _ruled(self, evaluation: _Evaluated, output: str) -> int:
        """How many numbers of an output that has NaN, too, would be others if the maximum of NaN and a number were."""
        ours = widen(evaluation.outputs[output])
        if not np.isnan(ours).any() or not np.isfinite(ours).any():
            return 0
        if evaluation.kind not in self._under_rules:
            made, _ = _try(lambda calls: [self._graph.under_rules(calls[0])], [evaluation])
            self._under_rules[evaluation.kind] = made.get(evaluation.kind, [])
        others = [widen(rule[output]) for rule in self._under_rules[evaluation.kind]]
        moved = [np.isfinite(other) != np.isfinite(ours) for other in others]
        return int(np.count_nonzero(np.any(moved, axis=0))) if moved else 0

    def _is_nan_left_out(
        self, evaluation: _Evaluated, exact: np.ndarray[Any, Any], output: str
    ) -> bool:
        """Whether the framework has numbers where float64 has NaN, of which the graph takes the largest on the way."""
        lost = np.isfinite(widen(evaluation.outputs[output])) & np.isnan(widen(exact))
        if not lost.any():
            return False
        met, _ = _try(lambda calls: [self._graph.meets_nan(calls[0])], [evaluation])
        return met.get(evaluation.kind, False)

    def _does_rounding_decide(self, evaluation: _Evaluated, case: Case, output: str) -> bool:
        """Whether an output moves as far if only results in between round elsewhere: no weight and no zero is changed."""
        if evaluation.kind not in self._rounded:
            return False
        spread = {**case.spread, **self._rounded[evaluation.kind]}
        for name, values in self._own.get(evaluation.kind, {}).items():
            if name in spread and name in case.exact:
                # Float32 of the graph itself is as far from float64: no conversion is.
                spread[name] = np.maximum(spread[name], difference(values, case.exact[name]))
        case = replace(case, spread=spread)
        noise = find_noise(case.without_exact(output), output, self._framework)
        return conversion_error(case, output, noise, self._framework) is None

    @cached_property
    def _own(self) -> Mapping[str, Arrays]:
        return _try(self._graph.own, self._evaluated)[0]

    @cached_property
    def _rounded(self) -> Mapping[str, Arrays]:
        return _try(self._graph.rounded, self._evaluated)[0]

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
    run: Callable[[list[Arrays]], list[_Result]], rows: list[_Evaluated]
) -> tuple[Mapping[str, _Result], str]:
    """The results by kind; none and the reason if there are none."""
    try:
        results = run([row.inputs for row in rows]) if rows else []
    except (NoTruthError, UnsupportedModelError) as error:
        return {}, one_line(error)
    return {row.kind: outputs for row, outputs in zip(rows, results, strict=True)}, ""


def _is_special(evaluation: _Evaluated) -> bool:
    """Whether it has values that are not finite numbers."""
    return evaluation.kind != LARGE and not all(
        map(is_finite, (*evaluation.inputs.values(), *evaluation.outputs.values()))
    )


def _judge(
    loaded: LoadedModel,
    graph: BoundaryGraph,
    evaluated: list[_Evaluated],
    summary: Reference,
    boundary: Boundary,
) -> list[str]:
    """Adds what is defined; returns the kinds whose inputs are of use."""
    others, defined = _Others(loaded, graph, evaluated, summary.leading_per_row), set[str]()
    for evaluation in evaluated:
        if evaluation.kind == LARGE:
            continue
        objections = {name: others.objection(evaluation, name) for name in evaluation.outputs}
        for name, objection in objections.items():
            if objection is None:
                noise = others.noise(evaluation, name)
                exact = others.exact(evaluation.kind, name)
                _add(evaluation, name, exact, noise, summary.boundary_rows, boundary)
                defined.add(evaluation.kind)
                objections[name] = noise.clause
        if reason := _join(objections):
            boundary.undefined[evaluation.kind] = reason
    boundary.converted |= {name: reason for (_, name), reason in others.converted.items()}
    kinds = [evaluation.kind for evaluation in evaluated]
    if summary.calls is not None:  # calls in a row, of which later ones need the earlier
        kept = kinds[: max((kinds.index(kind) + 1 for kind in defined), default=0)]
    else:
        kept = [kind for kind in kinds if kind in defined or kind == LARGE]
    for evaluation in evaluated:
        if evaluation.kind in kept:
            varied = _varied(summary, evaluation.inputs)
            boundary.arrays |= {
                input_key(name, evaluation.kind): evaluation.inputs[name] for name in varied
            }
    return kept


def _join(objections: Mapping[str, str | None]) -> str:
    """One reason if it is that of all outputs."""
    if len(set(objections.values())) == 1:
        return next(iter(objections.values())) or ""
    return ", ".join(
        f"output {name!r}: {objection}" for name, objection in objections.items() if objection
    )


def _add(
    evaluation: _Evaluated,
    name: str,
    exact: np.ndarray[Any, Any] | None,
    noise: Noise,
    rows: int,
    boundary: Boundary,
) -> None:
    case, values = case_of(rows, evaluation.kind), evaluation.outputs[name]
    boundary.arrays[output_key(case, name)] = values
    if noise.allowed.any():
        boundary.arrays[noise_key(case, name)] = noise.allowed.astype(np.float32)
    if exact is None:
        return
    correction = find_correction(values, exact)
    if correction is not None:
        boundary.arrays[exact_key(case, name)] = correction
    measured = measure(values, np.where(noise.decided(values), exact, values))._asdict()
    boundary.framework.append(
        Deviation(output=name, rows=rows, circumstance=evaluation.kind, **measured)
    )
