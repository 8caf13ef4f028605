"""From compiled variants to the files that a wheel is made from: C++, constants, manifest, reference.

These files and `wheel_template/` are all that the wheel stage reads.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import __version__, manifest, tune_lock
from .emit import (
    EMITTER_VERSION,
    Constants,
    ModelTables,
    Variant,
    collect,
    estimate_cost,
    level_source,
    random_states,
    tables_source,
)
from .errors import UnsupportedModelError
from .files import digest_file
from .freeze import SIGNATURE, FrozenSignature, FrozenTensor
from .program import Program
from .reference import ARRAYS, SUMMARY, Reference
from .signature import Signature, Tensor
from .spec import Spec
from .store import Record, Store
from .targets import Target
from .versions import TENSORFLOW_VERSION

MANIFEST = "manifest.json"
WEIGHTS = "weights/weights.bin"
LICENSES = "licenses"


@dataclass(frozen=True)
class ProjectRequest:
    """Everything that the project of one model is made from."""

    spec: Spec
    targets: tuple[Target, ...]
    batch_sizes: tuple[int, ...]
    tree_sha256: str
    provenance: Mapping[str, str]
    flags: Mapping[str, tuple[str, ...]]
    """XLA's flags by CPU level."""
    frozen: Mapping[int, Record]
    """Results of the freeze steps by batch size."""
    compiled: Mapping[tuple[str, int], Record]
    """Results of the compile steps by level and batch size."""
    reference: Record
    store: Store

    def key_inputs(self) -> dict[str, Any]:
        """What the files depend on."""
        licenses = self.spec.package.license_files
        return {
            "modelwheel": __version__,
            "emitter": EMITTER_VERSION,
            "manifest": manifest.MANIFEST_VERSION,
            "spec": self.spec.spec_digest(),
            "provenance": dict(self.provenance),
            "tree": self.tree_sha256,
            "costs": tune_lock.read_costs(self.spec.path),
            "licenses": {name: digest_file(self.spec.directory / name).sha256 for name in licenses},
            "frozen": {str(size): _hashes(record) for size, record in self.frozen.items()},
            "compiled": [
                [level, size, _hashes(record)] for (level, size), record in self.compiled.items()
            ],
            "reference": _hashes(self.reference),
        }


def _hashes(record: Record) -> dict[str, str]:
    return {name: file.sha256 for name, file in record.files.items()}


def write_project_files(request: ProjectRequest, saved_model_bytes: int, out: Path) -> None:
    """Writes generated C++, machine code, constants, reference sample and manifest below `out`.

    Raises:
        UnsupportedModelError: An output's shape follows the batch in a way that cannot be described.
        UnsupportedProgramError: A step cannot be expressed with the runtime's kernels.
    """
    from .sample import write_sample  # NumPy, which a plan does not need

    store = request.store
    reference = Reference.model_validate_json(store.read_bytes(request.reference, SUMMARY))
    frozen = {
        size: FrozenSignature.model_validate_json(store.read_bytes(record, SIGNATURE))
        for size, record in request.frozen.items()
    }
    programs = {
        variant: Program.model_validate_json(store.read_bytes(record, "program.json"))
        for variant, record in request.compiled.items()
    }
    signature = _signature(frozen, reference)
    constants = collect(
        (program, store.path(request.compiled[variant], "constants.bin"))
        for variant, program in programs.items()
    )
    costs = _costs(request.spec, programs)
    described = _manifest(
        request, reference, signature, programs, costs, len(constants.blob), saved_model_bytes
    )
    _write(out / WEIGHTS, bytes(constants.blob))
    _write_objects(request, out)
    _write_sources(request, described, constants, programs, costs, out)
    write_sample(
        store.path(request.reference, ARRAYS),
        described,
        out / "python" / request.spec.module / "_reference.npz",
    )
    for name in request.spec.package.license_files:
        target = out / LICENSES / Path(name).name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(request.spec.directory / name, target)
    complete = described.model_copy(update={"files": manifest.list_files(out)})
    complete.save(out / MANIFEST)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def object_name(level: str, batch_size: int) -> str:
    """Where a variant's machine code lies in the project."""
    return f"objects/{level}_b{batch_size}.o"


def _write_objects(request: ProjectRequest, out: Path) -> None:
    for (level, size), record in request.compiled.items():
        _write(out / object_name(level, size), request.store.read_bytes(record, "kernels.o"))


def _write_sources(
    request: ProjectRequest,
    described: manifest.Manifest,
    constants: Constants,
    programs: Mapping[tuple[str, int], Program],
    costs: Mapping[tuple[str, int], float],
    out: Path,
) -> None:
    batching = described.batching
    states = max(map(random_states, programs.values()))
    for target in request.targets:
        variants = [
            Variant(size if described.signature.batched else 1, program, costs[target.name, size])
            for size in request.batch_sizes
            for program in [programs[target.name, size]]
        ]
        text = level_source(target, variants, constants.offsets, states)
        _write(out / f"generated/program_{target.identifier}.cpp", text.encode())
    tables = ModelTables(
        name=described.model.name,
        version=described.model.version,
        about=described.about(),
        signature=described.signature,
        batch_sizes=batching.sizes,
        no_emulation_reason=batching.no_emulation_reason,
        strategy=batching.strategy,
        rules=batching.rules,
    )
    text = tables_source(tables, request.targets, states)
    _write(out / "generated/model_tables.cpp", text.encode())


def _costs(spec: Spec, programs: Mapping[tuple[str, int], Program]) -> dict[tuple[str, int], float]:
    """Measured costs where `modelwheel tune` left them for a whole level, estimates elsewhere."""
    measured = tune_lock.read_costs(spec.path)
    costs = {}
    for (level, size), program in programs.items():
        sizes = {str(s) for known, s in programs if known == level}
        known = measured.get(level, {})
        complete = sizes <= known.keys()
        costs[level, size] = known[str(size)] if complete else estimate_cost(program)
    return costs


# --- what the model looks like to its users -------------------------------------------------------


def _signature(frozen: Mapping[int, FrozenSignature], reference: Reference) -> Signature:
    first = next(iter(frozen.values()))
    inputs = tuple(
        _tensor(tensor, int(tensor.name in first.batched_inputs)) for tensor in first.inputs
    )
    outputs = tuple(
        _tensor(tensor, reference.leading_per_row[tensor.name]) for tensor in first.outputs
    )
    signature = Signature(inputs=inputs, outputs=outputs)
    for size, other in frozen.items():
        _require_shapes(signature, other, size)
    return signature


def _tensor(tensor: FrozenTensor, leading_per_row: int) -> Tensor:
    shape: tuple[int | None, ...] = tensor.shape
    if leading_per_row:
        shape = (None, *shape[1:])
    return Tensor(
        name=tensor.name,
        c_name=tensor.c_name,
        dtype=tensor.dtype,
        shape=shape,
        leading_per_row=leading_per_row,
    )


def _require_shapes(signature: Signature, frozen: FrozenSignature, size: int) -> None:
    """Every tensor must have, at every batch size, the shape that the signature foretells."""
    for tensor, at_size in zip(
        signature.inputs + signature.outputs, frozen.inputs + frozen.outputs, strict=True
    ):
        rows = tensor.leading_per_row * size
        expected = tuple(rows if extent is None else extent for extent in tensor.shape)
        if expected != at_size.shape:
            raise UnsupportedModelError(
                f"{tensor.name!r} has shape {at_size.shape} at batch size {size}, where {expected} "
                "follows from the other sizes; compile one batch size, or give the output a first "
                "axis that is a multiple of the batch"
            )


def _manifest(
    request: ProjectRequest,
    reference: Reference,
    signature: Signature,
    programs: Mapping[tuple[str, int], Program],
    costs: Mapping[tuple[str, int], float],
    weights_bytes: int,
    saved_model_bytes: int,
) -> manifest.Manifest:
    spec, store = request.spec, request.store
    sizes = request.batch_sizes if signature.batched else (1,)
    variants = tuple(
        manifest.Variant(
            level=level,
            batch_size=size if signature.batched else 1,
            object=object_name(level, size),
            operations=program.operations,
            bytes_moved=program.bytes_moved,
            cost=costs[level, size],
        )
        for (level, size), program in programs.items()
    )
    objects = sum(
        store.path(record, "kernels.o").stat().st_size for record in request.compiled.values()
    )
    return manifest.Manifest(
        model=_model(spec),
        signature=signature,
        batching=manifest.Batching(
            sizes=sizes,
            strategy=spec.batching.strategy,
            rules=tuple(str(rule) for rule in spec.batching.rules),
            no_emulation_reason=_no_emulation_reason(spec, reference),
        ),
        levels=tuple(target.name for target in request.targets),
        variants=variants,
        files=(),
        verification=manifest.Verification(
            seed=spec.verify.seed,
            ranges=dict(spec.verify.ranges),
            rows=reference.rows,
            tolerances={
                output.name: manifest.Tolerance(
                    **spec.verify.tolerance_of(output.name).model_dump()
                )
                for output in signature.outputs
            },
            reference_sha256=request.reference.files[ARRAYS].sha256,
        ),
        compiler=manifest.Compiler(
            tensorflow=TENSORFLOW_VERSION,
            modelwheel=__version__,
            xla_flags=dict(request.flags),
            tf_xla_flags=spec.compilation.tf_xla_flags,
        ),
        provenance=manifest.Provenance(
            spec_sha256=spec.spec_digest(),
            source=dict(request.provenance),
            tree_sha256=request.tree_sha256,
            signature_key=spec.model.serving_key,
        ),
        sizes=manifest.Sizes(weights=weights_bytes, objects=objects, saved_model=saved_model_bytes),
    )


def _no_emulation_reason(spec: Spec, reference: Reference) -> str | None:
    if not reference.batched_inputs:
        return None  # there are no rows to compose
    if not reference.independent:
        return reference.reason or "its rows are not independent"
    return None if spec.batching.emulate else "its spec sets batching.emulate to false"


def _model(spec: Spec) -> manifest.Model:
    model, package = spec.model, spec.package
    summary = package.summary or f"{model.name}: a TensorFlow model compiled to machine code"
    return manifest.Model(
        name=model.name,
        identifier=spec.identifier,
        module=spec.module,
        distribution=spec.distribution,
        version=model.version,
        namespace=spec.compilation.namespace,
        author=model.author or "",
        description=model.description or "",
        summary=summary,
        license=package.license,
        weights_license=package.weights_license,
        license_files=tuple(f"{LICENSES}/{Path(name).name}" for name in package.license_files),
        urls=dict(package.urls),
        keywords=package.keywords,
    )
