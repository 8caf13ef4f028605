"""Wheels and source distributions made by hand that agree with their own manifests, or almost."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from modelwheel.assembly.manifest import File, Manifest
from modelwheel.assembly.sbom import template
from modelwheel.source.fetch import tree_digest
from modelwheel.util.files import FileDigest
from modelwheel.wheelfile.contents import Contents, open_contents
from tests.support.index_wheels import make_manifest

INFO = "model_a-1.0.0.dist-info"
CARD = "# model-a\n\nWhat it does, with *emphasis*.\n"
METADATA = f"""\
Metadata-Version: 2.4
Name: model-a
Version: 1.0.0
Summary: What a does
License-Expression: Apache-2.0 AND CC-BY-4.0
Requires-Dist: numpy>=1.26

{CARD}"""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def describe(**source: str) -> Manifest:
    """A manifest that agrees with itself."""
    manifest = make_manifest("a")
    model_files = (File(path="saved_model.pb", sha256=digest(b"graph"), size=5),)
    tree = tree_digest({f.path: FileDigest(f.sha256, f.size) for f in model_files})
    origin = manifest.provenance.model_copy(
        update={
            "files": model_files,
            "tree_sha256": tree,
            "source": {**manifest.provenance.source, "path": "", **source, "tree_sha256": tree},
        }
    )
    reference = File(path="python/model_a/_reference.npz", sha256=digest(b"rows"), size=4)
    return manifest.model_copy(update={"provenance": origin, "files": (reference,)})


def fill(text: str) -> str:
    """A bill of materials as CMake would complete it."""
    text = re.sub(r"@MODEL_SBOM_\w+@", "1.2.3", text)
    return text.replace("@AT@", "@").replace("@HASH@", "#")


def wheel_files(manifest: Manifest) -> dict[str, bytes]:
    about = json.dumps(manifest.about(), sort_keys=True, separators=(",", ":"))
    return {
        "model_a/_manifest.json": manifest.model_dump_json().encode(),
        "model_a/_reference.npz": b"rows",
        "model_a/lib/libmodel_a.so": b"\x7fELF..." + about.encode() + b"\0...",
        f"{INFO}/METADATA": METADATA.encode(),
        f"{INFO}/sboms/model_a.cdx.json": fill(template(manifest)).encode(),
    }


def record(files: Mapping[str, bytes]) -> bytes:
    lines = [f"{INFO}/RECORD,,"]
    for name, content in files.items():
        code = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={code},{len(content)}")
    return "\n".join(lines).encode()


def write_wheel(directory: Path, files: Mapping[str, bytes], listed: bytes | None = None) -> Path:
    path = directory / "model_a-1.0.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{INFO}/RECORD", record(files) if listed is None else listed)
    return path


def open_wheel(directory: Path, **changes: bytes | None) -> Contents:
    """A wheel of `describe()`; files whose names end as a keyword says are exchanged or left out."""
    files = wheel_files(describe())
    for ending, content in changes.items():
        (name,) = [n for n in files if n.replace(".", "_").endswith(ending)]
        del files[name]
        if content is not None:
            files[name] = content
    return open_contents(write_wheel(directory, files))


def write_sdist(directory: Path, files: Mapping[str, bytes]) -> Path:
    path = directory / "model_a-1.0.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"model_a-1.0.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def sdist_files() -> dict[str, bytes]:
    files = {"python/model_a/_reference.npz": b"rows"}
    for platform in ("linux-x86_64", "macos-arm64"):
        manifest = describe().model_copy(update={"platform": platform})
        bill = template(manifest).encode()
        path = f"platforms/{platform}/sbom.cdx.json.in"
        own = (*manifest.files, File(path=path, sha256=digest(bill), size=len(bill)))
        text = manifest.model_copy(update={"files": own}).model_dump_json().encode()
        files |= {path: bill, f"platforms/{platform}/manifest.json": text}
    listed = "".join(f"{digest(content)}  {name}\n" for name, content in files.items())
    return {**files, "SHA256SUMS": listed.encode(), "PKG-INFO": METADATA.encode()}
