"""An instance of Sigstore in memory: an authority, two logs, and the bundles that they make for workflows."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pypi_attestations import AttestationType

GITHUB = "https://token.actions.githubusercontent.com"
IN_TOTO = "application/vnd.in-toto+json"
SLSA = AttestationType.SLSA_PROVENANCE_V1.value
PUBLISH = AttestationType.PYPI_PUBLISH_V1.value
_FULCIO = "1.3.6.1.4.1.57264.1"
_SCT_LIST = "1.3.6.1.4.1.11129.2.4.2"
_ORIGIN = "log.test"


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _sign(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(SHA256()))


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else b"\x82" + struct.pack("!H", size)
    return bytes([tag]) + length + content


def make_statement(files: Sequence[Path], predicate: str = SLSA) -> bytes:
    """What a workflow states about files."""
    subject = [
        {"name": f.name, "digest": {"sha256": hashlib.sha256(f.read_bytes()).hexdigest()}}
        for f in files
    ]
    kind = "https://actions.github.io/buildtypes/workflow/v1"
    made = {"buildDefinition": {"buildType": kind}, "runDetails": {}} if predicate == SLSA else None
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": predicate,
        "predicate": made,
    }
    return json.dumps(statement).encode()


@dataclass
class Sigstore:
    """The instance."""

    authority: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)
    certificates: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)
    """The log of certificates."""
    signatures: ec.EllipticCurvePrivateKey = field(default_factory=_new_key)
    """The log of signatures."""

    def __post_init__(self) -> None:
        self._now = datetime.now(timezone.utc).replace(microsecond=0)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority.test")])
        public = self.authority.public_key()
        self._root = (
            self._builder(self._name, public, timedelta(days=365))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(ca=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.authority, SHA256())
        )

    def _builder(self, name: x509.Name, public: Any, valid: timedelta) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - timedelta(minutes=1))
            .not_valid_after(self._now + valid)
        )

    def write_trusted_root(self, path: Path) -> Path:
        """Its keys, as clients read them."""
        start = (self._now - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")

        def log(key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            public = {
                "rawBytes": _b64(_spki(key)),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": start},
            }
            return {
                "baseUrl": "http://127.0.0.1:9",
                "hashAlgorithm": "SHA2_256",
                "publicKey": public,
                "logId": {"keyId": _b64(_sha256(_spki(key)))},
            }

        chain = {"certificates": [{"rawBytes": _b64(self._root.public_bytes(Encoding.DER))}]}
        root = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self.signatures)],
            "ctlogs": [log(self.certificates)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "test", "commonName": "test"},
                    "uri": "http://127.0.0.1:9",
                    "certChain": chain,
                    "validFor": {"start": start},
                }
            ],
        }
        path.write_text(json.dumps(root))
        return path

    def attest(
        self, statement: bytes, identity: str, repository: str, issuer: str = GITHUB
    ) -> dict[str, Any]:
        """A bundle as workflows get it.

        Args:
            statement: What is signed.
            identity: The address of the workflow with its ref.
            repository: The address of the repository that it runs for.
            issuer: Who vouches for it.
        """
        key = _new_key()
        certificate = self._certify(key, identity, repository, issuer)
        signed = f"DSSEv1 {len(IN_TOTO)} {IN_TOTO} {len(statement)} ".encode() + statement
        signature = _b64(_sign(key, signed))
        envelope = {
            "payload": _b64(statement),
            "payloadType": IN_TOTO,
            "signatures": [{"sig": signature}],
        }
        body = {
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": {"algorithm": "sha256", "value": "00" * 32},
                "payloadHash": {"algorithm": "sha256", "value": _sha256(statement).hex()},
                "signatures": [
                    {
                        "signature": signature,
                        "verifier": _b64(certificate.public_bytes(Encoding.PEM)),
                    }
                ],
            },
        }
        der = _b64(certificate.public_bytes(Encoding.DER))
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": der},
                "tlogEntries": [self._log(json.dumps(body).encode())],
            },
            "dsseEnvelope": envelope,
        }

    def _certify(
        self, key: ec.EllipticCurvePrivateKey, identity: str, repository: str, issuer: str
    ) -> x509.Certificate:
        public, names = (
            key.public_key(),
            x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity)]),
        )
        builder = (
            self._builder(x509.Name([]), public, timedelta(minutes=10))
            .add_extension(_usage(ca=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key()),
                critical=False,
            )
            .add_extension(names, critical=True)
        )
        for number, text in (("8", issuer), ("12", repository)):
            value = _der(0x0C, text.encode())
            name = x509.ObjectIdentifier(f"{_FULCIO}.{number}")
            builder = builder.add_extension(x509.UnrecognizedExtension(name, value), critical=False)
        entry = builder.sign(self.authority, SHA256()).tbs_certificate_bytes
        sct = x509.UnrecognizedExtension(x509.ObjectIdentifier(_SCT_LIST), self._promise(entry))
        return builder.add_extension(sct, critical=False).sign(self.authority, SHA256())

    def _promise(self, entry: bytes) -> bytes:
        """The list of one signed certificate timestamp (RFC 6962, section 3.3)."""
        when = struct.pack("!Q", int(self._now.timestamp()) * 1000)
        issuer, size = _sha256(_spki(self.authority)), struct.pack("!I", len(entry))[1:]
        signed = b"\0\0" + when + b"\0\1" + issuer + size + entry + b"\0\0"
        signature = _sign(self.certificates, signed)
        log = _sha256(_spki(self.certificates))
        sct = b"\0" + log + when + b"\0\0\4\3" + struct.pack("!H", len(signature)) + signature
        listed = struct.pack("!H", len(sct)) + sct
        return _der(0x04, struct.pack("!H", len(listed)) + listed)

    def _log(self, body: bytes) -> dict[str, Any]:
        """The entry of a log of one signature, with the log's promise and proof."""
        key, when = _sha256(_spki(self.signatures)), int(self._now.timestamp())
        promised = {
            "body": _b64(body),
            "integratedTime": when,
            "logID": key.hex(),
            "logIndex": 0,
        }
        promise = json.dumps(promised, sort_keys=True, separators=(",", ":")).encode()
        root = _sha256(b"\0" + body)
        note = f"{_ORIGIN}\n1\n{_b64(root)}\n"
        signed = _b64(key[:4] + _sign(self.signatures, note.encode()))
        return {
            "logIndex": "0",
            "logId": {"keyId": _b64(key)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(when),
            "inclusionPromise": {
                "signedEntryTimestamp": _b64(_sign(self.signatures, promise)),
            },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _b64(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 {_ORIGIN} {signed}\n"},
            },
            "canonicalizedBody": _b64(body),
        }


def as_attestation(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """The same as package indexes serve it (PEP 740)."""
    material = bundle["verificationMaterial"]
    return {
        "version": 1,
        "verification_material": {
            "certificate": material["certificate"]["rawBytes"],
            "transparency_entries": material["tlogEntries"],
        },
        "envelope": {
            "statement": bundle["dsseEnvelope"]["payload"],
            "signature": bundle["dsseEnvelope"]["signatures"][0]["sig"],
        },
    }


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
