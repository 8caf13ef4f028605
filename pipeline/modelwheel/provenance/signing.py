"""Signed statements beside a file: DSSE envelopes, one for each line of `FILE.intoto.jsonl`.

Formats: https://github.com/secure-systems-lab/dsse/blob/master/envelope.md and in-toto's
https://github.com/in-toto/attestation/blob/main/spec/v1/bundle.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ProvenanceError, UsageError
from ..util.files import write_atomically
from ..util.words import size_text
from ..wheelfile.reports import PROVENANCE_SUFFIX

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey

KEY_VARIABLE = "MODELWHEEL_PROVENANCE_KEY"
"""The environment variable with a private key in PEM format."""

_PAYLOAD_TYPE = "application/vnd.in-toto+json"

_LARGEST_BUNDLE = 4 << 20
"""Bytes. A statement of ours takes two kilobytes; bundles may hold those of other tools."""


def bundle_path(path: Path) -> Path:
    """Where the statements about a file are."""
    return path.with_name(path.name + PROVENANCE_SUFFIX)


def find_private_key(
    path: Path | None, environment: Mapping[str, str] = os.environ
) -> PrivateKeyTypes:
    """The key to sign with: in a file, else the text of the environment variable `KEY_VARIABLE`.

    Args:
        path: A file in PEM format (PKCS #8) without a password: Ed25519, ECDSA or RSA.
        environment: The variables.

    Raises:
        UsageError: There is none, or it cannot be read.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = environment.get(KEY_VARIABLE, "").encode()
    if path is None and not text:
        raise UsageError(
            f"no key given: pass --key FILE, or its text in {KEY_VARIABLE}", code="MW210"
        )
    try:
        return load_pem_private_key(text if path is None else path.read_bytes(), password=None)
    except OSError as error:
        raise UsageError(f"cannot read the key {path}: {error.strerror}", code="MW210") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UsageError(
            f"{path or KEY_VARIABLE} is not a private key in PEM format without a password; "
            "`openssl genpkey -algorithm ed25519` makes one",
            code="MW210",
        ) from None


def sign(payload: bytes, key: PrivateKeyTypes) -> str:
    """A statement in an envelope, signed; one line of a bundle.

    Raises:
        UsageError: The key is of a kind that cannot sign envelopes.
    """
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import Error
    from securesystemslib.signer import CryptoSigner

    envelope = Envelope(payload, _PAYLOAD_TYPE, {})
    try:
        envelope.sign(CryptoSigner(key))
    except (Error, ValueError) as error:
        raise UsageError(
            f"the key cannot sign: {error}; use an Ed25519 key", code="MW210"
        ) from None
    return json.dumps(envelope.to_dict(), separators=(",", ":"))


def write_bundle(path: Path, lines: Iterable[str]) -> Path:
    """Writes the statements about a file beside it; returns their path."""
    bundle = bundle_path(path)
    write_atomically(bundle, "".join(f"{line}\n" for line in lines).encode())
    return bundle


def read_public_key(path: Path) -> SSlibKey:
    """A public key in PEM format.

    Raises:
        UsageError: It cannot be read.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.exceptions import Error
    from securesystemslib.signer import SSlibKey

    try:
        return SSlibKey.from_crypto(load_pem_public_key(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"cannot read the key {path}: {error.strerror}", code="MW210") from None
    except (ValueError, TypeError, UnsupportedAlgorithm, Error):
        raise UsageError(
            f"{path} is not a public key in PEM format; `openssl pkey -pubout` makes one of a private key",
            code="MW210",
        ) from None


def read_bundle(path: Path) -> Iterator[Envelope]:
    """The envelopes of in-toto statements beside a file; other lines are skipped, as in-toto demands.

    Raises:
        ProvenanceError: The bundle cannot be read.
    """
    from securesystemslib.dsse import Envelope

    bundle = bundle_path(path)
    for line in read_lines(bundle) if bundle.exists() else ():
        try:
            envelope = Envelope.from_dict(json.loads(line))
        # Whatever a line holds that is not an envelope: text, a list, wrong fields, wrong base64.
        except Exception:  # noqa: BLE001, S112
            continue
        if envelope.payload_type == _PAYLOAD_TYPE:
            yield envelope


def read_lines(bundle: Path) -> list[bytes]:
    """The lines of a file with statements or bundles.

    Raises:
        ProvenanceError: It cannot be read, or is larger than any.
    """
    try:
        with bundle.open("rb") as file:
            content = file.read(_LARGEST_BUNDLE + 1)
    except OSError as error:
        raise ProvenanceError(f"cannot read {bundle}: {error.strerror}") from None
    if len(content) > _LARGEST_BUNDLE:
        raise ProvenanceError(f"{bundle.name} is larger than {size_text(_LARGEST_BUNDLE)}")
    return content.splitlines(keepends=True)


def signed_by(envelope: Envelope, key: Any) -> bool:
    """Whether one of an envelope's signatures is by this key."""
    from securesystemslib.exceptions import Error

    # Not `Envelope.verify`: it selects keys by their id, which DSSE defines as an unauthenticated
    # hint, and other tools compute it in another way.
    for signature in envelope.signatures.values():
        try:
            key.verify_signature(signature, envelope.pae())
        except Error:
            continue
        return True
    return False
