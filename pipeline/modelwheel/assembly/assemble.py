"""Assembles the files that a wheel is made from: C++, machine code, constants, reference and manifest.

Packaging reads these files and `wheel_template/`, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..codegen import (
    EMITTER_VERSION,
    CompiledVariant,
    Constants,
    ModelTables,
    Packed,
    StoredWeights,
    compiled_kernels,
    level_source,
    pack_weights,
    random_states,
    tables_source,
)
from ..codegen import store as store_weights
from ..model.frozen_signature import GRAPH, SIGNATURE, STATE, FrozenSignature
from ..model.quantization import QUANTIZATION, Quantization
from ..model.reference_result import ARRAYS, SUMMARY, TIMES, Reference
from ..platforms import Platform
from ..program.program import Program
from ..request import Extent, Request
from ..store.records import Record
from ..store.store import Store
from ..util.files import digest_file
from ..versions import TENSORFLOW_VERSION
from ..workers.flags import compiler_flags
from . import manifest, sbom
from .describe import LICENSES, Compiled, VariantKey, describe, platform_directory, rows_of_outputs
from .objects import loaded_bytes

MANIFEST = "manifest.json"
"""The manifest's name in the directory of each platform."""

KERNELS = "kernels.txt"
"""The list of kernels that are compiled by themselves, beside the generated C++ of each platform."""


@dataclass(frozen=True)
class Project:
    """Results of earlier steps, in the store: everything that the wheel of one model is made from."""

    request: Request
    tree_sha256: str
    provenance: Mapping[str, str]
    frozen: Mapping[Extent, Record]
    """Results of the freeze steps."""
    compiled: Mapping[tuple[str, str, Extent], Record]
    """Results of the compile steps by platform, CPU level and extent."""
    reference: Record
    store: Store
    quantized: Record | None = None
    """The layers of narrower numbers, if the spec asks for some."""
    profiled: bool = False
    """Whether the code reads a clock after each step."""

    def key_inputs(self) -> dict[str, Any]:
        """Everything that the files depend on; part of the step's key."""
        request = self.request
        return {
            "modelwheel": __version__,
            "emitter": EMITTER_VERSION,
            "manifest": manifest.MANIFEST_VERSION,
            "sbom": sbom.SBOM_VERSION,
            "tensorflow": TENSORFLOW_VERSION,
            "spec": request.spec.spec_digest(),
            "flags": {
                level.name: [flags.xla, flags.tf_xla]
                for level in request.levels
                for flags in [compiler_flags(request.spec, level, request.tuned)]
            },
            "provenance": dict(self.provenance),
            "tree": self.tree_sha256,
            # Measured costs are in a file of their own, which the spec's digest does not cover.
            "costs": request.tuned.nanoseconds,
            # The spec's digest has only the names of these files.
            "licenses": {
                name: hashlib.sha256(text).hexdigest()
                for name, text in request.spec.license_texts.items()
            },
            "labels": {name: list(texts) for name, texts in request.spec.label_texts.items()},
            "frozen": {str(extent): record.hashes for extent, record in self.frozen.items()},
            # A list, as the order of variants in the manifest follows it.
            "compiled": [
                [platform, level, str(extent), record.hashes]
                for (platform, level, extent), record in self.compiled.items()
            ],
            "reference": {n: h for n, h in self.reference.hashes.items() if n != TIMES},
            **({"quantized": self.quantized.hashes} if self.quantized else {}),
            **({"profiled": True} if self.profiled else {}),
        }

    def compiled_for(self, platform: Platform) -> dict[VariantKey, Record]:
        """Results of the compile steps of one platform by CPU level and extent."""
        return {
            (level, extent): record
            for (name, level, extent), record in self.compiled.items()
            if name == platform.name
        }

    def read(self, platform: Platform) -> Compiled:
        """Reads the results for one platform; programs are in the order of `compiled`."""
        store = self.store
        reference = Reference.model_validate_json(store.read_bytes(self.reference, SUMMARY))
        return Compiled(
            frozen={
                extent: FrozenSignature.model_validate_json(store.read_bytes(record, SIGNATURE))
                for extent, record in self.frozen.items()
            },
            # Without a batch axis, the spec's batch size (if any) is the extent of a fixed axis.
            programs={
                (
                    level,
                    extent if reference.batched_inputs else extent._replace(batch=1),
                ): Program.model_validate_json(store.read_bytes(record, "program.json"))
                for (level, extent), record in self.compiled_for(platform).items()
            },
            reference=reference,
            reference_sha256=self.reference.files[ARRAYS].sha256,
            quantization=read_quantization(store, self.quantized) if self.quantized else None,
        )


def read_quantization(store: Store, record: Record) -> Quantization:
    """The layers of narrower numbers in the result of the step that chose them."""
    return Quantization.model_validate_json(store.read_bytes(record, QUANTIZATION))


def write_project_files(project: Project, model: Path, out: Path) -> None:
    """Writes generated C++, machine code, constants, reference sample and manifest below `out`.

    Args:
        project: Results of earlier steps.
        model: The SavedModel.
        out: An empty directory.

    Raises:
        UnsupportedModelError: An output's shape follows the batch in a way that cannot be described,
            or the spec's batch rules cannot be used.
        UnsupportedProgramError: A step cannot be expressed with the runtime's kernels.
    """
    from .sample import write_sample  # NumPy, which a plan does not need

    # First: the licences are among the files that every manifest lists.
    _copy_licenses(project.request, out / LICENSES)
    provenance = _provenance(project, manifest.list_files(model))
    described = [
        _write_platform(project, platform, provenance, out)
        for platform in project.request.platforms
    ]
    # TensorFlow's results are the same for all platforms.
    first = described[0]
    sample = out / "python" / first.model.module / "_reference.npz"
    write_sample(project.store.path(project.reference, ARRAYS), first, sample)
    files = manifest.list_files(out)
    for platform, description in zip(project.request.platforms, described, strict=True):
        own = tuple(file for file in files if _is_of(file.path, platform, description.weights))
        _write_manifest(
            description.model_copy(update={"files": own}), platform_directory(platform), out
        )


def _write_manifest(described: manifest.Manifest, directory: str, out: Path) -> None:
    """Writes the bill of materials, which names all other files, and then the manifest, which names all."""
    path = f"{directory}/{sbom.SBOM_TEMPLATE}"
    _write(out / path, sbom.template(described).encode())
    digest = digest_file(out / path)
    file = manifest.File(path=path, sha256=digest.sha256, size=digest.size)
    files = tuple(sorted((*described.files, file), key=lambda f: f.path))
    described.model_copy(update={"files": files}).save(out / directory / MANIFEST)


def _is_of(path: str, platform: Platform, weights: str) -> bool:
    """Whether a file of the project goes into the wheels of this platform."""
    if path.startswith("platforms/"):
        return path.startswith(f"{platform_directory(platform)}/")
    return path == weights or not path.startswith("weights/")


def _write_platform(
    project: Project, platform: Platform, provenance: manifest.Provenance, out: Path
) -> manifest.Manifest:
    """Writes the files of one platform and its constants; returns its manifest without `files`."""
    compiled, request, store = project.read(platform), project.request, project.store
    # Both mappings are in the order of the compile steps.
    records = dict(zip(compiled.programs, project.compiled_for(platform).values(), strict=True))
    constants = Constants()
    programs = {
        variant: constants.add_program(program, store.read_bytes(records[variant], "constants.bin"))
        for variant, program in compiled.programs.items()
    }
    first_state = _add_first_state(project, constants)
    storage = request.spec.package.weights_storage
    # Each column may have a scale of its own, which needs its elements evenly spaced.
    halves = storage == "float32"
    packed = (
        Packed() if storage == "int8" else pack_weights(programs.values(), constants, halves=halves)
    )
    stored = store_weights(constants, storage)
    sizes = manifest.Sizes(
        weights=len(stored.content),
        expanded_weights=stored.expanded_bytes or None,
        machine_code=sum(
            loaded_bytes(store.path(record, "kernels.o")) for record in records.values()
        ),
        saved_model=sum(file.size for file in provenance.files),
    )
    described = describe(request, platform, compiled, provenance, sizes)
    # Named by its content, so that platforms with the same constants (nearly always all) share one file.
    weights = f"weights/{hashlib.sha256(stored.content).hexdigest()[:16]}.bin"
    _write(out / weights, bytes(stored.content))
    for variant in described.variants:
        record = records[variant.level, Extent(variant.batch_size, variant.length)]
        _write(out / variant.object, store.read_bytes(record, "kernels.o"))
    generated = out / platform_directory(platform) / "generated"
    places = tuple(stored.places[constants.offsets[digest]] for digest in first_state)
    tables = _tables(described, places, stored)
    _write_sources(project, platform, tables, described, constants, packed, programs, generated)
    return described.model_copy(update={"weights": weights})


def _add_first_state(project: Project, constants: Constants) -> tuple[str, ...]:
    """Adds what the state holds before the first call to the weights; returns the SHA-256 of each part."""
    record = next(iter(project.frozen.values()))  # the same for every batch size
    content = project.store.read_bytes(record, SIGNATURE)
    state = FrozenSignature.model_validate_json(content).state
    content = project.store.read_bytes(record, STATE) if state else b""
    digests, start = [], 0
    for tensor in state:
        end = start + tensor.bytes
        value = content[start:end]
        digests.append(hashlib.sha256(value).hexdigest())
        constants.add(digests[-1], value)
        start = end
    return tuple(digests)


def _provenance(project: Project, files: tuple[manifest.File, ...]) -> manifest.Provenance:
    return manifest.Provenance(
        spec_sha256=project.request.spec.spec_digest(),
        source=dict(project.provenance),
        tree_sha256=project.tree_sha256,
        files=files,
        graphs={
            str(extent).removeprefix("b"): record.files[GRAPH].sha256
            for extent, record in project.frozen.items()
        },
        signature_key=project.request.spec.model.serving_key,
    )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _copy_licenses(request: Request, directory: Path) -> None:
    for name, text in request.spec.license_texts.items():
        _write(directory / name, text)


def _write_sources(
    project: Project,
    platform: Platform,
    tables: ModelTables,
    described: manifest.Manifest,
    constants: Constants,
    packed: Packed,
    programs: Mapping[VariantKey, Program],
    directory: Path,
) -> None:
    """Writes one C++ file for each CPU level, one with the tables that refer to them, and the kernels' list."""
    # Batch sizes share one arena and the random states at its start: as many as any needs.
    states = max(map(random_states, programs.values()))
    request = project.request
    for level in request.levels_of(platform):
        variants = [
            CompiledVariant(
                v.batch_size,
                str(Extent(v.batch_size, v.length)),
                programs[v.level, Extent(v.batch_size, v.length)],
                v.cost,
                v.partial,
            )
            for v in described.variants
            if v.level == level.name
        ]
        taken = [not tensor.ignored for tensor in described.signature.inputs]
        text = level_source(
            level,
            variants,
            constants.offsets,
            states,
            taken,
            per_row=rows_of_outputs(described.signature, described.batching),
            packed=packed,
            profiled=project.profiled,
            expanded=bool(tables.stored.constants),
        )
        _write(directory / f"program_{level.identifier}.cpp", text.encode())
    text = tables_source(tables, request.levels_of(platform), states)
    _write(directory / "model_tables.cpp", text.encode())
    kernels = "".join(f"{name}\n" for name in compiled_kernels(programs.values(), packed))
    _write(directory / KERNELS, kernels.encode())


def _tables(
    described: manifest.Manifest, first_state: tuple[int, ...], stored: StoredWeights
) -> ModelTables:
    batching = described.batching
    return ModelTables(
        name=described.model.name,
        version=described.model.version,
        about=described.about(),
        signature=described.signature,
        batch_sizes=batching.sizes,
        no_emulation_reason=batching.no_emulation_reason,
        strategy=batching.strategy,
        rules=batching.rules,
        first_state=first_state,
        stored=stored,
    )
