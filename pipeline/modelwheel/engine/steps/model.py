"""The steps that workers run: inspecting, freezing, evaluating and compiling a model."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from ...assembly.assemble import read_quantization
from ...assembly.batch_sizes import CHOICE_VERSION, SIZING_ROWS, ChosenSizes, choose_sizes
from ...levels import Level
from ...limits import Limits
from ...model import check
from ...model.coverage import table_calls, table_rows, unread
from ...model.findings import Finding
from ...model.frozen_signature import CONFIG, GRAPH
from ...model.fusions.registry import chosen, registered
from ...model.input_values import (
    usable_columns,
    usable_masks,
    usable_parts,
    usable_ranges,
    usable_some,
    valid_values,
    wide_ranges,
)
from ...model.inspection import INSPECTION, Inspection, SignatureInfo
from ...model.readings import Reading, reading_of
from ...model.reference_result import default_rows
from ...model.renames import rename
from ...model.shapes import batched_inputs, compiled_shape
from ...platforms import Platform
from ...request import Extent, Request
from ...spec import Spec
from ...spec.reading.read import read_document
from ...spec.verification import VerifySection
from ...store.records import Record
from ...store.store import Store
from ...workers.flags import compiler_flags
from ...workers.jobs import (
    SIZING,
    CompileRequest,
    FreezeRequest,
    InspectRequest,
    Job,
    Padding,
    PassesRequest,
    QuantizeRequest,
    ReferenceRequest,
    SizingRequest,
    cpp_class,
)
from ...workers.outcomes import Sizing
from .base import JobStep, LocalStep, Records, Step, Workspace

SIZES = "sizes.json"
"""The `ChosenSizes` in the result of a `SizesStep`."""


@dataclass(frozen=True)
class ModelStep(Step):
    """A step of one request.

    `tree` is the hash of the model's tree, with which all keys begin.
    """

    request: Request
    tree: str

    @property
    def name(self) -> str:
        return f"{self.request.name}/{self.kind}"

    @property
    def lineage(self) -> str:
        return self.request.spec.model.name + self.name.removeprefix(self.request.name)

    @property
    def reading(self) -> Reading:
        """How the model is read."""
        return reading_of(self.request.origin, self.request.spec.interface_order)

    @property
    def bindings(self) -> str:
        """Where the Python extension will be: `extension` or `shared`."""
        return self.request.spec.package.bindings


def inspection_inputs(tree: str, reading: Reading) -> dict[str, Any]:
    """The inputs of the inspection of a model, given its tree hash and how it is read."""
    return InspectRequest(reading=reading).key_inputs(model=tree)


def read_inspection(store: Store, record: Record) -> Inspection:
    """The inspection in the result of an `InspectStep`."""
    return _parse_inspection(store.read_bytes(record, INSPECTION))


@lru_cache(maxsize=8)
def _parse_inspection(content: bytes) -> Inspection:
    # The keys of several steps of a model ask for it, one after the other.
    return Inspection.model_validate_json(content)


@dataclass(frozen=True)
class InspectStep(ModelStep, JobStep):
    """Reads the model without loading it."""

    kind = "inspect"
    vital = True

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        return inspection_inputs(self.tree, self.reading)

    def meanings(
        self,
        store: Store,  # noqa: ARG002
        records: Records,  # noqa: ARG002
        files: Callable[[], Mapping[str, str]],
    ) -> Mapping[str, Mapping[str, Any]]:
        return {self.tree: {"files": dict(files())}}

    def job(self, workspace: Workspace, out: Path) -> Job:
        return InspectRequest(reading=self.reading).job(workspace.model, out)

    def check(
        self, inspection: Inspection, limits: Limits | None = None, *, lenient: bool = False
    ) -> list[Finding]:
        """Findings about compiling the model as the spec says, within the limits of the repository."""
        request, spec = self.request, self.request.spec
        expected = check.Expected(
            signature=spec.model.serving_key,
            names=spec.names,
            shapes=request.shapes,
            shorter_shapes=[request.shapes_at(n) for n in request.lengths[:-1]],
            pads={
                name: axis.pad
                for name, section in spec.inputs.items()
                for axis in section.buckets.values()
            },
            batch_sizes=spec.compilation.batch_sizes,
            rules=request.rules,
            emulate=spec.batching.emulate,
            ranges=spec.verify.ranges,
            outputs=tuple(spec.verify.outputs),
            labels={name: len(texts) for name, texts in spec.label_texts.items()},
            tolerances=_tolerances(spec.verify),
            rows=request.compared_rows,
            limits=limits or Limits(),
            keep_state=spec.keep_state,
            fusions=spec.compilation.fusions,
            registered=registered(),
            lenient=lenient,
        )
        findings = check.check_signature(inspection, expected)
        if not any(finding.severity == "error" for finding in findings):
            findings += self._check_tables(inspection)
        return [replace(finding, place=_place(spec, finding.field)) for finding in findings]

    def _check_tables(self, inspection: Inspection) -> Iterator[Finding]:
        """Findings about tables of the model that random rows would leave uncompared."""
        spec = self.request.spec
        signature = inspection.signature(spec.model.serving_key)
        if signature is None or not signature.tables or spec.verify.samples:
            return
        signature = rename(signature, spec.names)
        request = _reference_request(self.request, self.reading, signature)
        from ...workers.table_reads import expected_tables

        for table in unread(expected_tables(signature, request)):
            yield Finding("warning" if table.read is not None else "note", "tables", str(table))


def _tolerances(verify: VerifySection) -> dict[str, tuple[float, float]]:
    tolerances = {"tolerance": (verify.tolerance.atol, verify.tolerance.rtol)}
    for name, own in verify.outputs.items():
        tolerances[f"outputs.{name}"] = (own.atol or 0.0, own.rtol or 0.0)
    return tolerances


def _place(spec: Spec, field: tuple[str, ...]) -> str:
    """Where a field of a spec file is: `digits.yaml:12:5`; empty if there is no field or no file."""
    if not field or spec.is_bare or not spec.path.is_file():
        return ""
    position = read_document(spec.path).position(field, of_key=True)
    return f"{spec.path}:{position.line}:{position.column}"


_Asked: TypeAlias = FreezeRequest | QuantizeRequest | SizingRequest | ReferenceRequest


@dataclass(frozen=True)
class _AfterInspect(ModelStep, JobStep):
    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/{InspectStep.kind}",)

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:
        return self.asked(store, records).key_inputs(model=self.tree)

    def job(self, workspace: Workspace, out: Path) -> Job:
        return self.asked(workspace.store, workspace.records).job(workspace.model, out)

    def asked(self, store: Store, records: Records) -> _Asked:
        """The request to the worker."""
        inspection = read_inspection(store, records[self.needs[0]])
        signature = inspection.signature(self.request.spec.model.serving_key)
        assert signature is not None  # it has passed the check
        return self._job_request(inspection, rename(signature, self.request.spec.names))

    @abc.abstractmethod
    def _job_request(self, inspection: Inspection, signature: SignatureInfo) -> _Asked:
        """The request to the worker; the signature has its names in the wheel."""


@dataclass(frozen=True)
class QuantizeStep(_AfterInspect):
    """Chooses the layers that compute with narrower numbers, if the spec asks for it."""

    kind = "quantize"

    def _job_request(self, inspection: Inspection, signature: SignatureInfo) -> QuantizeRequest:
        compute = self.request.spec.package.compute
        assert compute is not None  # otherwise there is no such step
        # Of any number of rows: its result does not depend on the batch sizes.
        extent = Extent(1, max(self.request.lengths, default=None))
        return QuantizeRequest(
            freezing=_freeze_request(self, extent, inspection, signature),
            type=compute.type,
            samples=PurePosixPath(compute.samples).name,
            most_changed=compute.budget.changed_decisions,
            most_error=compute.budget.error,
        )


@dataclass(frozen=True)
class _AfterQuantize(_AfterInspect):
    """A step that reads the model as it is compiled."""

    @property
    def needs(self) -> tuple[str, ...]:
        quantized = self.request.spec.package.compute is not None
        return (
            *super().needs,
            *((f"{self.request.name}/{QuantizeStep.kind}",) if quantized else ()),
        )

    def asked(self, store: Store, records: Records) -> _Asked:
        asked = super().asked(store, records)
        record = records.get(f"{self.request.name}/{QuantizeStep.kind}")
        if record is None:
            return asked
        assert not isinstance(asked, QuantizeRequest)
        return asked.with_layers([one.plain for one in read_quantization(store, record).layers])


@dataclass(frozen=True)
class FreezeStep(_AfterQuantize):
    """Freezes the signature at one batch size and length."""

    extent: Extent
    kind = "freeze"

    @property
    def name(self) -> str:
        return f"{self.request.name}/freeze/{self.extent}"

    def _job_request(self, inspection: Inspection, signature: SignatureInfo) -> FreezeRequest:
        return _freeze_request(self, self.extent, inspection, signature)


def _freeze_request(
    step: ModelStep, extent: Extent, inspection: Inspection, signature: SignatureInfo
) -> FreezeRequest:
    request, spec = step.request, step.request.spec
    # How many functions and composites have each name that fusions may be registered for.
    marked = inspection.replaceable(spec.model.serving_key)
    return FreezeRequest(
        reading=step.reading,
        signature=spec.model.serving_key,
        batch=extent.batch if batched_inputs(signature, request.shapes) else None,
        names=spec.names,
        shapes=request.shapes_at(extent.length),
        allow_pruned_inputs=spec.allow_pruned_inputs,
        keep_state=spec.keep_state,
        fusions=chosen(marked, spec.compilation.fusions, registered()),
    )


_UNNAMED = "mw::sizing"
"""The class of code that is never linked: models that differ in their names alone are compiled once."""


@dataclass(frozen=True)
class SizingStep(_AfterQuantize):
    """Compiles the model for several rows, if the batch sizes follow from that."""

    kind = "sizing"
    optional = True

    def _job_request(self, inspection: Inspection, signature: SignatureInfo) -> SizingRequest:
        request = self.request
        platform, level, smallest = request.variants[0]
        extent = smallest._replace(batch=SIZING_ROWS)
        return SizingRequest(
            freezing=_freeze_request(self, extent, inspection, signature),
            compiling=_compile_request(request, platform, level, _UNNAMED),
        )


@dataclass(frozen=True)
class SizesStep(ModelStep, LocalStep):
    """Decides the batch sizes."""

    kind = "sizes"
    optional = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/{SizingStep.kind}",)

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        return {"sizing": records[self.needs[0]].files[SIZING].sha256, "version": CHOICE_VERSION}

    def run(self, workspace: Workspace, out: Path) -> None:
        content = workspace.store.read_bytes(workspace.records[self.needs[0]], SIZING)
        choose_sizes(Sizing.model_validate_json(content)).save(out / SIZES)


def read_sizes(store: Store, record: Record) -> ChosenSizes:
    """The batch sizes in the result of a `SizesStep`."""
    return ChosenSizes.model_validate_json(store.read_bytes(record, SIZES))


@dataclass(frozen=True)
class ReferenceStep(_AfterQuantize):
    """Evaluates the signature with TensorFlow, and tests whether rows are independent."""

    kind = "reference"
    vital = True

    def _job_request(self, inspection: Inspection, signature: SignatureInfo) -> ReferenceRequest:  # noqa: ARG002
        return _reference_request(self.request, self.reading, signature)


def _reference_request(
    request: Request, reading: Reading, signature: SignatureInfo
) -> ReferenceRequest:
    """The inputs on which a signature, which has its names in the wheel, is evaluated."""
    spec, sizes = request.spec, request.batch_sizes
    shapes = {t.name: compiled_shape(signature, t, request.shapes) for t in signature.inputs}
    batched, ranges = bool(batched_inputs(signature, request.shapes)), spec.verify.ranges
    more = 0 if spec.verify.samples else table_rows(signature, shapes)
    calls = (
        0 if batched or spec.verify.samples or spec.keep_state else table_calls(signature, shapes)
    )
    return ReferenceRequest(
        reading=reading,
        signature=spec.model.serving_key,
        batch_sizes=sizes if batched else (),
        rows=(*default_rows(sizes), max(request.compared_rows, more)) if batched else (),
        seed=spec.verify.seed,
        ranges=usable_ranges(signature, ranges),
        masks=usable_masks(signature, ranges),
        columns=usable_columns(signature, ranges),
        valid=valid_values(signature, ranges),
        parts=usable_parts(signature, ranges),
        some=usable_some(signature, ranges),
        wide=wide_ranges(signature, ranges),
        tables=signature.tables,
        more=calls,
        samples=PurePosixPath(spec.verify.samples or "").name,
        names=spec.names,
        shapes=request.shapes,
        lengths=request.lengths,
        padded={
            name: Padding(axes=tuple(section.buckets), value=axis.pad)
            for name, section in spec.inputs.items()
            for axis in section.buckets.values()
        },
        keep_state=spec.keep_state,
    )


@dataclass(frozen=True)
class CompileStep(ModelStep, JobStep):
    """Compiles one frozen graph for one CPU level of one platform."""

    extent: Extent
    level: Level
    platform: Platform
    kind = "compile"

    @property
    def name(self) -> str:
        return compile_name(self.request, self.platform, self.level, self.extent)

    @property
    def needs(self) -> tuple[str, ...]:
        return (f"{self.request.name}/freeze/{self.extent}",)

    @property
    def waits_for(self) -> tuple[str, ...]:
        # Nothing is compiled if TensorFlow cannot evaluate the model.
        return (f"{self.request.name}/reference",)

    def key_inputs(self, store: Store, records: Records) -> Mapping[str, Any]:  # noqa: ARG002
        frozen = records[self.needs[0]].files
        # The frozen graph, not the model: another model with the same graph needs no compiling.
        hashes = {"graph": frozen[GRAPH].sha256, "config": frozen[CONFIG].sha256}
        return self._job_request().key_inputs(**hashes)

    def job(self, workspace: Workspace, out: Path) -> Job:
        frozen = out.with_name(f"{out.name}-inputs")
        # Links, because the compiler only reads; weights are large and there is a step per level.
        workspace.store.materialize(workspace.records[self.needs[0]], frozen, link=True)
        return self._job_request().job(frozen, out)

    def passes_job(self, frozen: Path, out: Path) -> Job:
        """The job that writes what the passes of the compiler do, for the graph in a directory."""
        return PassesRequest(**dict(self._job_request())).job(frozen, out)

    def _job_request(self) -> CompileRequest:
        name = cpp_class(self.request.spec.identifier, str(self.extent), self.level)
        return _compile_request(self.request, self.platform, self.level, name)


def _compile_request(
    request: Request, platform: Platform, level: Level, name: str
) -> CompileRequest:
    flags = compiler_flags(request.spec, level, request.tuned)
    return CompileRequest.at(platform, level, name, flags)


def compile_name(request: Request, platform: Platform, level: Level, extent: Extent) -> str:
    """The name of a compile step."""
    return f"{request.name}/{platform.name}/{level.name}/{extent}"
