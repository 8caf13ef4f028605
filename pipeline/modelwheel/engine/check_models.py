"""`modelwheel check`: fetches models, looks at them in a worker, and judges what was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ..compiler import check, inspection
from ..compiler.inspection import Inspection
from ..compiler.pool import WorkerPool
from ..errors import ModelwheelError, UnsupportedModelError
from ..request import make_request, source_of
from ..source import fetch as source
from ..spec import Spec
from ..store.store import Store
from .steps import InspectStep, inspection_key


@dataclass(frozen=True)
class CheckedModel:
    """What was found in one model and what follows for its spec."""

    name: str
    signature_key: str
    inspection: Inspection | None = None
    findings: Sequence[check.Finding] = ()
    error: ModelwheelError | None = None
    """Why the model could not be looked at at all."""

    @property
    def exit_code(self) -> int:
        """0 if the model can be compiled."""
        if self.error is not None:
            return self.error.exit_code
        refused = any(finding.severity == "error" for finding in self.findings)
        return UnsupportedModelError.exit_code if refused else 0

    def as_json(self) -> dict[str, object]:
        """Everything as JSON holds it."""
        found = self.inspection
        return {
            "model": self.name,
            "signature": self.signature_key,
            "error": None if self.error is None else str(self.error),
            "inspection": None if found is None else found.model_dump(mode="json"),
            "findings": [asdict(finding) for finding in self.findings],
        }


def check_models(specs: Sequence[Spec], store: Store) -> list[CheckedModel]:
    """Looks at the model of every spec; one that cannot be had does not keep it from the others."""
    with WorkerPool() as pool:
        return [_check(spec, store, pool) for spec in specs]


def _check(spec: Spec, store: Store, pool: WorkerPool) -> CheckedModel:
    request, key = make_request(spec), spec.model.serving_key
    try:
        model = source.fetch(source_of(spec), store)
        found = inspect(model, store, pool)
        findings = InspectStep(request, model.tree_sha256).judge(found)
    except ModelwheelError as error:
        return CheckedModel(request.name, key, error=error)
    return CheckedModel(request.name, key, found, findings)


def inspect(model: source.FetchedModel, store: Store, pool: WorkerPool) -> Inspection:
    """What is in a SavedModel; from the store if it was looked at before."""
    key = inspection_key(model.tree_sha256)
    record = store.lookup(key)
    if record is None:
        with store.scratch() as out:
            pool.submit(inspection.job(model.directory, out)).result()
            record = store.publish(key, out, {"step": "inspect"})
    return Inspection.model_validate_json(store.read_bytes(record, "inspection.json"))
