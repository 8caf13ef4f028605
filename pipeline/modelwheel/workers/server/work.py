"""The work of a worker; the server knows no more about jobs than this."""

from __future__ import annotations

from typing import Protocol

from ..jobs import Job


class Work(Protocol):
    """The work of jobs; `python -m modelwheel.compiler` has that of TensorFlow."""

    def prepare(self) -> None:
        """Imports what every job needs; must start no thread."""

    def run(self, job: Job) -> None:
        """Writes the outputs of a job."""

    def name_layers(self, job: Job) -> tuple[str, ...]:
        """The layers of its model that most likely take the time and the memory."""
