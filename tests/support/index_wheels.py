"""Wheels made by hand for the tests of the index: metadata, a manifest and a library of zeros."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from modelwheel.assembly.manifest import (
    Batching,
    Compiler,
    Manifest,
    Model,
    Provenance,
    Sizes,
    Variant,
    Verification,
)
from modelwheel.signature import Signature, Tensor
from modelwheel.spec.verification import Tolerance
from modelwheel.wheelfile.reports import (
    BENCH_SUFFIX,
    REPORT_SUFFIX,
    Comparison,
    Report,
    Timing,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TREE = "ab" * 32


def make_manifest(name: str, text: str = "", version: str = "1.0.0") -> Manifest:
    """A manifest with `text` at the end of every field that people or machines fill in freely."""
    identifier = name.replace("-", "_")
    return Manifest(
        platform="linux-x86_64",
        model=Model(
            name=name,
            identifier=identifier,
            module=f"model_{identifier}",
            distribution=f"model-{name}",
            version=version,
            namespace="tfaot_model",
            author=f"An Author{text}",
            description=f"What {name} does at length{text}",
            summary=f"What {name} does{text}",
            license=f"Apache-2.0{text}",
            weights_license=f"CC-BY-4.0{text}",
            license_files=(),
            urls={
                f"Paper{text}": f"https://example.org/{name}{text}",
                "Bad": f"javascript:alert(1){text}",
            },
            keywords=(f"keyword-{name}{text}",),
        ),
        signature=Signature(
            inputs=(_tensor(f"image{text}", (None, 8, 8, 1), 1), _tensor("points", (None, 2), 3)),
            outputs=(_tensor(f"scores{text}", (None, 10), 1),),
        ),
        batching=Batching(
            sizes=(1, 4),
            strategy="cheapest",
            rules=(),
            no_emulation_reason=f"rows depend on each other{text}" if text else None,
        ),
        levels=("x86-64", f"x86-64-v3{text}"),
        variants=tuple(
            _variant(level, rows) for level in ("x86-64", "x86-64-v3") for rows in (1, 4)
        ),
        weights="weights/0.bin",
        files=(),
        verification=Verification(
            seed=1,
            ranges={},
            rows=(1, 4),
            tolerances={"scores": Tolerance(atol=1e-5, rtol=1e-5)},
            reference_sha256="cd" * 32,
        ),
        compiler=Compiler(
            tensorflow=f"2.21.0{text}", modelwheel=f"0.1.0{text}", xla_flags={}, tf_xla_flags=()
        ),
        provenance=Provenance(
            spec_sha256=f"{'ef' * 32}{text}",
            source={
                "kind": f"git{text}",
                "url": f"https://example.org/data{text}",
                "commit": f"{COMMIT}{text}",
            },
            tree_sha256=f"{TREE}{text}",
            files=(),
            graphs={},
            signature_key=f"serving_default{text}",
        ),
        sizes=Sizes(weights=2000, machine_code=1000, saved_model=3000),
    )


def _tensor(name: str, shape: tuple[int | None, ...], rows: int) -> Tensor:
    identifier = re.sub(r"\W+", "_", name, flags=re.ASCII)
    return Tensor(name=name, c_name=identifier, dtype="float32", shape=shape, leading_per_row=rows)


def _variant(level: str, rows: int) -> Variant:
    return Variant(level=level, batch_size=rows, object="o", operations=1, bytes_moved=1, cost=1.0)


def make_record(files: Mapping[str, str], stem: str) -> str:
    """RECORD for these files, as installers verify it."""
    lines = []
    for name, text in files.items():
        digest = hashlib.sha256(text.encode()).digest()
        code = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        lines.append(f"{name},sha256={code},{len(text.encode())}")
    return "\n".join([*lines, f"{stem}.dist-info/RECORD,,", ""])


def make_wheel(
    directory: Path,
    name: str,
    text: str = "",
    *,
    version: str = "1.0.0",
    project: str = "",
    tag: str = "py3-none-any",
    requires: Sequence[str] = (),
    manifest: Manifest | None = None,
    main: str = "",
    bill: str = "",
) -> Path:
    """A wheel that pip installs; `project` is what METADATA and the file name call it."""
    project = project or f"model_{name.replace('-', '_')}"
    stem = f"{project}-{version}"
    content = (manifest or make_manifest(name, text, version)).model_dump_json()
    requirements = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    module = f"model_{name.replace('-', '_')}"
    files = {
        f"{module}/__init__.py": f"NAME = {name!r}\n",
        **({f"{module}/__main__.py": main} if main else {}),
        f"{module}/_manifest.json": content,
        f"{module}/lib/lib{module}.so": "\0" * 5000,
        f"{stem}.dist-info/METADATA": (
            f"Metadata-Version: 2.4\nName: {project}\nVersion: {version}\n"
            f"Requires-Python: <99,>=3.10\n{requirements}\n# A model\n"
        ),
        f"{stem}.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    if bill:
        files[f"{stem}.dist-info/sboms/{module}.cdx.json"] = bill
    files[f"{stem}.dist-info/RECORD"] = make_record(files, stem)
    path = directory / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(zipfile.ZipInfo(file), content)
    return path


_BACKEND = """\
import zipfile
def build_wheel(directory, config_settings=None, metadata_directory=None):
    name = "{stem}-py3-none-any.whl"
    with zipfile.ZipFile(f"{{directory}}/{{name}}", "w") as wheel:
        wheel.writestr("{module}/__init__.py", "NAME = 'built here'\\n")
        wheel.writestr("{stem}.dist-info/METADATA", open("PKG-INFO").read())
        wheel.writestr("{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr("{stem}.dist-info/RECORD", "")
    return name
"""


def make_sdist(directory: Path, name: str, version: str = "1.0.0", **changes: object) -> Path:
    """A source distribution that pip builds, without a compiler.

    Args:
        changes: Fields of the model in its manifest.
    """
    module = f"model_{name.replace('-', '_')}"
    stem = f"{module}-{version}"
    manifest = make_manifest(name, version=version)
    manifest = manifest.model_copy(update={"model": manifest.model.model_copy(update=changes)})
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: model-{name}\nVersion: {version}\nRequires-Python: >=3.8\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": _BACKEND.format(stem=stem, module=module),
        "platforms/linux-x86_64/manifest.json": manifest.model_dump_json(),
    }
    path = directory / f"{stem}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            member = tarfile.TarInfo(f"{stem}/{file}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def add_measurements(wheel: Path, text: str = "") -> None:
    """Puts a report and timings beside a wheel."""
    comparisons = tuple(
        Comparison(
            level=level + text,
            rows=rows,
            rule=f"{rows}:{rows}",
            output=f"scores{text}",
            absolute=error,
            relative=error,
            limit=1e-5,
            passed=True,
        )
        for level, rows, error in (
            ("x86-64", 1, 1e-6),
            ("x86-64", 4, 2.5e-6),
            ("x86-64-v3", 1, 4e-6),
        )
    )
    report = Report(passed=True, comparisons=comparisons, skipped={f"x86-64-v4{text}": "not here"})
    wheel.with_name(wheel.name + REPORT_SUFFIX).write_text(report.model_dump_json())
    timings = [
        Timing(level=f"x86-64-v3{text}", rows=rows, rule=f"{rows}:{rows}", nanoseconds=ns)
        for rows, ns in ((1, 16000.0), (4, 32000.0))
    ]
    dumped = ",".join(timing.model_dump_json() for timing in timings)
    wheel.with_name(wheel.name + BENCH_SUFFIX).write_text(f"[{dumped}]")


def make_wheels(directory: Path) -> Path:
    """Fills a new directory: two versions of one model, the newer one measured, and another model."""
    directory.mkdir()
    make_wheel(directory, "jet-tagger", version="0.9.0")
    add_measurements(make_wheel(directory, "jet-tagger", version="0.10.0"))
    make_wheel(directory, "digits")
    return directory
