"""A policy for provenance: whose statements count, and which sources a model may come from.

[[builders]]                                  # without a key: Sigstore's certificate names the workflow
id = "https://github.com/org/models/.github/workflows/release.yml@refs/tags/*"

[[builders]]
id = "https://ci.example.org/release"
key = "release.pub.pem"                       # relative to this file

[sources]
allow = ["git+https://github.com/org/*"]      # by default any

[sigstore]
trusted_root = "trusted_root.json"            # relative to this file; by default the public instance's, by network
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError, model_validator

from ..errors import ProvenanceError, UsageError
from ..util.files import digest_file
from ..util.records import first_mistake
from ..util.words import first_few
from ..wheelfile.contents import Contents
from .identities import (
    GITHUB,
    Identity,
    Signed,
    find_bundles,
    is_known,
    open_verifier,
    verify_bundle,
)
from .signing import bundle_path, read_bundle, read_public_key, signed_by
from .statement import (
    BUILD_TYPE,
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    BuildDefinition,
    Resource,
    Statement,
    Subjects,
    define_build,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey
    from sigstore.verify import Verifier
    from typing_extensions import Self


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrustedBuilder(_Section):
    """A builder, and the key that its statements are signed with or its identity at Sigstore."""

    id: StrictStr
    """A URI; `*` stands for any text."""
    key: StrictStr | None = None
    """A public key in PEM format, relative to the policy file; None for Sigstore's certificates."""
    issuer: StrictStr = GITHUB
    """Without a key: who vouches for the identity."""
    repository: StrictStr | None = None
    """Without a key: see `Identity`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.key is not None and self.model_fields_set & {"issuer", "repository"}:
            raise ValueError("`issuer` and `repository` belong to builders without a key")
        return self


class SigstoreSection(_Section):
    """The instance of Sigstore."""

    trusted_root: StrictStr | None = None
    """A file with its keys, relative to the policy file; None for the public instance."""


class Sources(_Section):
    """Where models may come from."""

    allow: tuple[StrictStr, ...] = ("*",)
    """URIs of sources; `*` stands for any text."""


class _File(_Section):
    builders: tuple[TrustedBuilder, ...] = Field(min_length=1)
    sources: Sources = Sources()
    sigstore: SigstoreSection = SigstoreSection()


@dataclass(frozen=True)
class Policy:
    """A policy with its keys."""

    path: Path
    builders: tuple[tuple[TrustedBuilder, SSlibKey], ...]
    """Those with keys."""
    identities: tuple[Identity, ...]
    """The others."""
    sources: tuple[str, ...]
    trusted_root: Path | None

    @cached_property
    def verifier(self) -> Verifier:
        """A verifier of Sigstore's signatures; it may need the network.

        Raises:
            UsageError: The file with its keys cannot be read.
            ProvenanceError: The network cannot be reached.
        """
        return open_verifier(self.trusted_root)


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
        raise UsageError(f"{path}: cannot be read: {error.strerror}", code="MW210") from None
    except ValidationError as error:
        raise UsageError(
            f"{path}: {first_mistake(error)}; docs/provenance.md has an example", code="MW210"
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is not valid TOML: {error}", code="MW210") from None
    keyed = [(builder, builder.key) for builder in content.builders if builder.key is not None]
    root = content.sigstore.trusted_root
    return Policy(
        path,
        tuple((builder, read_public_key(path.parent / key)) for builder, key in keyed),
        tuple(
            Identity(builder.id, builder.issuer, builder.repository)
            for builder in content.builders
            if builder.key is None
        ),
        content.sources.allow,
        None if root is None else path.parent / root,
    )


def require_provenance(contents: Contents, policy: Policy) -> Attested:
    """Checks the statements beside a file against a policy and against the file itself.

    One statement that satisfies everything is enough; others, of other tools, do not matter.

    Raises:
        ProvenanceError: None does; the message says what is wrong with the one that comes nearest.
    """
    bundles = find_bundles(contents.path) if policy.identities else []
    signed = list(_signed(contents.path, policy))
    if not signed and not bundles:
        raise ProvenanceError(_nothing_found(contents.path, policy))
    digest = digest_file(contents.path).sha256
    problems = []
    for envelope, builders in signed:
        try:
            return _judge(contents, digest, policy, _parse(envelope.payload), builders)
        except ProvenanceError as error:
            problems.append(str(error))
    for bundle in bundles:
        try:
            statement = verify_bundle(policy.verifier, bundle, policy.identities)
            return _judge_identity(contents, digest, policy, statement)
        except ProvenanceError as error:
            problems.append(str(error))
    raise ProvenanceError(f"{contents.path.name}: {'; '.join(dict.fromkeys(problems))}")


def _nothing_found(path: Path, policy: Policy) -> str:
    bundle = bundle_path(path)
    if not bundle.exists():
        return f"{path.name} has no signed provenance: {bundle.name} is not beside it"
    if policy.identities:
        return f"{bundle.name}: it has no bundle of Sigstore, and no statement signed with a key of {policy.path}"
    return f"{bundle.name}: no statement is signed with a key of {policy.path}"


def _signed(path: Path, policy: Policy) -> Iterator[tuple[Envelope, tuple[str, ...]]]:
    """Envelopes with a trusted signature, and the builders that may sign with that key."""
    for envelope in read_bundle(path):
        builders = tuple(builder.id for builder, key in policy.builders if signed_by(envelope, key))
        if builders:
            yield envelope, builders


def _parse(payload: bytes) -> Statement:
    try:
        return Statement.model_validate_json(payload)
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
    _require_subject(statement.subject, digest)
    builder = statement.predicate.run_details.builder.id
    if not any(fnmatchcase(builder, pattern) for pattern in builders):
        raise ProvenanceError(
            f"the builder {builder} is not one that {policy.path} trusts with this key"
        )
    claimed, actual = statement.predicate.build_definition, define_build(contents)
    if claimed != actual:
        fields = [name for name, value in actual if getattr(claimed, name) != value]
        raise ProvenanceError(
            f"the signed statement and the file's own manifest differ in {first_few(fields)}"
        )
    return Attested(contents.path, builder, _require_source(policy, actual))


def _judge_identity(contents: Contents, digest: str, policy: Policy, signed: Signed) -> Attested:
    """A statement of any kind that a trusted workflow made about the file; what that was made from, it says itself."""
    try:
        subject = Subjects.model_validate_json(signed.payload)
    except ValidationError:
        raise ProvenanceError("the signed text is not a statement of provenance") from None
    if subject.type != STATEMENT_TYPE or not is_known(subject.predicate_type):
        raise ProvenanceError(
            f"the signed statement is of another kind ({first_few([subject.type, subject.predicate_type])})"
        )
    _require_subject(subject.subject, digest)
    return Attested(contents.path, signed.identity, _require_source(policy, define_build(contents)))


def _require_subject(resources: Sequence[Resource], digest: str) -> None:
    if all(resource.digest.get("sha256") != digest for resource in resources):
        names = first_few(str(resource.name) for resource in resources)
        raise ProvenanceError(f"the signed statement is about another file ({names})")


def _require_source(policy: Policy, build: BuildDefinition) -> str:
    dependencies = build.resolved_dependencies
    source = next(
        (dependency.uri or "" for dependency in dependencies if dependency.name == "source"), ""
    )
    if not any(fnmatchcase(source, pattern) for pattern in policy.sources):
        raise ProvenanceError(
            f"the model comes from {source or 'a local directory'}, which [sources] of {policy.path} "
            "does not allow"
        )
    return source or "a local directory"
