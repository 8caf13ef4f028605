"""The bill of materials: valid CycloneDX, the same every time, true to the manifest and the compiler."""

from __future__ import annotations

import json
import shutil
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from modelwheel.assembly.manifest import File, Manifest
from modelwheel.assembly.sbom import SBOM_TEMPLATE, runtime_template, template
from modelwheel.versions import RUNTIME_REQUIREMENT
from tests.support.commands import run
from tests.support.index_wheels import COMMIT, TREE, make_manifest
from tests.support.tools import cmake

TEMPLATE = Path(__file__).parents[2] / "wheel_template"

PROJECT = """\
cmake_minimum_required(VERSION 3.25)
project(model_a LANGUAGES C CXX)
set(MODEL_MODULE model_a)
set(MODEL_PLATFORM_DIR "${PROJECT_SOURCE_DIR}")
set(MODEL_LEVELS x86_64 x86_64_v3)
set(MODEL_LEVEL_OPTIONS_x86_64 -O3 -march=x86-64)
set(pybind11_VERSION 3.9.9)
include("${SBOM_CMAKE}")
"""

NASTY = ' @HOME@ ${HOME} #cmakedefine X\n# "quoted" \\ \\n ; [[ ]] @@ @AT@ é 𝄞 </script>'


def describe(**changes: Any) -> Manifest:
    """A manifest with real levels and one object."""
    files = (
        File(path="platforms/linux-x86_64/objects/a.o", sha256="12" * 32, size=5),
        File(path="weights/0.bin", sha256="34" * 32, size=2000),
    )
    manifest = make_manifest("a").model_copy(update={"files": files, **changes})
    variants = [v.model_copy(update={"object": files[0].path}) for v in manifest.variants]
    return manifest.model_copy(update={"variants": tuple(variants)})


def complete(text: str, directory: Path, *options: str) -> dict[str, Any]:
    """What CMake makes of a template, on this machine."""
    directory.mkdir(exist_ok=True)
    (directory / SBOM_TEMPLATE).write_text(text)
    (directory / "CMakeLists.txt").write_text(PROJECT)
    shutil.rmtree(directory / "build", ignore_errors=True)
    script = f"-DSBOM_CMAKE={TEMPLATE / 'wheel' / 'cmake' / 'sbom.cmake'}"
    cmake("-S", directory, "-B", directory / "build", "-G", "Ninja", script, *options)
    content = (directory / "build" / "sbom" / "model_a.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(content) is None
    bom = json.loads(content)
    assert isinstance(bom, dict)
    return bom


def by_ref(bom: dict[str, Any]) -> dict[str, Any]:
    return {component["bom-ref"]: component for component in bom["components"]}


def properties(component: dict[str, Any]) -> dict[str, str]:
    return {p["name"].removeprefix("modelwheel:"): p["value"] for p in component["properties"]}


@pytest.fixture(scope="module")
def completed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return complete(template(describe()), tmp_path_factory.mktemp("project"))


def test_the_model_is_a_component_with_its_origin(completed: dict[str, Any]) -> None:
    model = by_ref(completed)["model"]
    assert model["type"] == "machine-learning-model"
    assert (model["name"], model["version"]) == ("a", "1.0.0")
    assert model["licenses"] == [{"expression": "CC-BY-4.0"}]
    assert model["pedigree"]["commits"] == [{"uid": COMMIT, "url": "https://example.org/data"}]
    assert model["externalReferences"][0]["type"] == "vcs"
    assert model["externalReferences"][0]["url"] == "https://example.org/data"
    said = properties(model)
    assert said["tree-sha256"] == TREE
    assert said["signature"] == "serving_default"
    assert said["source:commit"] == COMMIT
    assert model["components"][0]["hashes"] == [{"alg": "SHA-256", "content": "34" * 32}]


def test_what_is_compiled_in_has_version_and_licence(completed: dict[str, Any]) -> None:
    components = by_ref(completed)
    licenses = {
        ref: components[ref]["licenses"][0]["expression"]
        for ref in ("xla", "modelwheel", "pybind11", "numpy")
    }
    assert licenses == {
        "xla": "Apache-2.0",
        "modelwheel": "Apache-2.0",
        "pybind11": "BSD-3-Clause",
        "numpy": "BSD-3-Clause",
    }
    assert components["xla"]["version"] == components["tensorflow"]["version"] == "2.21.0"
    assert components["xla"]["components"][0]["hashes"][0]["content"] == "12" * 32
    assert components["pybind11"]["version"] == "3.9.9"
    flags = properties(components["modelwheel"])
    assert flags["flags:x86-64"] == "-O3 -march=x86-64"
    (whole,) = [d for d in completed["dependencies"] if d["ref"] == "wheel"]
    assert set(licenses) | {"model", "compiler-runtime", "cxx-library"} == set(whole["dependsOn"])


def test_the_compilers_are_those_that_cmake_found(completed: dict[str, Any]) -> None:
    components = by_ref(completed)
    said = run("c++", "--version").out
    for ref in ("c-compiler", "cxx-compiler"):
        assert components[ref]["scope"] == "excluded"
        assert components[ref]["version"] in said
    assert components["cmake"]["version"] in cmake("--version").out
    assert components["compiler-runtime"]["name"] in {"libgcc", "compiler-rt"}
    assert components["cxx-library"]["name"] in {"libstdc++", "libc++"}
    assert components["cxx-library"]["version"].isdecimal()


def test_the_serial_number_follows_the_content(completed: dict[str, Any], tmp_path: Path) -> None:
    text = template(describe())
    again = complete(text, tmp_path)
    assert again == completed
    assert "timestamp" not in completed["metadata"]
    serial = uuid.UUID(completed["serialNumber"])
    assert serial.version == 5
    faster = complete(text, tmp_path, "-DCMAKE_CXX_FLAGS_RELEASE=-Ofast")
    assert faster["serialNumber"] != completed["serialNumber"]


def test_what_authors_write_stays_as_it_is(tmp_path: Path) -> None:
    manifest = describe()
    texts = {"description": f"Text{NASTY}", "author": f"Author{NASTY}", "summary": f"Sum{NASTY}"}
    manifest = manifest.model_copy(update={"model": manifest.model.model_copy(update=texts)})
    bom = complete(template(manifest), tmp_path)
    assert by_ref(bom)["model"]["description"] == texts["description"]
    assert by_ref(bom)["model"]["authors"] == [{"name": texts["author"]}]
    assert bom["metadata"]["component"]["description"] == texts["summary"]


@pytest.mark.parametrize("kind", ["archive", "pypi", "directory"])
def test_sources_without_a_commit(kind: str, tmp_path: Path) -> None:
    source = {"kind": kind, "tree_sha256": TREE}
    if kind != "directory":
        url = "https://example.org/a b.tar.gz" if kind == "archive" else "pkg:pypi/name@1.0"
        source |= {"url": url, "path": "x", "sha256": "56" * 32}
    manifest = describe()
    origin = manifest.provenance.model_copy(update={"source": source})
    model = by_ref(
        complete(template(manifest.model_copy(update={"provenance": origin})), tmp_path)
    )["model"]
    assert "pedigree" not in model
    if kind == "directory":
        assert "externalReferences" not in model
    else:
        (reference,) = model["externalReferences"]
        assert reference["type"] == "distribution"
        assert reference["comment"] == f"x at SHA-256 {'56' * 32}"


def test_a_licence_that_nobody_stated_is_not_invented() -> None:
    manifest = describe()
    unknown = manifest.model.model_copy(update={"weights_license": None})
    bom = json.loads(template(manifest.model_copy(update={"model": unknown})))
    assert "licenses" not in by_ref(bom)["model"]
    assert bom["metadata"]["component"]["licenses"] == [{"expression": "Apache-2.0"}]


def test_every_process_writes_the_same() -> None:
    script = "from tests.integration.test_sbom import *; print(template(describe()), end='')"
    texts = {run(sys.executable, "-c", script, PYTHONHASHSEED=seed).out for seed in ("1", "2")}
    assert texts == {template(describe())}


def test_windows_links_no_runtime_of_the_compiler() -> None:
    bom = json.loads(template(describe(platform="windows-amd64")))
    assert "compiler-runtime" not in by_ref(bom)


def test_where_the_extension_is_shared() -> None:
    manifest = describe()
    shared = manifest.model.model_copy(update={"bindings": "shared"})
    bom = by_ref(json.loads(template(manifest.model_copy(update={"model": shared}))))
    assert not {"pybind11", "cxx-library"} & set(bom)
    assert bom["modelwheel-runtime"]["scope"] == "required"
    assert bom["modelwheel-runtime"]["properties"] == [
        {"name": "modelwheel:requirement", "value": RUNTIME_REQUIREMENT}
    ]


def test_the_package_with_the_shared_extension_has_one_too(tmp_path: Path) -> None:
    bom = complete(runtime_template("1.2.3"), tmp_path)
    assert bom["metadata"]["component"]["purl"] == "pkg:pypi/modelwheel-runtime@1.2.3"
    found = {ref: component["version"] for ref, component in by_ref(bom).items() if ref != "numpy"}
    assert found["pybind11"] == "3.9.9"
    assert set(found) == {"cmake", "c-compiler", "cxx-compiler", "cxx-library", "pybind11"}
