"""The package modelwheel-runtime: the Python extension for all models without one of their own.

Its project consists of the template's overlays `runtime/`, `common/` and `bindings/`. The major version is that of the ABI, so that a requirement such as `>=1.0,<2` says which releases serve a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from ..assembly import sbom
from ..assembly.manifest import Manifest
from ..errors import UsageError
from ..store.keys import action_key
from ..store.records import Record
from ..store.store import Store
from ..util.files import write_atomically
from ..util.unfinished import temporary_directory
from ..versions import ABI_VERSION, NUMPY_REQUIREMENT, RUNTIME, RUNTIME_VERSION
from .backend import build_distribution, build_environment
from .checksums import write_checksums
from .objects import build_objects, objects_key, objects_settings
from .template import (
    RUNTIME_OVERLAYS,
    SOURCE_DATE_EPOCH,
    Template,
    combine_overlays,
    render,
    template_digest,
)

NEEDED = "needed"
"""The directory in source distributions with packages that the wheels require."""

NEEDED_SDIST = f"{NEEDED}/{RUNTIME.replace('-', '_')}-{RUNTIME_VERSION}.tar.gz"
"""The copy of this package in the source distributions of models that need it."""


def runtime_template() -> Template:
    """The template of its project."""
    return combine_overlays(RUNTIME_OVERLAYS)


def write_project(project: Path) -> None:
    """Writes the project, for any PEP 517 frontend, into an existing directory."""
    context = {
        "distribution": RUNTIME,
        "version": RUNTIME_VERSION,
        "abi_version": ABI_VERSION,
        "requirements": [NUMPY_REQUIREMENT],
        "bindings": "extension",
        "source_date_epoch": SOURCE_DATE_EPOCH,
    }
    render(runtime_template(), context, project)
    (project / sbom.SBOM_TEMPLATE).write_text(sbom.runtime_template(RUNTIME_VERSION), "utf-8")
    write_checksums(project)


def build_runtime(
    kind: Literal["sdist", "wheel"], out: Path, settings: Mapping[str, str] | None = None
) -> Path:
    """Builds the source distribution, or the wheel for this Python, into an existing directory.

    Args:
        kind: What to build.
        out: The directory.
        settings: Settings of the build backend.

    Raises:
        WheelError: The compiler or the build backend failed.
    """
    with temporary_directory("runtime") as directory:
        project = directory / f"modelwheel_runtime-{RUNTIME_VERSION}"
        project.mkdir()
        write_project(project)
        return build_distribution(kind, project, out, settings=settings)


def runtime_key() -> str:
    """The key of the wheel in a store."""
    return action_key("runtime", **runtime_inputs())


def runtime_inputs() -> dict[str, Any]:
    """Everything that the wheel for this Python depends on."""
    return {"sources": _sources(), "environment": build_environment()}


def _sources() -> dict[str, str | int]:
    """Everything that its project depends on."""
    return {
        "version": RUNTIME_VERSION,
        "template": template_digest(runtime_template()),
        "sbom": sbom.SBOM_VERSION,
    }


def runtime_wheel(store: Store) -> Record:
    """The record of the wheel for this Python, built at most once."""

    def build(out: Path) -> None:
        with store.scratch() as objects:
            record = _built_once(store, "objects", objects_key(), build_objects)
            store.materialize(record, objects, link=True)
            build_runtime("wheel", out, objects_settings(objects))

    return _built_once(store, "runtime", runtime_key(), build)


def _built_once(store: Store, step: str, key: str, build: Callable[[Path], object]) -> Record:
    # Without the lock first: a store that is read-only serves what it has.
    record = store.lookup(key)
    if record is not None:
        return record
    # Builds of several models may need it at the same time.
    with store.lock(key):
        record = store.lookup(key)
        if record is not None:
            return record
        with store.scratch() as scratch:
            build(scratch)
            return store.publish(key, scratch, {"step": step})


def needed_sources(bindings: str) -> dict[str, str | int]:
    """The inputs of the copy of this package in a model's source distribution; part of its key."""
    return _sources() if bindings == "shared" else {}


def add_needed_sources(bindings: str, project: Path) -> None:
    """Adds this package to the project of a model that needs it, so that its wheels can be tested anywhere."""
    if needed_sources(bindings):
        (project / NEEDED).mkdir()
        build_runtime("sdist", project / NEEDED)


def needed_wheels(manifest: Manifest, store: Store, directory: Path) -> list[Path]:
    """Writes the wheels that a model's wheel requires, as built by this modelwheel, into a directory."""
    if manifest.model.bindings != "shared":
        return []
    record = runtime_wheel(store)
    store.materialize(record, directory)
    return [directory / name for name in record.files]


def require_tag(tag: str) -> None:
    """Raises UsageError unless the tag is that of the current version."""
    expected = f"{RUNTIME}-{RUNTIME_VERSION}"
    if tag != expected:
        raise UsageError(
            f"the tag {tag!r} is not {expected!r}; increase RUNTIME_VERSION in versions.py, or use that tag"
        )


def write_runtime(out: Path, store: Store, *, wheel: bool) -> list[Path]:
    """Writes the source distribution, and on request the wheel for this Python, into a directory."""
    out.mkdir(parents=True, exist_ok=True)
    with temporary_directory("runtime") as directory:
        build_runtime("sdist", directory)
        if wheel:
            store.materialize(runtime_wheel(store), directory)
        written = [out / built.name for built in sorted(directory.iterdir())]
        # Built elsewhere and then moved into place: `out` never has half a file.
        for path in written:
            write_atomically(path, (directory / path.name).read_bytes())
    return written
