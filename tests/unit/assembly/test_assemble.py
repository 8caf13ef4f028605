"""The files of a project, assembled from records in a store: hand-made programs, objects and arrays."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from modelwheel.assembly.assemble import Project, write_project_files
from modelwheel.assembly.manifest import Manifest
from modelwheel.errors import UnsupportedModelError
from modelwheel.model.frozen_signature import GRAPH, SIGNATURE, FrozenSignature, FrozenTensor
from modelwheel.model.reference_result import ARRAYS, SUMMARY, Reference
from modelwheel.request import Extent, make_request
from modelwheel.spec import load_spec
from modelwheel.store.keys import action_key
from modelwheel.store.records import Record
from modelwheel.store.store import Store
from tests.support.programs import matmul_program
from tests.support.stores import make

PLATFORMS = ("linux-x86_64", "linux-aarch64")
LEVELS = {"linux-x86_64": ("x86-64", "x86-64-v3"), "linux-aarch64": ("armv8-a",)}
SIZES = (1, 4)
WEIGHTS = b"w" * 48
UNUSED = b"u" * 4
CODE_BYTES = 20
SPEC = """\
model: {name: tiny, version: "1.0.0"}
targets: [x86-64, x86-64-v3, armv8-a]
compilation: {batch_sizes: [1, 4]}
package: {license_files: [TERMS]}
"""


def object_file() -> bytes:
    """A relocatable ELF file with CODE_BYTES bytes that are loaded, and a string table that is not."""
    names = b"\0.text\0.shstrtab\0"
    at = 64
    code, strings = at, at + CODE_BYTES
    header_at = (strings + len(names) + 7) // 8 * 8
    header = b"\x7fELF\2\1\1".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, header_at, 0, 64, 0, 0, 64, 3, 2)
    sections = bytes(64)
    sections += struct.pack("<IIQQQQIIQQ", 1, 1, 6, 0, code, CODE_BYTES, 0, 0, 1, 0)
    sections += struct.pack("<IIQQQQIIQQ", 7, 3, 0, 0, strings, len(names), 0, 0, 1, 0)
    return (header + bytes(CODE_BYTES) + names).ljust(header_at, b"\0") + sections


@dataclass
class Steps:
    """Publishes results of steps as those of a build."""

    store: Store
    scratch: Path

    def publish(self, name: str, content: Mapping[str, bytes]) -> Record:
        directory = self.scratch / name
        directory.mkdir(parents=True)
        return self.store.publish(action_key(name), make(directory, content), {"step": name})

    def freeze(self, size: int) -> Record:
        def tensor(name: str, *shape: int) -> FrozenTensor:
            return FrozenTensor(name=name, c_name=name, dtype="float32", shape=shape)

        signature = FrozenSignature(
            key="serving_default",
            batch=size,
            inputs=(tensor("x", size, 4),),
            outputs=(tensor("y", size, 3),),
            batched_inputs=("x",),
            pruned_inputs=(),
            order=("x",),
            ordered_by="model",
        )
        content = {GRAPH: f"graph {size}".encode(), SIGNATURE: signature.to_json()}
        return self.publish(f"freeze-{size}", content)

    def compile(self, platform: str, level: str, size: int) -> Record:
        program = matmul_program(size, sha256(WEIGHTS).hexdigest())
        content = {
            "program.json": program.model_dump_json().encode(),
            "constants.bin": UNUSED.ljust(64, b"\0") + WEIGHTS,
            "kernels.o": object_file(),
        }
        return self.publish(f"compile-{platform}-{level}-{size}", content)

    def evaluate(self, columns: int = 3) -> Record:
        reference = Reference(
            independent=True,
            reason=None,
            leading_per_row={"y": 1},
            batched_inputs=("x",),
            rows=SIZES,
        )
        arrays: dict[str, Any] = {
            f"out/{rows}/y": np.full((rows, columns), -rows, np.float32) for rows in SIZES
        }
        np.savez(self.scratch / "arrays.npz", **arrays)
        content = {
            ARRAYS: (self.scratch / "arrays.npz").read_bytes(),
            SUMMARY: reference.to_json(),
        }
        return self.publish(f"reference-{columns}", content)


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    store = Store(tmp_path / "store")
    yield Steps(store, tmp_path / "scratch")
    store.close()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"graph")
    return tmp_path / "model"


@pytest.fixture
def project(steps: Steps, tmp_path: Path) -> Project:
    (tmp_path / "TERMS").write_text("Any use.\n")
    (tmp_path / "tiny.yaml").write_text(SPEC)
    return Project(
        request=make_request(load_spec(tmp_path / "tiny.yaml"), platforms=PLATFORMS),
        tree_sha256="ab" * 32,
        provenance={"kind": "directory"},
        frozen={Extent(size): steps.freeze(size) for size in SIZES},
        compiled={
            (platform, level, Extent(size)): steps.compile(platform, level, size)
            for platform in PLATFORMS
            for level in LEVELS[platform]
            for size in SIZES
        },
        reference=steps.evaluate(),
        store=steps.store,
    )


@pytest.fixture
def assembled(project: Project, model: Path, tmp_path: Path) -> Path:
    out = tmp_path / "project"
    out.mkdir()
    write_project_files(project, model, out)
    return out


def manifest_of(project: Path, platform: str) -> Manifest:
    return Manifest.load(project / "platforms" / platform / "manifest.json")


def test_files_of_every_platform(assembled: Path) -> None:
    found = {p.relative_to(assembled).as_posix() for p in assembled.rglob("*") if p.is_file()}
    weights = f"weights/{sha256(WEIGHTS).hexdigest()[:16]}.bin"
    expected = {"licenses/TERMS", "python/model_tiny/_reference.npz", weights}
    for platform, levels in LEVELS.items():
        names = ["manifest.json", "sbom.cdx.json.in"]
        names += ["generated/model_tables.cpp", "generated/kernels.txt"]
        for level in levels:
            names.append(f"generated/program_{level.replace('-', '_')}.cpp")
            names += [f"objects/{level}_b{size}.o" for size in SIZES]
        expected |= {f"platforms/{platform}/{name}" for name in names}
    assert found == expected
    # The constant that no step reads is left out.
    assert (assembled / weights).read_bytes() == WEIGHTS


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_manifest_lists_the_files_of_its_platform(assembled: Path, platform: str) -> None:
    manifest = manifest_of(assembled, platform)
    for file in manifest.files:
        content = (assembled / file.path).read_bytes()
        assert (sha256(content).hexdigest(), len(content)) == (file.sha256, file.size)
    names = [file.path for file in manifest.files]
    assert names == sorted(names)
    other = f"platforms/{next(name for name in PLATFORMS if name != platform)}/"
    on_disk = {p.relative_to(assembled).as_posix() for p in assembled.rglob("*") if p.is_file()}
    own = {name for name in on_disk if not name.startswith(other)}
    assert set(names) == own - {f"platforms/{platform}/manifest.json"}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_sizes_variants_and_provenance(assembled: Path, platform: str) -> None:
    manifest = manifest_of(assembled, platform)
    variants = [(level, size) for level in LEVELS[platform] for size in SIZES]
    assert [(v.level, v.batch_size) for v in manifest.variants] == variants
    assert manifest.sizes.weights == len(WEIGHTS)
    assert manifest.sizes.machine_code == CODE_BYTES * len(variants)
    assert manifest.sizes.saved_model == len(b"graph")
    assert [file.path for file in manifest.provenance.files] == ["saved_model.pb"]
    assert manifest.provenance.graphs["4"] == sha256(b"graph 4").hexdigest()
    assert manifest.model.license_files == ("licenses/TERMS",)


def test_the_sample_has_the_values_of_the_reference(assembled: Path) -> None:
    with np.load(assembled / "python" / "model_tiny" / "_reference.npz") as sample:
        assert sample["sample/out/4/y"].tolist() == [-4.0] * 12
        assert sample["shape/out/4/y"].tolist() == [4, 3]
        assert float(sample["largest/out/1/y"]) == 1.0


def test_an_output_of_another_shape_than_the_compiled_one_is_refused(
    project: Project, model: Path, steps: Steps, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    with pytest.raises(UnsupportedModelError, match=r"'y' has the shape \[1, 2\] .* \[1, 3\]"):
        write_project_files(
            replace(project, reference=steps.evaluate(columns=2)), model, tmp_path / "project"
        )


def test_generated_code_names_its_level_and_its_kernels(assembled: Path) -> None:
    generated = assembled / "platforms" / "linux-x86_64" / "generated"
    assert '"tiny"' in (generated / "model_tables.cpp").read_text()
    program = (generated / "program_x86_64_v3.cpp").read_text()
    assert "dot<float" in program
    assert (generated / "kernels.txt").read_text().split() == ["epilogue_float", "gemm_float"]
    assert "constant(0)" in program


def test_the_same_results_give_the_same_bytes(
    project: Project, model: Path, assembled: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    again.mkdir()
    write_project_files(project, model, again)
    for path in assembled.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (again / path.relative_to(assembled)).read_bytes(), path


def test_the_key_depends_on_results_and_licences(project: Project, tmp_path: Path) -> None:
    before = action_key("project", **project.key_inputs())
    assert action_key("project", **project.key_inputs()) == before
    (tmp_path / "TERMS").write_text("No use.\n")
    # What was read once is what the key and the project have; another build reads it again.
    assert action_key("project", **project.key_inputs()) == before
    again = make_request(load_spec(project.request.spec.path), platforms=PLATFORMS)
    assert action_key("project", **replace(project, request=again).key_inputs()) != before
