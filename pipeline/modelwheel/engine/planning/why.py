"""`modelwheel plan --why`: what has changed since the last result of each step that must run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ...errors import ModelwheelError
from ...store.history import History
from ...store.records import Record
from ...store.store import Store
from ..notes import condense, meaning_key, noted_inputs
from ..steps.base import Step
from .changes import Inputs, Reason, compare, each_once
from .plan import PlannedStep, Survey


class Explainer:
    """Compares steps with their earlier results."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.history = History(store)
        self._meanings: dict[str, Inputs] = {}

    def why(self, survey: Survey) -> dict[str, list[Reason]]:
        """Why each step of a request that must run must do so, by the step's name."""
        compared = self._compared(survey)
        reasons = {step.name: compared.why(step) for step in survey.planned if step.state == "run"}
        if survey.model.tree_sha256 is None:
            reasons[survey.planned[0].name] = [Reason("fetch", "")]
        return reasons

    def since(self, survey: Survey, old: Survey | None, time: float) -> dict[str, list[Reason]]:
        """The steps that must run since a release, and why, by their names; whether or not they ran meanwhile.

        Args:
            survey: The request as it is now.
            old: As it was; None if there was none.
            time: When that was, in seconds since the epoch by the clock of the store.
        """
        now = self._compared(survey)
        planned = survey.planned[1:]
        if old is None:
            return {step.name: [Reason("new", "")] for step in planned}
        before = self._compared(old)
        by_step = {step.name: now.since(step, before, time) for step in planned}
        return {name: reasons for name, reasons in by_step.items() if reasons}

    def _compared(self, survey: Survey) -> _Compared:
        return _Compared(survey, self._store, self.history, self._meanings)


class _Compared:
    """One request, whose steps are compared with earlier results."""

    def __init__(
        self, survey: Survey, store: Store, history: History, meanings: dict[str, Inputs]
    ) -> None:
        self._survey, self._store, self._history = survey, store, history
        self._meanings = meanings
        self._steps = {step.name: step for step in survey.steps}
        self.by_lineage = {step.lineage: step for step in survey.steps}
        self._missing = {step.name for step in survey.planned if step.state == "run"}

    def why(self, planned: PlannedStep) -> list[Reason]:
        step = self._steps.get(planned.name)
        last = self._history.last(step.lineage, step.name) if step is not None else None
        if step is None or last is None:
            return [self._lost(step, planned.key)]
        reasons = [*self._compare(step, noted_inputs(last)), *self._first(step)]
        return each_once(reasons) or [self._lost(step, planned.key)]

    def _lost(self, step: Step | None, key: str | None) -> Reason:
        """The reason for a step without an earlier result that can be compared."""
        had = step is not None and key is not None and self._history.has_had(step.lineage, key)
        return Reason("removed" if had else "new", "")

    def since(self, planned: PlannedStep, before: _Compared, time: float) -> list[Reason]:
        step = self._steps[planned.name]
        old = before.by_lineage.get(step.lineage)
        if old is None:
            return [Reason("new", "")]
        asked = before.inputs(old)
        base = self._base(step.lineage, asked, time)
        if base is not None and base.key == planned.key:
            return []
        # Without a result from then, what the spec asked for is compared.
        inputs = asked if base is None else noted_inputs(base)
        if inputs is None:
            return [Reason("new", "")]
        return each_once([*self._compare(step, inputs), *self._first(step)])

    def _base(self, lineage: str, inputs: Inputs | None, time: float) -> Record | None:
        """Which result a release most likely has: of those that its spec comes nearest to, the last that was there."""
        results = list(self._history.results(lineage))
        if inputs is not None and results:
            far = [_distance(noted_inputs(result), inputs) for result in results]
            results = [result for result, n in zip(results, far, strict=True) if n == min(far)]
        # Made soon after the tag, by the release itself, if none was made before.
        there = [result for result in results if self._history.time(result.key) <= time] or results[
            -1:
        ]
        return there[0] if there else None

    def _first(self, step: Step) -> Iterator[Reason]:
        """The steps that must run before this one."""
        if self._survey.model.tree_sha256 is None:
            yield Reason("step", "fetch")
        for name in step.needs:
            if name in self._missing:
                yield Reason("step", self._steps[name].kind)

    def _compare(self, step: Step, before: Mapping[str, Any]) -> list[Reason]:
        """The differences from the inputs of an earlier result, as far as they can be known before others run."""
        after = self.inputs(step)
        if after is None:
            return []
        missing = {name for name in step.needs if name in self._missing}
        reasons = compare(before, after, partial(self._meaning, step))
        # Their results are not known: the comparison was with the last ones.
        return [reason for reason in reasons if not (missing and reason.what == "result")]

    def inputs(self, step: Step) -> dict[str, Any] | None:
        """The inputs of a step; for results that are missing, those of the last ones. None if there are none."""
        if self._survey.model.tree_sha256 is None:
            return None
        records = self._results(step)
        if records is None:
            return None
        try:
            return condense(step.key_inputs(self._store, records))
        except _UNUSABLE:
            return None

    def _results(self, step: Step) -> Mapping[str, Record] | None:
        """The results that a step needs; for those that are missing, the last ones. None if there are none."""
        records = {}
        for name in step.needs:
            known = self._survey.records.get(name)
            last = known or self._history.last(self._steps[name].lineage, name)
            if last is None:
                return None
            records[name] = last
        return records

    def _files(self) -> dict[str, str]:
        return {name: file.sha256 for name, file in self._survey.model.files.items()}

    def _meaning(self, step: Step, hashed: str) -> Inputs | None:
        """The meaning of a hash among the inputs of a step, if the store or the step knows it."""
        if hashed not in self._meanings:
            record = self._history.record(meaning_key(hashed))
            if record is not None:
                self._meanings[hashed] = noted_inputs(record)
            else:
                self._learn(step)
        return self._meanings.get(hashed)

    def _learn(self, step: Step) -> None:
        with suppress(*_UNUSABLE):
            meanings = step.meanings(self._store, self._results(step) or {}, self._files)
            self._meanings |= {hashed: condense(meaning) for hashed, meaning in meanings.items()}


_UNUSABLE = (ModelwheelError, ValueError, KeyError, AssertionError)
"""Raised for a last result that an older version of modelwheel has made, or that is not whole any more."""

FOLLOWS = "made from results that are missing"
"""Said of a group of steps."""


def _distance(before: Inputs, after: Inputs) -> int:
    """In how much of what a spec says the inputs of two results differ."""
    reasons = compare(before, after, lambda _: None)
    return sum(reason.what in ("flag", "model", "spec", "setting") for reason in reasons)


def group(reasons: Mapping[str, Sequence[Reason]]) -> dict[str, list[str]]:
    """The names of the steps that have the same reason, by its text; those with the most steps first.

    Steps that have no reason of their own, but need others that must run, are the last group.
    """
    groups: dict[str, list[str]] = {}
    follow = []
    for name, causes in reasons.items():
        own = [reason.text for reason in causes if reason.what != "step"]
        for text in own:
            groups.setdefault(text, []).append(name)
        if not own:
            follow.append(name)
    ordered = dict(sorted(groups.items(), key=lambda item: -len(item[1])))
    return {**ordered, FOLLOWS: follow} if follow else ordered
