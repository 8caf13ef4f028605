"""`models.json`: what the catalogue shows, for programs. Its schema is `models.schema.json` beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from ...signature import Tensor
from ...util.records import JsonRecord
from ...util.words import shape_text
from ...wheelfile.reports import PROVENANCE_SUFFIX
from .addresses import Addresses
from .charts import machines_of
from .grid import place_of
from .projects import Project, Release
from .wheels import ModelWheel


class ListedTensor(JsonRecord):
    """An input or output."""

    name: str
    dtype: str
    shape: str = Field(description="As people write it: [batch, 8, 8].")
    valid: str = Field(description="What an input may hold; empty if every value is valid.")
    labels: tuple[str, ...] = Field(
        description="What the places of an output's last axis stand for, or the values of an integer."
    )


class ListedFile(JsonRecord):
    """A wheel of the newest version."""

    filename: str
    url: str = Field(description="An address, or a path relative to this file.")
    sha256: str
    size: int = Field(description="Bytes.")
    platform: str = Field(description="Such as `Linux x86-64`.")
    tags: tuple[str, ...] = Field(description="PEP 425: what it can be installed on.")
    requires_python: str | None
    levels: tuple[str, ...] = Field(description="The CPU levels that it has code for.")
    attestation: str | None = Field(description="The signed statement of its origin.")


class ListedTiming(JsonRecord):
    """The shortest time of one call on one thread."""

    platform: str
    cpu: str = Field(description="Empty if it was not recorded.")
    level: str
    framework: str = Field(description="What ran the model instead of the wheel; else empty.")
    rows: int
    nanoseconds: float


class ListedVersion(JsonRecord):
    """One version."""

    version: str
    released: datetime | None = Field(
        description="When its first file was uploaded, if that is known."
    )


class ListedModel(JsonRecord):
    """One model, in its newest version."""

    name: str
    project: str = Field(description="What is installed, such as `model-digits`.")
    module: str = Field(description="What is imported.")
    version: str
    released: datetime | None
    summary: str
    description: str
    author: str
    keywords: tuple[str, ...]
    license: str = Field(description="Of the code; an SPDX expression.")
    weights_license: str | None
    urls: dict[str, str]
    page: str = Field(description="Relative to this file.")
    requirements: str = Field(description="A requirements file with hashes, relative to this file.")
    inputs: tuple[ListedTensor, ...]
    outputs: tuple[ListedTensor, ...]
    batch_sizes: tuple[int, ...]
    fixed_shape: bool
    source: dict[str, str]
    verified: bool | None = Field(
        description="Whether all errors are within their limits; null if nothing was compared."
    )
    largest_error: float | None = Field(description="As a part of what is allowed: 1 is the limit.")
    timings: tuple[ListedTiming, ...]
    files: tuple[ListedFile, ...]
    versions: tuple[ListedVersion, ...] = Field(description="Oldest first.")


class Listing(JsonRecord):
    """The whole file."""

    JSON_INDENT = None

    version: Literal[1] = Field(
        default=1, description="Raised when a field goes or means something else, not for new ones."
    )
    title: str
    models: tuple[ListedModel, ...]


def render_listing(title: str, projects: Sequence[Project], addresses: Addresses) -> bytes:
    """`models.json`."""
    models = tuple(_model(project, addresses) for project in projects)
    return Listing(title=title, models=models).to_json()


def render_schema() -> bytes:
    """`models.schema.json`: a JSON Schema of the listing, in which readers must allow more fields."""
    schema = Listing.model_json_schema(mode="serialization")
    for record in (schema, *schema["$defs"].values()):
        record.pop("additionalProperties", None)  # later versions may add some
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return (json.dumps(schema, indent=1) + "\n").encode()


def _model(project: Project, addresses: Addresses) -> ListedModel:
    release = project.newest
    manifest, model = release.manifest, release.manifest.model
    comparisons = [c for wheel in release.wheels if wheel.report for c in wheel.report.comparisons]
    return ListedModel(
        name=model.name,
        project=project.name,
        module=model.module,
        version=str(release.version),
        released=release.time,
        summary=model.summary,
        description=model.description,
        author=model.author,
        keywords=model.keywords,
        license=model.license,
        weights_license=model.weights_license,
        urls=model.urls,
        page=project.page,
        requirements=f"simple/{project.name}/requirements-{release.version}.txt",
        inputs=tuple(map(_tensor, manifest.signature.inputs)),
        outputs=tuple(map(_tensor, manifest.signature.outputs)),
        batch_sizes=manifest.batching.sizes,
        fixed_shape=not manifest.signature.batched,
        source=manifest.provenance.source,
        verified=release.passed,
        largest_error=max((min(c.share, 1e9) for c in comparisons), default=None),
        timings=tuple(_timings(release)),
        files=tuple(_file(wheel, addresses) for wheel in release.wheels),
        versions=tuple(
            ListedVersion(version=str(known.version), released=known.time)
            for known in project.releases
        ),
    )


def _tensor(tensor: Tensor) -> ListedTensor:
    return ListedTensor(
        name=tensor.name,
        dtype=tensor.dtype,
        shape=shape_text(tensor.shape, tensor.leading_per_row, tensor.extents),
        valid=tensor.valid_text,
        labels=tensor.labels,
    )


def _timings(release: Release) -> list[ListedTiming]:
    return [
        ListedTiming(
            platform=machine.platform,
            cpu=machine.cpu,
            level=machine.level,
            framework=timing.framework,
            rows=timing.rows,
            nanoseconds=timing.nanoseconds,
        )
        for machine in machines_of(release)
        for timing in (*machine.timings.values(), *machine.framework.values())
    ]


def _file(wheel: ModelWheel, addresses: Addresses) -> ListedFile:
    signed = PROVENANCE_SUFFIX in wheel.companions
    return ListedFile(
        filename=wheel.name,
        url=addresses.file(wheel),
        sha256=wheel.sha256,
        size=wheel.size,
        platform=place_of(wheel).name,
        tags=tuple(sorted(map(str, wheel.tags))),
        requires_python=wheel.requires_python,
        levels=wheel.manifest.levels,
        attestation=addresses.beside(wheel, PROVENANCE_SUFFIX) if signed else None,
    )
