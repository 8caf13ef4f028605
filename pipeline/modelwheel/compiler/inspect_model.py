"""The job `inspect`: reads what a model holds, without loading or running it."""

from __future__ import annotations

from ..model.inspection import INSPECTION
from ..workers.jobs import InspectJob
from . import formats


def run(job: InspectJob) -> None:
    """Writes the inspection."""
    reading = job.request.reading
    formats.inspect(job.inputs.model, reading).save(job.out / INSPECTION)
