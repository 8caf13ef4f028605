"""Signs records with Ed25519 (RFC 8032), and verifies their signatures.

The digest in a record shows damage, not malice: whoever can write a file can compute it. A signature
shows who wrote the record. It has two keys on purpose. With a shared secret (HMAC), everybody who can
verify a record can also forge one, so a pull request that reads the store of a release would have to
know the secret. Here it needs a public key only, which `modelwheel.toml` may hold.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import EnvironmentProblemError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEY_VARIABLE = "MODELWHEEL_STORE_KEY"
"""Names the file with the private key. Not the key itself: child processes inherit variables."""

# The DER form of every Ed25519 public key is these bytes and the 32 bytes of the key (RFC 8410).
_DER_PREFIX = bytes.fromhex("302a300506032b6570032100")
_KEY_BYTES = 32

# So that nothing else that the same key signs can be taken for a record.
_CONTEXT = b"modelwheel store record\0"


class Signer:
    """Holds a private key."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_key = _text(private.public_key().public_bytes_raw())
        """As `modelwheel.toml` lists it."""

    def __reduce__(self) -> tuple[object, ...]:
        # The private key never travels: whoever reads this has it in its own environment, or cannot sign.
        return _signer_of, (self.public_key,)

    def sign(self, body: bytes) -> dict[str, str]:
        """The signature of a record's canonical form, as the record holds it."""
        value = self._private.sign(_CONTEXT + body)
        return {"key": self.public_key, "value": base64.b64encode(value).decode()}


def verify(body: bytes, signature: object, trusted: Collection[str]) -> None:
    """Checks that one of the trusted keys signed a record.

    Raises:
        ValueError: It is not signed, by a key that is not trusted, or the signature is wrong.
    """
    if signature is None:
        raise ValueError("it is not signed")
    match signature:
        case {"key": str(key), "value": str(value)} if key in trusted:
            pass
        case _:
            raise ValueError("it is signed by a key that is not trusted")
    _require_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        decoded = base64.b64decode(value, validate=True)
        Ed25519PublicKey.from_public_bytes(_raw(key)).verify(decoded, _CONTEXT + body)
    except InvalidSignature:
        raise ValueError("its signature is wrong") from None


def find_signer(trusted: Collection[str]) -> Signer | None:
    """The signer whose key file the environment names; None if it names none.

    A variable that is set but empty is refused: a workflow that lost its secret would otherwise
    go on without signatures, and accept records without them.

    Raises:
        UsageError: The variable or its file is not usable, or the key is not a trusted one.
    """
    named = os.environ.get(KEY_VARIABLE)
    if named is None:
        return None
    if not named:
        raise UsageError(
            f"{KEY_VARIABLE} is set but empty; set it to the file of the private key, or unset it",
            code="MW210",
        )
    signer = _read(Path(named).expanduser())
    if signer.public_key not in trusted:
        raise UsageError(
            f"the key in {named} signs records that nobody would accept; add "
            f'"{signer.public_key}" to `trusted_keys` in section [store] of modelwheel.toml',
            code="MW210",
        )
    return signer


def _signer_of(public_key: str) -> Signer:
    """The signer of another process, with the key file of this one.

    Raises:
        UsageError: This process has no key file, or one with another key.
    """
    signer = find_signer([public_key])
    if signer is None:
        raise UsageError(
            f"this machine cannot sign records: set {KEY_VARIABLE} here, too, to the file of the key {public_key}",
            code="MW210",
        )
    return signer


def _read(path: Path) -> Signer:
    _require_cryptography()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        # As ssh does with its keys. Windows has other permissions than these.
        if os.name != "nt" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise UsageError(f"other users can read {path}; run `chmod 600 {path}`", code="MW210")
        private: object = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise UsageError(
            f"{KEY_VARIABLE}: cannot read {path}: {error.strerror}", code="MW210"
        ) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):  # their messages may quote the file
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise UsageError(
            f"{path} is not an Ed25519 private key without a password; make one with "
            f"`openssl genpkey -algorithm ed25519 -out {path}`",
            code="MW210",
        )
    return Signer(private)


def _raw(text: str) -> bytes:
    """The 32 bytes of a public key.

    Raises:
        ValueError: It is not one.
    """
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error:
        decoded = b""
    raw = decoded.removeprefix(_DER_PREFIX)
    if not decoded.startswith(_DER_PREFIX) or len(raw) != _KEY_BYTES:
        raise ValueError("not an Ed25519 public key")
    return raw


def _text(raw: bytes) -> str:
    return base64.b64encode(_DER_PREFIX + raw).decode()


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError:
        raise EnvironmentProblemError(
            "signed records of the store need the package cryptography: "
            "pip install 'modelwheel[build]'"
        ) from None
