"""A step of a build while a cluster works on it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from distributed import Future as DaskFuture

from ..running import Done, Order


@dataclass(eq=False)
class Work:
    """A step until it has its result."""

    order: Order
    model_key: str
    key: str
    memory: int
    result: Future[Done]
    ticket: str = ""
    """The name of the attempt; empty before the first."""
    future: DaskFuture[Any] | None = None
    """The attempt; None if it could not be sent."""
    began: bool = False
    """Whether a worker has said that it has begun."""
    died_on: list[str] = field(default_factory=list)
    """Names of the workers that died while they ran it."""
    among: set[str] = field(default_factory=set)
    """The workers that this attempt may use, by their addresses; empty for all."""
    waits_since: float = 0.0
    """By the monotonic clock."""

    @property
    def name(self) -> str:
        return self.order.step.name
