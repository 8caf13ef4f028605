"""Builds a wheel or source distribution again and compares the two byte for byte."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from packaging.utils import parse_wheel_filename

from ..assembly.manifest import Manifest
from ..assembly.sbom import COMPILERS
from ..packaging.backend import build_wheel
from ..packaging.checksums import write_checksums
from ..packaging.project import render_project
from ..packaging.sdist import build_sdist
from ..platforms import host_platform
from ..store.records import Record
from ..store.store import Store
from ..util.words import count, first_few, size_text
from ..wheelfile.contents import Contents, open_contents
from .consistency import BrokenLinkError, UncheckedLinkError, library_name
from .difference import compare_bytes, first_difference

LEVELS_SENTENCE = b"Includes code for "
"""Begins the line of a wheel's README that lists the levels of all platforms; a test reads the template."""


def compare_rebuilt(contents: Contents, record: Record, store: Store) -> str:
    """Builds the same file from the project in `record` and returns a sentence about the result.

    Raises:
        BrokenLinkError: They differ.
        UncheckedLinkError: The tools of this machine cannot build the same bytes.
        WheelError: The build failed.
    """
    if contents.kind == "sdist":
        return _compare_sdist(contents, record, store)
    (manifest,) = contents.manifests
    # First, because this can be checked for wheels of every platform.
    _require_weights(contents, manifest, record, store)
    return _compare_wheel(contents, manifest, record, store)


def _require_weights(contents: Contents, manifest: Manifest, record: Record, store: Store) -> None:
    name = library_name(contents, manifest)
    if store.read_bytes(record, manifest.weights) not in contents.read(name):
        raise BrokenLinkError(f"{name} does not contain the weights in the manifest")


def _compare_wheel(contents: Contents, manifest: Manifest, record: Record, store: Store) -> str:
    host = host_platform().name
    if manifest.platform != host:
        raise UncheckedLinkError(
            f"the wheel is for {manifest.platform}, but this is {host}; its library contains the weights"
        )
    with store.scratch() as scratch:
        again = open_contents(build_wheel(_render(record, store, scratch), scratch))
        # Before the bytes: other tools make other bytes, which shows nothing about the wheel.
        _require_tools(_tools(contents), _tools(again))
        _require_same(contents, again)
        by = first_few(sorted({tool for name, tool in _tools(again).items() if name in COMPILERS}))
        theirs, ours = contents.path.read_bytes(), again.path.read_bytes()
        if theirs == ours:
            return f"same bytes: {size_text(len(ours))}, built again by {by}"
        different = _differing(contents, again)
        if different:
            where = first_difference(contents, again, different)
        else:
            where = compare_bytes(contents.path.name, theirs, ours)
    left_out = _left_out(contents, again)
    same = count(len(again.files) - len(left_out), "file")
    but = f"; not compared: {first_few(sorted(left_out))}" if left_out else ""
    return f"same content: built again by {by}: {same} identical{but}; first difference: {where}"


def _render(record: Record, store: Store, scratch: Path) -> Path:
    project = scratch / "project"
    store.materialize(record, project)
    render_project(project)
    return project


def _tools(contents: Contents) -> dict[str, str]:
    """The tools that a wheel was built with, according to its SBOM and its WHEEL file."""
    named = (*COMPILERS, "cmake", "pybind11", "compiler-runtime", "cxx-library")
    tools = {
        component["bom-ref"]: f"{component.get('name')} {component.get('version')}"
        for sbom in contents.sboms.values()
        for component in sbom.get("components", ())
        if component.get("bom-ref") in named
    }
    if contents.wheel is not None:
        tools["build backend"] = str(contents.wheel.wheel_metadata.get("Generator", "unknown"))
    return tools


def _require_tools(theirs: Mapping[str, str], ours: Mapping[str, str]) -> None:
    different = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    if different:
        used, here = (
            first_few(tools.get(name, f"no {name}") for name in different)
            for tools in (theirs, ours)
        )
        raise UncheckedLinkError(
            f"the wheel was built with {used}, but this machine has {here}; its library contains the weights"
        )


def _require_same(contents: Contents, again: Contents) -> None:
    different = {
        name
        for name in _differing(contents, again) - _left_out(contents, again)
        if not name.endswith(".dist-info/RECORD")  # follows from all others
        and not _same_metadata(name, contents, again)
    }
    if different:
        others = f" ({count(len(different), 'file')} differ)" if len(different) > 1 else ""
        where = first_difference(contents, again, different)
        raise BrokenLinkError(f"first difference{others}: {where}")


def _differing(contents: Contents, again: Contents) -> set[str]:
    """Files that differ, or that only one of the two has."""
    names = {*contents.files, *again.files}
    return {name for name in names if contents.files.get(name) != again.files.get(name)}


def _left_out(contents: Contents, again: Contents) -> set[str]:
    """Files that cannot be identical: of a wheel for another Python, or of a repaired one."""
    theirs, ours = (parse_wheel_filename(path.name)[3] for path in (contents.path, again.path))
    if theirs == ours:
        return set()
    names = {*contents.files, *again.files}
    # `auditwheel repair` writes new tags into WHEEL, so also RECORD, and adds an SBOM of its own.
    left_out = {name for name in names if PurePosixPath(name).name in ("WHEEL", "RECORD")}
    left_out |= {name for name in names if name.endswith("/sboms/auditwheel.cdx.json")}
    if {tag.interpreter for tag in theirs} != {tag.interpreter for tag in ours}:
        left_out |= {name for name in names if PurePosixPath(name).name.startswith("_core.")}
    return left_out


def _same_metadata(name: str, contents: Contents, again: Contents) -> bool:
    """Whether two METADATA files differ only in the sentence that lists the levels of all platforms.

    The sentence depends on the other platforms that the project was compiled for. A wheel does not record them.
    """
    texts = (contents.texts.get(name), again.texts.get(name))
    if not name.endswith(".dist-info/METADATA") or None in texts:
        return False
    theirs, ours = (text.splitlines() for text in texts if text is not None)
    return len(theirs) == len(ours) and all(
        a == b or (a.startswith(LEVELS_SENTENCE) and b.startswith(LEVELS_SENTENCE))
        for a, b in zip(theirs, ours, strict=True)
    )


def _compare_sdist(contents: Contents, record: Record, store: Store) -> str:
    with store.scratch() as scratch:
        project = _render(record, store, scratch)
        write_checksums(project)
        (scratch / "out").mkdir()
        again = build_sdist(project, scratch / "out")
        theirs, ours = contents.path.read_bytes(), again.read_bytes()
        if theirs == ours:
            return f"same bytes: {size_text(len(ours))}, packed again"
        packed = open_contents(again)
        different = _differing(contents, packed)
        if different:
            where = first_difference(contents, packed, different)
        else:
            where = compare_bytes(contents.path.name, theirs, ours)
    raise BrokenLinkError(f"first difference: {where}")
