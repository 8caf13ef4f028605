"""Attestations without keys: Sigstore's certificates name the repository and the workflow that signed.

Bundles of GitHub (`actions/attest-build-provenance`) and of package indexes (PEP 740) are read. Both say which file was
made; what a wheel is made from is in the file itself.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ProvenanceError, UsageError
from ..util.text import one_line
from .signing import bundle_path, read_lines

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from sigstore.models import Bundle
    from sigstore.verify import Verifier

GITHUB = "https://token.actions.githubusercontent.com"
"""Who vouches for workflows of GitHub Actions."""

BESIDE = (".sigstore.json", ".publish.attestation")
"""Endings of files beside another one with what is read here; other tools name them so."""

_ISSUER = "1.3.6.1.4.1.57264.1.8"
_REPOSITORY = "1.3.6.1.4.1.57264.1.12"
"""Extensions of Fulcio's certificates: https://github.com/sigstore/fulcio/blob/main/docs/oid-info.md"""


@dataclass(frozen=True)
class Identity:
    """Whose signatures count."""

    id: str
    """The workflow's address as certificates have it, with its ref; `*` stands for any text."""
    issuer: str = GITHUB
    repository: str | None = None
    """That the workflow runs for; by default the one that the workflow is in. `*` stands for any text."""


@dataclass(frozen=True)
class Signed:
    """A statement with a valid signature."""

    identity: str
    """The address of the workflow that signed."""
    payload: bytes
    """An in-toto statement."""


def find_bundles(path: Path) -> list[Bundle]:
    """The Sigstore bundles and attestations beside a file; what is something else is left out.

    Raises:
        ProvenanceError: A file cannot be read.
    """
    files = [bundle_path(path), *(path.with_name(path.name + ending) for ending in BESIDE)]
    bundles: list[Bundle] = []
    for file in files:
        if not file.exists():
            continue
        whole = _parse(b"".join(read_lines(file)))
        values = [whole] if whole is not None else map(_parse, read_lines(file))
        bundles += [bundle for value in values for bundle in _bundles(value)]
    return bundles


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _bundles(value: Any) -> Iterator[Bundle]:
    """The bundles in a value: a bundle, an attestation, or an index's answer with several of them."""
    from pypi_attestations import Attestation
    from sigstore.models import Bundle

    if not isinstance(value, dict):
        return
    try:
        if str(value.get("mediaType")).startswith("application/vnd.dev.sigstore.bundle"):
            yield Bundle.from_json(json.dumps(value))
        elif "verification_material" in value:
            yield Attestation.model_validate(value).to_bundle()
        for publisher in value.get("attestation_bundles", ()):
            for attestation in publisher["attestations"]:
                yield from _bundles(attestation)
    # Whatever it holds that is not a bundle: it is data of others.
    except Exception:  # noqa: BLE001
        return


def open_verifier(trusted_root: Path | None) -> Verifier:
    """A verifier of signatures.

    Args:
        trusted_root: The keys of the authorities and logs, as Sigstore's `trusted_root.json`; by default those of the
            public instance, brought up to date over the network.

    Raises:
        UsageError: The file cannot be read.
        ProvenanceError: The network cannot be reached.
    """
    from sigstore.errors import Error
    from sigstore.models import TrustedRoot
    from sigstore.verify import Verifier

    if trusted_root is None:
        try:
            return Verifier.production()
        except Error as error:
            raise ProvenanceError(
                f"cannot get the keys of Sigstore: {one_line(error)}; try again, or name a file with them in "
                "section [sigstore] of the policy: trusted_root"
            ) from None
    try:
        return Verifier(trusted_root=TrustedRoot.from_file(str(trusted_root)))
    except OSError as error:
        raise UsageError(
            f"cannot read {trusted_root}: {error.strerror or error}", code="MW210"
        ) from None
    except (Error, ValueError):
        raise UsageError(
            f"{trusted_root} is not a trusted root of Sigstore", code="MW210"
        ) from None


def verify_bundle(verifier: Verifier, bundle: Bundle, trusted: Sequence[Identity]) -> Signed:
    """Checks the certificate, the log and the signature of a bundle, and who signed.

    Raises:
        ProvenanceError: One of them is wrong, or nobody who is trusted signed.
    """
    from sigstore.errors import Error

    wanted = _AnyOf(trusted)
    try:
        kind, payload = verifier.verify_dsse(bundle, wanted)
    except Error as error:
        raise ProvenanceError(one_line(error)) from None
    if kind != "application/vnd.in-toto+json":
        raise ProvenanceError(f"the signed text is not an in-toto statement ({one_line(kind)})")
    return Signed(wanted.found, payload)


class _AnyOf:
    """A policy of sigstore-python: the certificate names one of these identities."""

    def __init__(self, trusted: Sequence[Identity]) -> None:
        self._trusted = trusted
        self.found = ""

    def verify(self, cert: Certificate) -> None:
        """Raises sigstore's VerificationError if it names none of them."""
        from sigstore.errors import VerificationError

        names = _names(cert)
        issuer, repository = _extension(cert, _ISSUER), _extension(cert, _REPOSITORY)
        for identity in self._trusted:
            for name in names:
                if issuer == identity.issuer and _fits(identity, name, repository):
                    self.found = name
                    return
        raise VerificationError(
            f"signed by {', '.join(map(one_line, names)) or 'nobody'} for {one_line(repository) or 'no repository'}, "
            "which the policy does not trust"
        )


def _names(cert: Certificate) -> list[str]:
    from cryptography.x509 import SubjectAlternativeName, UniformResourceIdentifier

    names = cert.extensions.get_extension_for_class(SubjectAlternativeName).value
    return names.get_values_for_type(UniformResourceIdentifier)


def _fits(identity: Identity, name: str, repository: str) -> bool:
    if not fnmatchcase(name, identity.id):
        return False
    if identity.repository is not None:
        return fnmatchcase(repository, identity.repository)
    # The workflow of a reusable one is that of its own repository, and anybody may call it.
    return bool(repository) and name.startswith(f"{repository}/")


def _extension(cert: Certificate, number: str) -> str:
    """A UTF-8 string in an extension; empty if there is none."""
    from cryptography.x509 import ExtensionNotFound, ObjectIdentifier, UnrecognizedExtension
    from pyasn1.codec.der.decoder import decode
    from pyasn1.error import PyAsn1Error
    from pyasn1.type.char import UTF8String

    try:
        value = cert.extensions.get_extension_for_oid(ObjectIdentifier(number)).value
    except ExtensionNotFound:
        return ""
    assert isinstance(value, UnrecognizedExtension)
    try:
        return str(decode(value.value, asn1Spec=UTF8String())[0])
    except PyAsn1Error:
        return ""


def is_known(predicate_type: str) -> bool:
    """Whether a statement says that a workflow built a file, or uploaded it to a package index."""
    from pypi_attestations import AttestationType

    return predicate_type in {known.value for known in AttestationType}


def split_by_subject(bundle: Path) -> tuple[str, set[str]]:
    """A bundle as one line, and the SHA-256 of the files that it is about. Nothing is checked.

    Raises:
        UsageError: It is not a bundle, or cannot be read.
    """
    value = _parse(b"".join(read_lines(bundle)))
    try:
        text = (
            value["dsseEnvelope"]["payload"]
            if "dsseEnvelope" in value
            else value["envelope"]["statement"]
        )
        statement = json.loads(base64.b64decode(text))
        digests = {str(subject["digest"]["sha256"]) for subject in statement["subject"]}
    except (ValueError, TypeError, KeyError):
        raise UsageError(
            f"{bundle} is not a Sigstore bundle or an attestation of a package index", code="MW210"
        ) from None
    return json.dumps(value, separators=(",", ":")), digests
