"""`modelwheel check`: fetches models, looks at them in a worker, and judges what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from . import check, inspection, source
from .inspection import Inspection
from .jobs import Job
from .plan import make_request, source_of
from .spec import Spec
from .steps import InspectStep
from .store import Store, action_key
from .workers import WorkerPool


@dataclass(frozen=True)
class CheckedModel:
    """What was found in one model and what follows for its spec."""

    name: str
    signature_key: str
    inspection: Inspection
    findings: Sequence[check.Finding]

    @property
    def errors(self) -> list[check.Finding]:
        """What keeps the model from being compiled."""
        return [finding for finding in self.findings if finding.severity == "error"]

    def as_json(self) -> dict[str, object]:
        """Everything as JSON holds it."""
        return {
            "model": self.name,
            "signature": self.signature_key,
            "inspection": self.inspection.model_dump(mode="json"),
            "findings": [asdict(finding) for finding in self.findings],
        }


def check_models(specs: Sequence[Spec]) -> list[CheckedModel]:
    """Looks at the model of every spec."""
    store = Store()
    with WorkerPool() as pool:
        return [_check(spec, store, pool) for spec in specs]


def _check(spec: Spec, store: Store, pool: WorkerPool) -> CheckedModel:
    model = source.fetch(source_of(spec), store)
    step = InspectStep(make_request(spec), model.tree_sha256)
    found = inspect(model, store, pool)
    return CheckedModel(step.request.name, spec.model.serving_key, found, step.judge(found))


def inspect(model: source.FetchedModel, store: Store, pool: WorkerPool) -> Inspection:
    """What is in a SavedModel; from the store if it was looked at before."""
    key = action_key("inspect", **inspection.key_inputs(model.tree_sha256))
    record = store.lookup(key)
    if record is None:
        with store.scratch() as out:
            job: Job = inspection.job(model.directory, out)
            pool.submit(job).result()
            record = store.publish(key, out, {"step": "inspect"})
    return Inspection.model_validate_json(store.read_bytes(record, "inspection.json"))
