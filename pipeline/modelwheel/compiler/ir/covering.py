"""Steps that say which HLO instructions they compute, on their way from XLA's thunks to a graph.

Programs have no HLO: `assign` writes plain steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...program.steps import Step


class CoveringStep(Step):
    """A step, and what its node covers."""

    covers: frozenset[str]
    """The names of the HLO instructions whose values it computes."""

    @classmethod
    def of(cls, step: Step, covers: Iterable[str]) -> CoveringStep:
        """A step with the names."""
        fields = {name: getattr(step, name) for name in Step.model_fields}
        return cls(**fields, covers=frozenset(covers))


def covers_of(step: Step) -> frozenset[str]:
    """The names that a step has; none if it comes from elsewhere."""
    return step.covers if isinstance(step, CoveringStep) else frozenset()
