"""Provenance as an in-toto Statement with a SLSA predicate: what a file was made from, and by whom.

Formats: https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and
https://slsa.dev/spec/v1.0/provenance. What is stated about a model comes from the manifest inside the file;
`modelwheel.provenance.replay` can prove it, a signature says who claims it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from ..errors import UsageError
from ..util.files import digest_file
from ..wheelfile.contents import Contents

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"

BUILD_TYPE = "urn:modelwheel:build:v1"
"""Says what the parameters below mean; raised when their meaning changes."""


def _name_in_json(name: str) -> str:
    return "_type" if name == "type" else to_camel(name)


class _Parsed(BaseModel):
    # Not `forbid`: a consumer must ignore fields that it does not know (in-toto's parsing rules).
    model_config = ConfigDict(
        frozen=True, alias_generator=_name_in_json, validate_by_name=True, validate_by_alias=True
    )


class Resource(_Parsed):
    """A file, a commit or a package, with at least one digest by algorithm."""

    name: str | None = None
    uri: str | None = None
    digest: dict[str, str] = {}


class BuildDefinition(_Parsed):
    """The request for a build, and everything that the result was made from."""

    build_type: str
    external_parameters: dict[str, Any]
    internal_parameters: dict[str, Any] = {}
    resolved_dependencies: tuple[Resource, ...] = ()


class Builder(_Parsed):
    """Who ran the build, as a URI."""

    id: str
    version: dict[str, str] = {}


class RunDetails(_Parsed):
    """The run that made the file."""

    builder: Builder
    metadata: dict[str, Any] = {}


class Predicate(_Parsed):
    """SLSA's provenance."""

    build_definition: BuildDefinition
    run_details: RunDetails


class Subjects(_Parsed):
    """A statement of any kind: what it is about."""

    type: str
    subject: tuple[Resource, ...]
    predicate_type: str


class Statement(Subjects):
    """Binds SLSA's predicate to files by their hashes."""

    type: str = STATEMENT_TYPE
    predicate_type: str = PREDICATE_TYPE
    predicate: Predicate

    def to_json(self) -> bytes:
        """The statement as JSON: the same bytes for the same file and builder."""
        return self.model_dump_json(by_alias=True, exclude_none=True).encode()


def make_statement(contents: Contents, builder: str, invocation: str | None = None) -> Statement:
    """States what a wheel or source distribution was made from, according to its manifests.

    Args:
        contents: The file.
        builder: Who built it, as a URI.
        invocation: The run that built it, as a URI.
    """
    file = Resource(name=contents.path.name, digest={"sha256": digest_file(contents.path).sha256})
    metadata = {} if invocation is None else {"invocationId": invocation}
    version = {"modelwheel": contents.manifests[0].compiler.modelwheel}
    run = RunDetails(builder=Builder(id=builder, version=version), metadata=metadata)
    predicate = Predicate(build_definition=define_build(contents), run_details=run)
    return Statement(subject=(file,), predicate=predicate)


def define_build(contents: Contents) -> BuildDefinition:
    """A file's own account of its build: spec, model, platforms, versions and flags."""
    manifests = contents.manifests
    first = manifests[0]
    origin, compiler = first.provenance, first.compiler
    return BuildDefinition(
        build_type=BUILD_TYPE,
        external_parameters={
            "model": first.model.distribution,
            "version": first.model.version,
            "spec": {"sha256": origin.spec_sha256},
            "platforms": {manifest.platform: list(manifest.levels) for manifest in manifests},
            "batchSizes": list(first.batching.sizes),
        },
        internal_parameters={
            "modelwheel": compiler.modelwheel,
            "tensorflow": compiler.tensorflow,
        },
        resolved_dependencies=tuple(_dependencies(origin.source, origin.tree_sha256)),
    )


def _dependencies(source: Mapping[str, str], tree: str) -> Iterator[Resource]:
    address = source.get("url", "")
    if "commit" in source:
        yield Resource(name="source", uri=f"git+{address}", digest={"gitCommit": source["commit"]})
    elif "sha256" in source:
        yield Resource(name="source", uri=address, digest={"sha256": source["sha256"]})
    # Hashes of all files of the model; `modelwheel.source.fetch.tree_digest` has the definition.
    yield Resource(name="model", uri=source.get("path") or ".", digest={"treeSha256": tree})


def find_builder(option: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The builder's URI: as given, else the workflow that GitHub Actions is running.

    Raises:
        UsageError: Neither is known.
    """
    # https://docs.github.com/actions/reference/variables-reference; the form of the URI is the one
    # of GitHub's own attestations, so that a policy can name both alike.
    server, workflow = (
        environment.get(f"GITHUB_{name}") for name in ("SERVER_URL", "WORKFLOW_REF")
    )
    builder = option or (f"{server}/{workflow}" if server and workflow else None)
    if builder is None:
        raise UsageError(
            "no builder given: pass --builder URI, which names who builds (GitHub Actions is detected)",
            code="MW210",
        )
    if ":" not in builder or any(character.isspace() for character in builder):
        raise UsageError(
            f"--builder {builder!r} is not a URI, such as https://example.org/builds", code="MW210"
        )
    return builder


def find_invocation(environment: Mapping[str, str] = os.environ) -> str | None:
    """The address of the run of GitHub Actions that this process is part of."""
    names = ("SERVER_URL", "REPOSITORY", "RUN_ID", "RUN_ATTEMPT")
    server, repository, run, attempt = (environment.get(f"GITHUB_{name}") for name in names)
    if not (server and repository and run):
        return None
    return f"{server}/{repository}/actions/runs/{run}/attempts/{attempt or 1}"
