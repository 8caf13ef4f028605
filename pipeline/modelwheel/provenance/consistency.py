"""Checks that a wheel or source distribution is consistent: hashes, manifest, metadata, SBOM, library.

Only the file itself is read; `modelwheel.provenance.replay` compares it with its source.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath

from .. import __version__
from ..assembly import sbom
from ..assembly.describe import LICENSES
from ..assembly.manifest import File, Manifest
from ..source.fetch import tree_digest
from ..util.files import FileDigest
from ..util.words import count, first_few
from ..wheelfile.contents import Contents


class BrokenLinkError(Exception):
    """A comparison failed; the message says where."""


class UncheckedLinkError(Exception):
    """Nothing could be compared; the message says why."""


def check_files(contents: Contents) -> str:
    """Compares every file with the list of hashes and returns a sentence about the result.

    Raises:
        BrokenLinkError: A file is not listed, missing, or differs.
        WheelError: The list cannot be read.
    """
    mismatches = list(contents.mismatches())
    if mismatches:
        problems = [f"{mismatch.file} {mismatch.problem}" for mismatch in mismatches]
        raise BrokenLinkError(first_few(problems))
    listed = sum(file is not None for file in contents.listed.values())
    return f"{count(listed, 'file')} with the hashes in {contents.hash_list}"


def check_manifests(contents: Contents) -> str:
    """Compares manifests with files, metadata, SBOM and library; returns a sentence about the result.

    Raises:
        BrokenLinkError: Something differs.
        WheelError: A manifest cannot be read.
    """
    compared = 0
    for manifest in contents.manifests:
        _require_identity(contents, manifest)
        compared += _require_files(contents, manifest)
        if contents.kind == "wheel":
            _require_description(contents, manifest)
            _require_sbom(contents, manifest)
    also = "" if contents.kind == "sdist" else ", SBOM and library"
    return f"{count(compared, 'file')}, metadata{also} match the manifest"


def library_name(contents: Contents, manifest: Manifest) -> str:
    """The name of the model's shared library in a wheel.

    Raises:
        BrokenLinkError: There is none.
    """
    module = manifest.model.module
    for name in (f"lib/lib{module}.so", f"lib/lib{module}.dylib", f"{module}.dll"):
        if f"{module}/{name}" in contents.files:
            return f"{module}/{name}"
    raise BrokenLinkError(f"the wheel has no library of {module}")


def _require_identity(contents: Contents, manifest: Manifest) -> None:
    metadata, model = contents.metadata, manifest.model
    identity = (metadata.name, str(metadata.version), metadata.license_expression)
    if identity != (model.distribution, model.version, model.whole_license):
        raise BrokenLinkError(
            f"the metadata are of {' '.join(map(str, identity))}, but the manifest is of "
            f"{model.distribution} {model.version} {model.whole_license}"
        )
    origin = manifest.provenance
    tree = tree_digest({file.path: FileDigest(file.sha256, file.size) for file in origin.files})
    if tree != origin.tree_sha256 or origin.source.get("tree_sha256") != tree:
        raise BrokenLinkError(
            "the tree hash in the manifest differs from that of the files it lists"
        )


def _require_files(contents: Contents, manifest: Manifest) -> int:
    named = _named_files(contents, manifest)
    for name, file in named.items():
        content = contents.files.get(name)
        if content is None or content.sha256 != file.sha256:
            raise BrokenLinkError(f"{name} is missing or differs from the file in the manifest")
    return len(named)


def _named_files(contents: Contents, manifest: Manifest) -> dict[str, File]:
    """The manifest's files that belong into this kind of distribution, by their names in it."""
    if contents.kind == "sdist":
        return {file.path: file for file in manifest.files}
    assert contents.wheel is not None
    named = {}
    # All other files became part of the library, or were needed for the build alone.
    for file in manifest.files:
        if file.path.startswith("python/"):
            named[file.path.removeprefix("python/")] = file
        elif file.path.startswith(f"{LICENSES}/"):
            named[f"{contents.wheel.dist_info}/licenses/{file.path}"] = file
    return named


def _require_description(contents: Contents, manifest: Manifest) -> None:
    """The library contains part of the manifest, which its C API and `python -m model_NAME` print."""
    name = library_name(contents, manifest)
    # Byte for byte as `codegen.sources` writes it into the library.
    about = json.dumps(manifest.about(), sort_keys=True, separators=(",", ":"))
    if about.encode() not in contents.read(name):
        raise BrokenLinkError(f"{name} describes another model than the manifest")


def _require_sbom(contents: Contents, manifest: Manifest) -> None:
    name = f"{manifest.model.module}.cdx.json"
    bills = [bill for path, bill in contents.sboms.items() if PurePosixPath(path).name == name]
    if len(bills) != 1:
        raise BrokenLinkError(f"the wheel has {len(bills)} SBOMs named {name} instead of one")
    if manifest.compiler.modelwheel != __version__:
        return  # another version may word the same facts differently
    # The template was written before the manifest listed the template itself.
    others = [file for file in manifest.files if not file.path.endswith(f"/{sbom.SBOM_TEMPLATE}")]
    expected = json.loads(sbom.template(manifest.model_copy(update={"files": tuple(others)})))
    if difference := _find_difference(expected, bills[0], ""):
        raise BrokenLinkError(f"{name} differs from the manifest: {difference}")


def _find_difference(expected: object, actual: object, place: str) -> str | None:
    """The first place where an SBOM does not match its template."""
    if isinstance(expected, dict) and isinstance(actual, dict) and set(expected) == set(actual):
        pairs = [(f"{place}.{key}", expected[key], actual[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = [(f"{place}[{i}]", expected[i], actual[i]) for i in range(len(expected))]
    elif isinstance(expected, str) and isinstance(actual, str):
        return None if _pattern(expected).fullmatch(actual) else place
    else:
        return None if expected == actual else place or "the top level"
    differences = (_find_difference(e, f, where.lstrip(".")) for where, e, f in pairs)
    return next((place for place in differences if place is not None), None)


def _pattern(text: str) -> re.Pattern[str]:
    """The texts that CMake can make from a text in the SBOM template (see `sbom.cmake`)."""
    # Facts of the build, such as compiler versions: the manifest does not know them, so any text
    # is accepted.
    parts = re.split(r"@MODEL_SBOM_\w+@", text)
    plain = (part.replace("@AT@", "@").replace("@HASH@", "#") for part in parts)
    return re.compile(".*".join(map(re.escape, plain)))
