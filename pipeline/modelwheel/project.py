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
from .description import LICENSES, Compiled, Variant, describe
from .emit import (
    EMITTER_VERSION,
    Constants,
    ModelTables,
    collect,
    level_source,
    random_states,
    tables_source,
)
from .emit import Variant as EmittedVariant
from .files import digest_file
from .freeze import SIGNATURE, FrozenSignature
from .program import Program
from .reference import ARRAYS, SUMMARY, Reference
from .request import Request, license_texts
from .store import Record, Store
from .versions import TENSORFLOW_VERSION

MANIFEST = "manifest.json"
WEIGHTS = "weights/weights.bin"


@dataclass(frozen=True)
class Project:
    """Everything that the wheel of one model is made from, as earlier steps left it in the store."""

    request: Request
    tree_sha256: str
    provenance: Mapping[str, str]
    frozen: Mapping[int, Record]
    """Results of the freeze steps by batch size."""
    compiled: Mapping[Variant, Record]
    """Results of the compile steps."""
    reference: Record
    store: Store

    def key_inputs(self) -> dict[str, Any]:
        """What the files depend on."""
        request = self.request
        return {
            "modelwheel": __version__,
            "emitter": EMITTER_VERSION,
            "manifest": manifest.MANIFEST_VERSION,
            "tensorflow": TENSORFLOW_VERSION,
            "spec": request.spec.spec_digest(),
            "flags": {
                t.name: [request.flags(t).xla, request.flags(t).tf_xla] for t in request.targets
            },
            "provenance": dict(self.provenance),
            "tree": self.tree_sha256,
            "costs": tune_lock.read_costs(request.spec.path),
            "licenses": {
                name: digest_file(path).sha256 for name, path in license_texts(request.spec).items()
            },
            "frozen": {str(size): _hashes(record) for size, record in self.frozen.items()},
            "compiled": [
                [level, size, _hashes(record)] for (level, size), record in self.compiled.items()
            ],
            "reference": _hashes(self.reference),
        }

    def read(self) -> Compiled:
        """The results as values; programs in the order of `compiled`."""
        store = self.store
        reference = Reference.model_validate_json(store.read_bytes(self.reference, SUMMARY))
        return Compiled(
            frozen={
                size: FrozenSignature.model_validate_json(store.read_bytes(record, SIGNATURE))
                for size, record in self.frozen.items()
            },
            # Without a batch axis the spec's batch size, if any, is the extent of a fixed axis.
            programs={
                (level, size if reference.batched_inputs else 1): Program.model_validate_json(
                    store.read_bytes(record, "program.json")
                )
                for (level, size), record in self.compiled.items()
            },
            reference=reference,
            reference_sha256=self.reference.files[ARRAYS].sha256,
        )


def _hashes(record: Record) -> dict[str, str]:
    return {name: file.sha256 for name, file in record.files.items()}


def write_project_files(project: Project, saved_model_bytes: int, out: Path) -> None:
    """Writes generated C++, machine code, constants, reference sample and manifest below `out`.

    Raises:
        UnsupportedModelError: An output's shape follows the batch in a way that cannot be described,
            or the spec's batch rules cannot be kept.
        UnsupportedProgramError: A step cannot be expressed with the runtime's kernels.
    """
    from .sample import write_sample  # NumPy, which a plan does not need

    compiled, request, store = project.read(), project.request, project.store
    records = dict(zip(compiled.programs, project.compiled.values(), strict=True))
    constants = collect(
        (program, store.path(records[variant], "constants.bin"))
        for variant, program in compiled.programs.items()
    )
    sizes = manifest.Sizes(
        weights=len(constants.blob),
        machine_code=sum(
            _loaded_bytes(store.path(record, "kernels.o")) for record in records.values()
        ),
        saved_model=saved_model_bytes,
    )
    described = describe(request, compiled, _provenance(project), sizes)
    _write(out / WEIGHTS, bytes(constants.blob))
    for variant in described.variants:
        record = records[variant.level, variant.batch_size]
        _write(out / variant.object, store.read_bytes(record, "kernels.o"))
    _write_sources(request, described, constants, compiled.programs, out / "generated")
    sample = out / "python" / described.model.module / "_reference.npz"
    write_sample(store.path(project.reference, ARRAYS), described, sample)
    _copy_licenses(request, out / LICENSES)
    complete = described.model_copy(update={"files": manifest.list_files(out)})
    complete.save(out / MANIFEST)


def _loaded_bytes(object_file: Path) -> int:
    """Bytes of an object file that get into memory: code and its tables, but no symbols."""
    import lief

    binary = lief.ELF.parse(str(object_file))
    assert binary is not None, f"{object_file} came from the compiler"
    loaded = (s for s in binary.sections if s.has(lief.ELF.Section.FLAGS.ALLOC))
    return sum(section.size for section in loaded)


def _provenance(project: Project) -> manifest.Provenance:
    return manifest.Provenance(
        spec_sha256=project.request.spec.spec_digest(),
        source=dict(project.provenance),
        tree_sha256=project.tree_sha256,
        signature_key=project.request.spec.model.serving_key,
    )


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _copy_licenses(request: Request, directory: Path) -> None:
    for name, path in license_texts(request.spec).items():
        directory.mkdir(exist_ok=True)
        shutil.copyfile(path, directory / name)


def _write_sources(
    request: Request,
    described: manifest.Manifest,
    constants: Constants,
    programs: Mapping[Variant, Program],
    directory: Path,
) -> None:
    """Writes one file of C++ for each CPU level, and one with the tables that name them."""
    states = max(map(random_states, programs.values()))
    for target in request.targets:
        variants = [
            EmittedVariant(v.batch_size, programs[v.level, v.batch_size], v.cost)
            for v in described.variants
            if v.level == target.name
        ]
        text = level_source(target, variants, constants.offsets, states)
        _write(directory / f"program_{target.identifier}.cpp", text.encode())
    text = tables_source(_tables(described), request.targets, states)
    _write(directory / "model_tables.cpp", text.encode())


def _tables(described: manifest.Manifest) -> ModelTables:
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
    )
