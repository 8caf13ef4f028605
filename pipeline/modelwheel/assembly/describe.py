"""Makes the manifest of a compiled model: its signature, batching, costs and metadata.

The functions here only compute; `modelwheel.assembly.assemble` reads and writes the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from .. import __version__
from ..codegen import FirstRows, estimate_cost, partial_part
from ..errors import UnsupportedModelError
from ..levels import Level
from ..model.frozen_signature import FrozenSignature
from ..model.quantization import Quantization
from ..model.reference_result import Reference
from ..platforms import Platform
from ..program.program import Program
from ..program.traffic import bytes_moved
from ..request import Extent, Request
from ..signature import Signature
from ..spec import BatchRule, Spec
from ..spec.fields import LONGEST_LINE
from ..spec.tune_lock import Costs
from ..versions import TENSORFLOW_VERSION
from ..workers.flags import compiler_flags
from . import manifest
from .interface import describe_signature

LICENSES = "licenses"
"""The directory of licence texts in a project."""

VariantKey: TypeAlias = tuple[str, Extent]
"""CPU level and extent, whose batch size is 1 if the signature has no batch axis."""


@dataclass(frozen=True)
class Compiled:
    """The results of freezing, compiling and evaluating for one request and platform."""

    frozen: Mapping[Extent, FrozenSignature]
    programs: Mapping[VariantKey, Program]
    reference: Reference
    reference_sha256: str
    """Hash of the reference's arrays."""
    quantization: Quantization | None = None


def describe(
    request: Request,
    platform: Platform,
    compiled: Compiled,
    provenance: manifest.Provenance,
    sizes: manifest.Sizes,
) -> manifest.Manifest:
    """The manifest of a model on one platform, without the names of its files.

    Raises:
        UnsupportedModelError: An output's shape follows the batch in a way that cannot be described,
            or the spec's batch rules cannot be used.
    """
    signature = describe_signature(
        compiled.frozen, compiled.reference, request.spec.inputs, request.spec.label_texts
    )
    levels = request.levels_of(platform)
    batching = _describe_batching(request, compiled)
    per_row = rows_of_outputs(signature, batching)
    return manifest.Manifest(
        platform=platform.name,
        model=_describe_model(request.spec),
        signature=signature,
        batching=batching,
        levels=tuple(level.name for level in levels),
        weights="",
        variants=_describe_variants(request, platform, compiled.programs, per_row),
        files=(),
        verification=_describe_verification(request.spec, signature, compiled),
        compiler=_describe_compiler(request, levels, compiled),
        provenance=provenance,
        sizes=sizes,
    )


def rows_of_outputs(signature: Signature, batching: manifest.Batching) -> Sequence[bool]:
    """For each output, whether calls with fewer rows need only so many of its own: it has one for each, first of all axes."""
    splits = batching.no_emulation_reason is None
    return [splits and output.batch_axis == 0 for output in signature.outputs]


# --- batching -------------------------------------------------------------------------------------


def _describe_batching(request: Request, compiled: Compiled) -> manifest.Batching:
    batching = request.spec.batching
    reason = _no_emulation_reason(request.spec, compiled.reference)
    _require_emulation(request.rules, compiled.reference, reason)
    return manifest.Batching(
        sizes=tuple(sorted({extent.batch for _, extent in compiled.programs})),
        strategy=batching.strategy,
        rules=tuple(map(str, request.rules)),
        no_emulation_reason=reason,
    )


def _no_emulation_reason(spec: Spec, reference: Reference) -> str | None:
    if not reference.batched_inputs:
        return None  # there are no rows to split
    if not reference.independent:
        return reference.reason or "its rows are not independent"
    return None if spec.batching.emulate else "its spec sets batching.emulate to false"


def _require_emulation(
    rules: tuple[BatchRule, ...], reference: Reference, reason: str | None
) -> None:
    # `reason` is None for such a model, but a rule for rows makes no sense there.
    if not reference.batched_inputs:
        reason = "its signature has no batch axis"
    if rules and reason is not None:
        raise UnsupportedModelError(
            f"the batch rule '{rules[0]}' cannot be used: {reason}; remove batching.rules from the spec",
            code="MW413",
        )


# --- variants -------------------------------------------------------------------------------------


def platform_directory(platform: Platform) -> str:
    """The directory in a project for files of one platform."""
    return f"platforms/{platform.name}"


def object_name(platform: Platform, level: str, extent: Extent) -> str:
    """The path of a variant's machine code in a project."""
    return f"{platform_directory(platform)}/objects/{level}_{extent}.o"


def _describe_variants(
    request: Request,
    platform: Platform,
    programs: Mapping[VariantKey, Program],
    per_row: Sequence[bool],
) -> tuple[manifest.Variant, ...]:
    costs = _choose_costs(request.tuned.nanoseconds, programs)
    return tuple(
        manifest.Variant(
            level=level,
            batch_size=extent.batch,
            length=extent.length,
            object=object_name(platform, level, extent),
            operations=program.operations,
            bytes_moved=bytes_moved(program),
            cost=costs[level, extent],
            partial=partial_part(program, FirstRows(program, extent.batch, per_row)),
        )
        for (level, extent), program in programs.items()
    )


def _choose_costs(
    measured: Costs, programs: Mapping[VariantKey, Program]
) -> dict[VariantKey, float]:
    """Measured costs where `modelwheel tune` has stored them for a whole level, estimates otherwise."""
    largest = max(extent.length or 0 for _, extent in programs)
    costs = {}
    for (level, extent), program in programs.items():
        known = measured.get(level, {})
        # Costs are compared within a level and length: measured and estimated ones must not mix.
        # The measured ones are those of the largest length, which decide how batches are split.
        complete = all(e.batch in known for of_level, e in programs if of_level == level)
        measures = complete and (extent.length or 0) == largest
        costs[level, extent] = known[extent.batch] if measures else estimate_cost(program)
    return costs


# --- everything else ------------------------------------------------------------------------------


def _describe_verification(
    spec: Spec, signature: Signature, compiled: Compiled
) -> manifest.Verification:
    tolerances = {
        output.name: spec.verify.tolerance_of(output.name) for output in signature.outputs
    }
    rows = compiled.reference.rows
    if _no_emulation_reason(spec, compiled.reference) is not None:
        sizes = {extent.batch for _, extent in compiled.programs}
        rows = tuple(n for n in rows if n in sizes)
    return manifest.Verification(
        evaluator=compiled.reference.evaluator,
        seed=spec.verify.seed,
        ranges=dict(compiled.reference.ranges),
        masks=dict(compiled.reference.masks),
        columns=dict(compiled.reference.columns),
        parts=dict(compiled.reference.parts),
        some=compiled.reference.some,
        sampled=compiled.reference.sampled,
        rows=rows,
        lengths=compiled.reference.lengths,
        length_rows=compiled.reference.length_rows,
        tolerances=tolerances,
        calls=compiled.reference.calls,
        state_tolerance=spec.verify.tolerance if compiled.reference.calls is not None else None,
        boundary=compiled.reference.boundary,
        boundary_rows=compiled.reference.boundary_rows,
        error_factor=spec.verify.error_factor,
        truth=compiled.reference.truth,
        reference_sha256=compiled.reference_sha256,
    )


def _describe_compiler(
    request: Request, levels: Iterable[Level], compiled: Compiled
) -> manifest.Compiler:
    # The same functions are called whatever the batch size and length.
    frozen = next(iter(compiled.frozen.values()))
    return manifest.Compiler(
        tensorflow=TENSORFLOW_VERSION,
        modelwheel=__version__,
        xla_flags={
            level.name: compiler_flags(request.spec, level, request.tuned).xla for level in levels
        },
        tf_xla_flags=request.spec.compilation.tf_xla_flags,
        fusions=frozen.fusions,
        quantization=compiled.quantization,
    )


def _first_line(description: str) -> str:
    """The first line of a description, for listings; empty if it is too long for them."""
    line = description.partition("\n")[0].strip()
    return line if len(line) <= LONGEST_LINE else ""


def _describe_model(spec: Spec) -> manifest.Model:
    model, package = spec.model, spec.package
    summary = package.summary or _first_line(model.description or "")
    summary = summary or f"{model.name}: a model compiled to machine code"
    return manifest.Model(
        name=model.name,
        identifier=spec.identifier,
        module=spec.module,
        distribution=spec.distribution,
        version=model.version,
        namespace=spec.compilation.namespace,
        cpp_class=spec.compilation.cpp_class or "",
        cpp_header=spec.cpp_header or "",
        author=model.author or "",
        description=model.description or "",
        summary=summary,
        license=package.license,
        weights_license=package.weights_license,
        publish=package.publish,
        license_files=tuple(str(Path(LICENSES, name)) for name in spec.license_texts),
        urls=dict(package.urls),
        keywords=package.keywords,
        bindings=package.bindings,
        interfaces=package.interfaces,
        programs=package.programs,
        weights_storage=package.weights_storage,
    )
