"""Wheels that did not pass verification: kept for inspection, and named so that nothing publishes them.

The version ends with `+unverified`, a local version (PEP 440), which package indexes refuse too, and the manifest has
the reason, so that another name hides nothing.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

from ..errors import WheelError
from ..util.text import one_line
from .wheel import MANIFEST, Wheel

LABEL = "unverified"
"""The local version of such a wheel."""


def require_verified(wheel: Wheel) -> None:
    """Refuses a wheel that was kept in spite of its verification.

    Raises:
        WheelError: It is such a wheel, whatever its name is.
    """
    if wheel.version.local == LABEL or (
        wheel.has_manifest and wheel.manifest.unverified is not None
    ):
        raise WheelError(
            f"{wheel.name} did not pass verification and was kept for inspection alone (--keep-unverified); build it "
            "again without that option",
            code="MW606",
        )


def mark_unverified(wheel: Wheel, reason: str, out: Path) -> Path:
    """Writes a copy of a wheel that says that it did not pass verification.

    Args:
        wheel: The wheel.
        reason: Why, as a sentence.
        out: The directory for the copy.

    Returns:
        Its path.
    """
    distribution, _, rest = wheel.name.partition("-")
    version, _, tags = rest.partition("-")
    new = f"{version}+{LABEL}"
    old_directory, directory = wheel.dist_info, f"{distribution}-{new}.dist-info"
    path = out / f"{distribution}-{new}-{tags}"
    manifest = wheel.manifest.model_copy(update={"unverified": one_line(reason)})
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in wheel.members:
            top, slash, inner = name.partition("/")
            if name == f"{old_directory}/RECORD":
                continue
            content = wheel.read(name)
            if name.endswith(f"/{MANIFEST}"):
                content = manifest.to_json()
            if name == f"{old_directory}/METADATA":
                # The first field of this name: the description follows the fields.
                before = f"\nVersion: {version}\n".encode()
                content = content.replace(before, f"\nVersion: {new}\n".encode(), 1)
            placed = f"{directory}{slash}{inner}" if top == old_directory else name
            archive.writestr(placed, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record.append(f"{placed},sha256={digest.decode()},{len(content)}")
        record.append(f"{directory}/RECORD,,")
        archive.writestr(f"{directory}/RECORD", "\n".join(record) + "\n")
    return path
