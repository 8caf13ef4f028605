"""What modelwheel says about one model on its way to machine code: findings, then the first error."""

from __future__ import annotations

from pathlib import Path

from modelwheel.errors import ModelwheelError
from modelwheel.model.check import Expected, check_signature
from modelwheel.model.frozen_signature import FrozenSignature
from modelwheel.model.fusions.registry import Provider, chosen
from modelwheel.model.input_values import usable_masks, usable_ranges
from modelwheel.model.inspection import Inspection, SignatureInfo
from modelwheel.model.readings import Reading, SavedModelReading
from modelwheel.model.reference_result import Reference
from modelwheel.model.shapes import batched_inputs
from modelwheel.workers.jobs import FreezeRequest, InspectRequest, ReferenceRequest

from .laboratory import Laboratory

_SAVED_MODEL = SavedModelReading()


def outcome(
    laboratory: Laboratory,
    model: Path,
    expected: Expected | None = None,
    reading: Reading = _SAVED_MODEL,
) -> list[str]:
    """Findings with their severity; then `evaluating: ...`, `freezing: ...` or `compiling: ...`, if one fails."""
    expected = expected or Expected()
    try:
        out = laboratory.run(InspectRequest(reading=reading).job(model, laboratory.new_directory()))
    except ModelwheelError as error:
        return [f"error: {error}"]
    found = Inspection.load(out / "inspection.json")
    findings = check_signature(found, expected)
    said = [f"{finding.severity}: {finding}" for finding in findings]
    signature = found.signature(expected.signature)
    if signature is None or any(finding.severity == "error" for finding in findings):
        return said
    try:
        marked = found.marked.get(signature.key, {})
        fusions = chosen(marked, expected.fusions, expected.registered)
        return said + _build(laboratory, model, signature, expected, fusions, reading)
    except _StepError as error:
        return [*said, str(error)]


class _StepError(Exception):
    pass


def _build(
    laboratory: Laboratory,
    model: Path,
    signature: SignatureInfo,
    expected: Expected,
    fusions: tuple[Provider, ...],
    reading: Reading,
) -> list[str]:
    batched = bool(batched_inputs(signature, expected.shapes))
    try:
        request = ReferenceRequest(
            reading=reading,
            signature=signature.key,
            batch_sizes=(1, 4) if batched else (),
            ranges=usable_ranges(signature, expected.ranges),
            masks=usable_masks(signature, expected.ranges),
        )
        out = laboratory.run(request.job(model, laboratory.new_directory()))
    except ModelwheelError as error:
        raise _StepError(f"evaluating: {error}") from error
    summary = Reference.load(out / "reference.json")
    reasons = [f"rows: {summary.reason}"] if batched and summary.reason else []
    try:
        batch = 4 if batched else None
        freeze = FreezeRequest(
            reading=reading, signature=signature.key, batch=batch, fusions=fusions
        )
        frozen = laboratory.run(freeze.job(model, laboratory.new_directory()))
    except ModelwheelError as error:
        raise _StepError(f"freezing: {error}") from error
    FrozenSignature.load(frozen / "signature.json")
    try:
        laboratory.compile("model", frozen, "x86-64")
    except ModelwheelError as error:
        raise _StepError(f"compiling: {error}") from error
    return [*reasons, "compiled"]
