"""The bill of materials in every wheel (PEP 770, CycloneDX 1.6): the model and everything else it contains.

The compile stage knows everything but the C and C++ compilers. It writes a template, in which CMake
(`wheel_template/wheel/cmake/sbom.cmake`) replaces `@MODEL_SBOM_...@`, so that a wheel names the compilers that
built it. Nothing in it depends on time or place: there is no timestamp, and the serial number is a UUID
(version 5) over everything else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..levels import LEVELS
from ..platforms import PLATFORMS
from ..versions import NUMPY_REQUIREMENT, RUNTIME, RUNTIME_REQUIREMENT
from .manifest import File, Manifest

if TYPE_CHECKING:
    from cyclonedx.model import ExternalReference, Property
    from cyclonedx.model.component import Component, Pedigree
    from packageurl import PackageURL

SBOM_VERSION = 4
"""Increased when the same manifest leads to another template; part of every key."""

SBOM_TEMPLATE = "sbom.cdx.json.in"
"""The template's name in the directory of each platform."""

PREFIX = "modelwheel:"
"""Prefix of the names of properties that CycloneDX does not define."""

COMPILERS = {"c-compiler": "C", "cxx-compiler": "CXX"}
"""CMake's names for the languages of the compilers, by their references in the bill."""

_VARIABLE = re.compile(r"@AT@(MODEL_SBOM_\w+)@AT@")


def template(manifest: Manifest) -> str:
    """The bill of materials of one platform's wheels, for CMake's `configure_file(... @ONLY)`.

    Args:
        manifest: The complete manifest; its `files` are all that go into the wheels except this one.
    """
    contained = [_model(manifest), _machine_code(manifest), _runtime(manifest), *_linked(manifest)]
    compilers = [_tensorflow(manifest), *_compilers()]
    return _write(_wheel(manifest), contained, _required(manifest), compilers)


def runtime_template(version: str) -> str:
    """The template of the SBOM of the package modelwheel-runtime.

    Args:
        version: Version of the package.
    """
    description = "The Python extension that wheels of models share"
    wheel = _license(_component(RUNTIME, RUNTIME, version, description), "Apache-2.0")
    wheel.purl = _purl(RUNTIME, version)
    wheel.properties = _properties({"flags": "@MODEL_SBOM_FLAGS@"})
    return _write(wheel, [_pybind11(), _cxx_library()], [_numpy()], _compilers())


def _write(
    wheel: Component,
    contained: Sequence[Component],
    required: Sequence[Component],
    compilers: Sequence[Component],
) -> str:
    """The text of a template.

    Args:
        wheel: The subject of the bill.
        contained: The parts of the wheel.
        required: Packages that it requires.
        compilers: The tools that made it.
    """
    from cyclonedx.model.bom import Bom, BomMetaData
    from cyclonedx.output.json import JsonV1Dot6

    made_of = BomMetaData(component=wheel, tools=[])
    made = Bom(metadata=made_of, components=[*contained, *required, *compilers])
    made.register_dependency(wheel, [*contained, *required])
    bom = json.loads(JsonV1Dot6(made).output_as_string())
    # No time, no random number: the same wheel has the same bill. CMake fills in the UUID.
    del bom["metadata"]["timestamp"]
    bom["serialNumber"] = "urn:uuid:@MODEL_SBOM_UUID@"
    text = json.dumps(bom, indent=1, sort_keys=True) + "\n"
    # Text by the author of the model must not become a variable or a directive of CMake.
    text = text.replace("@", "@AT@").replace("#", "@HASH@")
    return _VARIABLE.sub(r"@\1@", text)


def _component(
    ref: str, name: str, version: str | None, description: str, *, type_: str = "library"
) -> Component:
    from cyclonedx.model.component import Component, ComponentType

    return Component(
        bom_ref=ref,
        name=name,
        version=version,
        description=description,
        type=ComponentType(type_),
    )


def _license(component: Component, expression: str | None) -> Component:
    from cyclonedx.model.license import LicenseExpression

    component.licenses = [LicenseExpression(expression)] if expression else []
    return component


def _purl(name: str, version: str | None = None) -> PackageURL:
    from packageurl import PackageURL

    return PackageURL("pypi", None, name, version)


def _properties(values: Mapping[str, str]) -> list[Property]:
    from cyclonedx.model import Property

    return [Property(name=f"{PREFIX}{name}", value=value) for name, value in values.items()]


def _wheel(manifest: Manifest) -> Component:
    model = manifest.model
    wheel = _component("wheel", model.distribution, model.version, model.summary)
    wheel.purl = _purl(model.distribution, model.version)
    wheel.properties = _properties(
        {"platform": manifest.platform, "cpu-levels": ", ".join(manifest.levels)}
    )
    return _license(wheel, model.whole_license)


# --- the model ------------------------------------------------------------------------------------


def _model(manifest: Manifest) -> Component:
    from cyclonedx.model.contact import OrganizationalContact

    model, origin = manifest.model, manifest.provenance
    component = _component(
        "model",
        model.name,
        model.version,
        model.description or model.summary,
        type_="machine-learning-model",
    )
    component.authors = [OrganizationalContact(name=model.author)] if model.author else []
    component.external_references = _references(origin.source)
    component.pedigree = _pedigree(origin.source)
    component.properties = _properties(
        {
            "tree-sha256": origin.tree_sha256,
            **{f"source:{k}": v for k, v in origin.source.items() if k != "tree_sha256"},
            "spec-sha256": origin.spec_sha256,
            "signature": origin.signature_key,
            "batch-sizes": ", ".join(map(str, manifest.batching.sizes)),
        }
    )
    weights = [file for file in manifest.files if file.path == manifest.weights]
    component.components = [
        _file(file, "data", "The model's constants, in the library") for file in weights
    ]
    return _license(component, model.weights_license)


def _references(source: Mapping[str, str]) -> list[ExternalReference]:
    from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri

    if "url" not in source:
        return []
    pin = source.get("commit") or f"SHA-256 {source.get('sha256')}"
    comment = f"{source.get('path') or 'the root'} at {pin}"
    kind = ExternalReferenceType.VCS if "commit" in source else ExternalReferenceType.DISTRIBUTION
    return [ExternalReference(type=kind, url=XsUri(source["url"]), comment=comment)]


def _pedigree(source: Mapping[str, str]) -> Pedigree | None:
    from cyclonedx.model import XsUri
    from cyclonedx.model.component import Commit, Pedigree

    if "commit" not in source:
        return None
    return Pedigree(commits=[Commit(uid=source["commit"], url=XsUri(source["url"]))])


def _file(file: File, kind: str, description: str) -> Component:
    from cyclonedx.model import HashAlgorithm, HashType

    component = _component(file.path, file.path, None, description, type_=kind)
    component.hashes = [HashType(alg=HashAlgorithm.SHA_256, content=file.sha256)]
    return component


# --- what is compiled and linked into the wheel ----------------------------------------------------


def _machine_code(manifest: Manifest) -> Component:
    version = manifest.compiler.tensorflow
    description = "Machine code that the XLA of this TensorFlow emitted, linked into the library"
    code = _component("xla", "xla", version, description)
    objects = {variant.object for variant in manifest.variants}
    files = [file for file in manifest.files if file.path in objects]
    code.components = [_file(file, "file", "Object file of one variant") for file in files]
    return _license(code, "Apache-2.0")


def _runtime(manifest: Manifest) -> Component:
    version = manifest.compiler.modelwheel
    runtime = _component("modelwheel", "modelwheel", version, "Runtime, kernels, Python package")
    runtime.purl = _purl("modelwheel", version)
    flags = {
        f"flags:{level}": f"@MODEL_SBOM_FLAGS_{LEVELS[level].identifier}@"
        for level in manifest.levels
    }
    runtime.properties = _properties({"flags": "@MODEL_SBOM_FLAGS@", **flags})
    return _license(runtime, "Apache-2.0")


def _linked(manifest: Manifest) -> list[Component]:
    """Third-party libraries, as CMake found them."""
    linked = []
    if PLATFORMS[manifest.platform].system != "windows":
        linked.append(_compiler_runtime())
    if manifest.model.bindings == "extension":
        linked += [_pybind11(), _cxx_library()]
    return linked


def _compiler_runtime() -> Component:
    description = "Support functions of the C compiler, linked statically where any are used"
    return _found("COMPILER_RUNTIME", description)


def _cxx_library() -> Component:
    return _found("CXX_LIBRARY", "C++ library of the Python extension")


def _pybind11() -> Component:
    version = "@MODEL_SBOM_PYBIND11_VERSION@"
    description = "Headers that are compiled into the Python extension"
    return _license(_component("pybind11", "pybind11", version, description), "BSD-3-Clause")


def _found(variable: str, description: str) -> Component:
    component = _component(
        variable.lower().replace("_", "-"),
        f"@MODEL_SBOM_{variable}_NAME@",
        f"@MODEL_SBOM_{variable}_VERSION@",
        description,
    )
    component.properties = _properties({"linkage": f"@MODEL_SBOM_{variable}_LINKAGE@"})
    return _license(component, f"@MODEL_SBOM_{variable}_LICENSE@")


def _required(manifest: Manifest) -> list[Component]:
    required = [_numpy()]
    if manifest.model.bindings == "shared":
        required.append(_requirement(RUNTIME, RUNTIME_REQUIREMENT, "Apache-2.0"))
    return required


def _numpy() -> Component:
    return _requirement("numpy", NUMPY_REQUIREMENT, "BSD-3-Clause")


def _requirement(name: str, requirement: str, license_: str) -> Component:
    from cyclonedx.model.component import ComponentScope

    component = _component(name, name, None, "Required by the Python package; not in the wheel")
    component.purl, component.scope = _purl(name), ComponentScope.REQUIRED
    component.properties = _properties({"requirement": requirement})
    return _license(component, license_)


# --- what compiled it -------------------------------------------------------------------------------


def _tensorflow(manifest: Manifest) -> Component:
    compiler = manifest.compiler
    tensorflow = _compiler(
        "tensorflow", "tensorflow", compiler.tensorflow, "Compiled the model with its XLA"
    )
    tensorflow.purl = _purl("tensorflow", compiler.tensorflow)
    flags = {f"xla-flags:{level}": " ".join(value) for level, value in compiler.xla_flags.items()}
    tensorflow.properties = _properties({**flags, "tf-xla-flags": " ".join(compiler.tf_xla_flags)})
    return tensorflow


def _compilers() -> list[Component]:
    """The compilers that build the wheel, and CMake, which writes some of its files."""
    compilers = [_compiler("cmake", "CMake", "@MODEL_SBOM_CMAKE_VERSION@", "Built the wheel")]
    for ref, language in COMPILERS.items():
        name, version = (f"@MODEL_SBOM_{language}_COMPILER_{part}@" for part in ("ID", "VERSION"))
        of = "C" if language == "C" else "C++"
        compilers.append(_compiler(ref, name, version, f"Compiled the {of} of the wheel"))
    return compilers


def _compiler(ref: str, name: str, version: str, description: str) -> Component:
    """Compilers are not in the wheel: CycloneDX's scope `excluded` is for what only produced it."""
    from cyclonedx.model.component import ComponentScope

    compiler = _component(ref, name, version, description, type_="application")
    compiler.scope = ComponentScope.EXCLUDED
    return compiler
