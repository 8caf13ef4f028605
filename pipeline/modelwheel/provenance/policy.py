"""A policy for signed provenance: whose statements count, and which sources a model may come from.

[[builders]]
id = "https://github.com/org/models/.github/workflows/release.yml@refs/tags/*"
key = "release.pub.pem"                       # relative to this file

[sources]
allow = ["git+https://github.com/org/*"]      # by default any
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

from ..errors import ProvenanceError, UsageError
from ..util.files import digest_file
from ..util.records import first_mistake
from ..util.words import first_few
from ..wheelfile.contents import Contents
from .signing import bundle_path, read_bundle, read_public_key, signed_by
from .statement import BUILD_TYPE, PREDICATE_TYPE, STATEMENT_TYPE, Statement, define_build

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrustedBuilder(_Section):
    """A builder and the key that its statements are signed with."""

    id: StrictStr
    """A URI; `*` stands for any text."""
    key: StrictStr
    """A public key in PEM format, relative to the policy file."""


class Sources(_Section):
    """Where models may come from."""

    allow: tuple[StrictStr, ...] = ("*",)
    """URIs of sources; `*` stands for any text."""


class _File(_Section):
    builders: tuple[TrustedBuilder, ...] = Field(min_length=1)
    sources: Sources = Sources()


@dataclass(frozen=True)
class Policy:
    """A policy with its keys."""

    path: Path
    builders: tuple[tuple[TrustedBuilder, SSlibKey], ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Attested:
    """A file whose signed provenance satisfies a policy."""

    file: Path
    builder: str
    source: str


def load_policy(path: Path) -> Policy:
    """Reads a policy and its keys.

    Raises:
        UsageError: It has mistakes, or a key cannot be read.
    """
    try:
        content = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise UsageError(
            f"{path}: {first_mistake(error)}; docs/releases.md has an example"
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is not valid TOML: {error}") from None
    keys = tuple((each, read_public_key(path.parent / each.key)) for each in content.builders)
    return Policy(path, keys, content.sources.allow)


def require_provenance(contents: Contents, policy: Policy) -> Attested:
    """Checks the statements beside a file against a policy and against the file itself.

    One statement that satisfies everything is enough; others, of other tools, do not matter.

    Raises:
        ProvenanceError: None does; the message says what is wrong with the one that comes nearest.
    """
    signed = list(_signed(contents.path, policy))
    if not signed:
        raise ProvenanceError(
            f"{bundle_path(contents.path).name}: no statement is signed with a key of {policy.path}"
        )
    digest = digest_file(contents.path).sha256
    problems = []
    for envelope, builders in signed:
        try:
            return _judge(contents, digest, policy, _parse(envelope), builders)
        except ProvenanceError as error:
            problems.append(str(error))
    raise ProvenanceError(f"{contents.path.name}: {'; '.join(dict.fromkeys(problems))}")


def _signed(path: Path, policy: Policy) -> Iterator[tuple[Envelope, tuple[str, ...]]]:
    """Envelopes with a trusted signature, and the builders that may sign with that key."""
    for envelope in read_bundle(path):
        builders = tuple(each.id for each, key in policy.builders if signed_by(envelope, key))
        if builders:
            yield envelope, builders


def _parse(envelope: Envelope) -> Statement:
    try:
        return Statement.model_validate_json(envelope.payload)
    except ValidationError:
        raise ProvenanceError("the signed text is not a statement of provenance") from None


def _judge(
    contents: Contents, digest: str, policy: Policy, statement: Statement, builders: tuple[str, ...]
) -> Attested:
    kinds = (
        statement.type,
        statement.predicate_type,
        statement.predicate.build_definition.build_type,
    )
    if kinds != (STATEMENT_TYPE, PREDICATE_TYPE, BUILD_TYPE):
        raise ProvenanceError(f"the signed statement is of another kind ({first_few(kinds)})")
    if all(resource.digest.get("sha256") != digest for resource in statement.subject):
        names = first_few(str(resource.name) for resource in statement.subject)
        raise ProvenanceError(f"the signed statement is about another file ({names})")
    builder = statement.predicate.run_details.builder.id
    if not any(fnmatchcase(builder, pattern) for pattern in builders):
        raise ProvenanceError(
            f"the builder {builder} is not one that {policy.path} trusts with this key"
        )
    claimed, found = statement.predicate.build_definition, define_build(contents)
    if claimed != found:
        fields = [name for name, value in found if getattr(claimed, name) != value]
        raise ProvenanceError(
            f"the signed statement and the file's own manifest differ in {first_few(fields)}"
        )
    return Attested(contents.path, builder, _require_source(policy, statement))


def _require_source(policy: Policy, statement: Statement) -> str:
    dependencies = statement.predicate.build_definition.resolved_dependencies
    source = next((each.uri or "" for each in dependencies if each.name == "source"), "")
    if not any(fnmatchcase(source, pattern) for pattern in policy.sources):
        raise ProvenanceError(
            f"the model comes from {source or 'a local directory'}, which [sources] of {policy.path} "
            "does not allow"
        )
    return source or "a local directory"
