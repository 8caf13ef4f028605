"""Whether a wheel or source distribution agrees with itself: its lists of hashes, manifest, bill, library.

All of this is found out from the file alone; `modelwheel.provenance.replay` goes on to where it comes from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from .. import __version__
from ..assembly import sbom
from ..assembly.describe import LICENSES
from ..assembly.manifest import File, Manifest
from ..source.fetch import tree_digest
from ..util.files import FileDigest
from ..wheelfile.contents import Contents


class BrokenLinkError(Exception):
    """What was compared differs; the message says where."""


class UncheckedLinkError(Exception):
    """Nothing could be compared here; the message says why."""


def some(names: Iterable[str], limit: int = 3) -> str:
    """The first names in alphabetical order, each once, and how many more there are."""
    names = sorted(set(names))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"


def check_files(contents: Contents) -> str:
    """Every file is in the list of hashes, and is what the list says; a sentence about it.

    Raises:
        BrokenLinkError: A file is not.
        WheelError: The list cannot be read.
    """
    mismatches = list(contents.mismatches())
    if mismatches:
        said = [f"{mismatch.file} {mismatch.problem}" for mismatch in mismatches]
        raise BrokenLinkError(some(said))
    listed = sum(file is not None for file in contents.listed.values())
    return f"{listed} files match their hashes in {contents.hash_list}"


def check_manifests(contents: Contents) -> str:
    """Manifests name the files that are there, and whatever else tells about the model agrees.

    Raises:
        BrokenLinkError: Something does not.
        WheelError: A manifest cannot be read.
    """
    compared = 0
    for manifest in contents.manifests:
        _require_identity(contents, manifest)
        compared += _require_files(contents, manifest)
        if contents.kind == "wheel":
            _require_description(contents, manifest)
            _require_sbom(contents, manifest)
    also = "" if contents.kind == "sdist" else ", bill of materials and library"
    return f"{compared} files are those that the manifest names; metadata{also} agree with it"


def library_name(contents: Contents, manifest: Manifest) -> str:
    """The model's shared library in a wheel.

    Raises:
        BrokenLinkError: There is none.
    """
    module = manifest.model.module
    for name in (f"lib/lib{module}.so", f"lib/lib{module}.dylib", f"{module}.dll"):
        if f"{module}/{name}" in contents.files:
            return f"{module}/{name}"
    raise BrokenLinkError(f"the wheel holds no library of {module}")


def _require_identity(contents: Contents, manifest: Manifest) -> None:
    metadata, model = contents.metadata, manifest.model
    said = (metadata.name, str(metadata.version), metadata.license_expression)
    if said != (model.distribution, model.version, model.whole_license):
        raise BrokenLinkError(
            f"the metadata tell of {' '.join(map(str, said))}, but the manifest of "
            f"{model.distribution} {model.version} {model.whole_license}"
        )
    origin = manifest.provenance
    tree = tree_digest({file.path: FileDigest(file.sha256, file.size) for file in origin.files})
    if tree != origin.tree_sha256 or origin.source.get("tree_sha256") != tree:
        raise BrokenLinkError("the manifest's tree hash is not that of the files that it lists")


def _require_files(contents: Contents, manifest: Manifest) -> int:
    named = _named_files(contents, manifest)
    for name, file in named.items():
        found = contents.files.get(name)
        if found is None or found.sha256 != file.sha256:
            raise BrokenLinkError(f"{name} is missing or is not the file that the manifest names")
    return len(named)


def _named_files(contents: Contents, manifest: Manifest) -> dict[str, File]:
    """Files of the manifest that ought to be here, by their names here."""
    if contents.kind == "sdist":
        return {file.path: file for file in manifest.files}
    metadata = next(name.partition("/")[0] for name in contents.files if ".dist-info/" in name)
    named = {}
    for file in manifest.files:
        if file.path.startswith("python/"):
            named[file.path.removeprefix("python/")] = file
        elif file.path.startswith(f"{LICENSES}/"):
            named[f"{metadata}/licenses/{file.path}"] = file
    return named


def _require_description(contents: Contents, manifest: Manifest) -> None:
    """The library carries part of the manifest, as its C API and `python -m model_NAME` tell it."""
    name = library_name(contents, manifest)
    about = json.dumps(manifest.about(), sort_keys=True, separators=(",", ":"))
    if about.encode() not in contents.read(name):
        raise BrokenLinkError(f"{name} tells something else of the model than the manifest does")


def _require_sbom(contents: Contents, manifest: Manifest) -> None:
    name = f"{manifest.model.module}.cdx.json"
    bills = [bill for path, bill in contents.sboms.items() if PurePosixPath(path).name == name]
    if len(bills) != 1:
        raise BrokenLinkError(f"the wheel holds {len(bills)} bills of materials {name}")
    if manifest.compiler.modelwheel != __version__:
        return  # which may have said the same in other words
    others = [file for file in manifest.files if not file.path.endswith(f"/{sbom.SBOM_TEMPLATE}")]
    expected = json.loads(sbom.template(manifest.model_copy(update={"files": tuple(others)})))
    if difference := _find_difference(expected, bills[0], ""):
        raise BrokenLinkError(f"{name} says something else than the manifest: {difference}")


def _find_difference(expected: object, found: object, place: str) -> str | None:
    """The first place where a bill of materials is not what its template allows."""
    if isinstance(expected, dict) and isinstance(found, dict) and set(expected) == set(found):
        pairs = [(f"{place}.{key}", expected[key], found[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = [(f"{place}[{i}]", expected[i], found[i]) for i in range(len(expected))]
    elif isinstance(expected, str) and isinstance(found, str):
        return None if _pattern(expected).fullmatch(found) else place
    else:
        return None if expected == found else place or "the whole"
    differences = (_find_difference(e, f, where.lstrip(".")) for where, e, f in pairs)
    return next((place for place in differences if place is not None), None)


def _pattern(text: str) -> re.Pattern[str]:
    """What CMake may make of a text of the template of a bill of materials."""
    parts = re.split(r"@MODEL_SBOM_\w+@", text)
    plain = (part.replace("@AT@", "@").replace("@HASH@", "#") for part in parts)
    return re.compile(".*".join(map(re.escape, plain)))
