"""Wheels for the tests of `modelwheel audit`: real binaries of every platform, from C alone, in a second."""

from __future__ import annotations

import base64
import hashlib
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from modelwheel.assembly.manifest import Sizes
from modelwheel.audit import GATES, GateFinding
from modelwheel.audit.opened import open_wheel
from tests.support.commands import run
from tests.support.index_wheels import make_manifest

SOURCES = Path(__file__).parent

LINUX = "x86_64-linux-gnu.2.17"
TARGETS = {
    "linux-x86_64": LINUX,
    "linux-aarch64": "aarch64-linux-gnu.2.17",
    "macos-arm64": "aarch64-macos.11.0",
    "macos-x86_64": "x86_64-macos.10.15",
    "windows-amd64": "x86_64-windows-gnu",
}
"""zig's targets by platform; nothing but the files here is compiled or linked."""

_CPUS = {"x86_64": ("x86_64", "x86_64_v3"), "aarch64": ("generic", "generic+v8_2a+fullfp16")}
LEVELS = {
    "x86_64": ("x86-64", "x86-64-v3"),
    "aarch64": ("armv8-a", "armv8.2-a+fp16+dotprod"),
}

_EXPORTS = "{ global: %s; local: *; };\n"
_HARDENED = ("-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack")


@dataclass(frozen=True)
class Recipe:
    """How a library is compiled; a test changes one thing."""

    platform: str = "linux-x86_64"
    cpus: tuple[str, str, str] | None = None
    """Of the file that all levels share, the low and the high level's."""
    defines: Mapping[str, str] = field(default_factory=dict)
    """For all files."""
    low: Mapping[str, str] = field(default_factory=dict)
    high: Mapping[str, str] = field(default_factory=dict)
    link: Sequence[str | Path] = ("-s",)
    exports: str = "model_tiny_*"

    @property
    def architecture(self) -> str:
        return "aarch64" if "arm" in self.platform or "aarch64" in self.platform else "x86_64"


def zig(*arguments: str | Path) -> None:
    """Runs zig's C compiler."""
    run(sys.executable, "-m", "ziglang", "cc", *arguments)


def compile_library(recipe: Recipe, directory: Path) -> bytes:
    """Compiles and links the library of a model."""
    low, high = _CPUS[recipe.architecture]
    cpus = recipe.cpus or (low, low, high)
    names = dict(zip(("LOW", "HIGH"), map(_quoted, LEVELS[recipe.architecture]), strict=True))
    shared = {**names, **recipe.defines}
    objects = [
        _compile(recipe, "library", cpus[0], shared, directory),
        _compile(recipe, "low", cpus[1], {**shared, **recipe.low}, directory),
        _compile(recipe, "high", cpus[2], {**shared, **recipe.high}, directory),
    ]
    out = directory / "libmodel_tiny"
    target = ("-target", TARGETS[recipe.platform], "-shared", "-nostdlib")
    zig(*target, *objects, *_link_options(recipe, directory), *recipe.link, "-o", out)
    return out.read_bytes()


def _quoted(text: str) -> str:
    return f'"{text}"'


def _compile(
    recipe: Recipe, name: str, cpu: str, defines: Mapping[str, str], directory: Path
) -> Path:
    out = directory / f"{name}.o"
    out.write_bytes(_object(TARGETS[recipe.platform], name, cpu, tuple(defines.items())))
    return out


@cache
def _object(target: str, name: str, cpu: str, defines: tuple[tuple[str, str], ...]) -> bytes:
    """The object file of `library.c`, or of `level.c` for one level; many tests share most."""
    source = "library.c" if name == "library" else "level.c"
    options = ("-O2", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-fno-sanitize=undefined")
    macros = [f"-D{macro}={value}" for macro, value in defines]
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory) / "object.o"
        zig("-target", target, f"-mcpu={cpu}", *options, f"-DLEVEL={name}", *macros, "-c",
            SOURCES / source, "-o", out)  # fmt: skip
        return out.read_bytes()


def _link_options(recipe: Recipe, directory: Path) -> list[str]:
    if recipe.platform.startswith("macos"):
        (directory / "exports.txt").write_text(f"_{recipe.exports}\n")
        name = "-Wl,-install_name,@rpath/libmodel_tiny.dylib"
        return [f"-Wl,-exported_symbols_list,{directory / 'exports.txt'}", name]
    if recipe.platform.startswith("linux"):
        (directory / "exports.map").write_text(_EXPORTS % recipe.exports)
        script = f"-Wl,--version-script={directory / 'exports.map'}"
        return [script, "-Wl,-soname,libmodel_tiny.so", *_HARDENED]
    return []


def compile_extension(library: bytes, directory: Path, *options: str, also: str = "") -> bytes:
    """Compiles an extension for Linux on x86-64, linked to a library."""
    beside = directory / "libmodel_tiny.so"
    beside.write_bytes(library)
    script = directory / "extension.map"
    script.write_text(_EXPORTS % "PyInit__core")
    out = directory / "_core.so"
    search = () if any("rpath" in option for option in options) else ("-Wl,-rpath,$ORIGIN/lib",)
    zig(
        *("-target", LINUX, "-shared", "-nostdlib", "-O2", "-fPIC", "-fvisibility=hidden", "-s"),
        *(SOURCES / "extension.c", beside, f"-Wl,--version-script={script}", f"-DALSO={also}"),
        *("-Wl,--enable-new-dtags", *search, *_HARDENED, *options, "-o", out),
    )
    return out.read_bytes()


def _metadata(*, shared: bool) -> str:
    return (
        "Metadata-Version: 2.4\nName: model-tiny\nVersion: 1.0.0\nSummary: Tiny\n"
        "License-Expression: MIT\nLicense-File: LICENSE\nRequires-Python: >=3.10\n"
        + ("Requires-Dist: modelwheel-runtime\n" if shared else "")
        + "Description-Content-Type: text/markdown\n\n# Tiny\n\nA model.\n"
    )


_LIBRARY_PATHS = {"linux": "lib/libmodel_tiny.so", "macos": "lib/libmodel_tiny.dylib",
                  "windows": "model_tiny.dll"}  # fmt: skip


def make_wheel(
    directory: Path,
    library: bytes,
    extension: bytes | None = None,
    *,
    platform: str = "linux-x86_64",
    tag: str = "cp311-cp311-manylinux_2_17_x86_64",
    suffix: str = ".cpython-311-x86_64-linux-gnu.so",
    changes: Mapping[str, bytes | None] | None = None,
    sizes: Sizes | None = None,
    source: Mapping[str, str] | None = None,
) -> Path:
    """A wheel with everything that a release needs; `changes` replaces files, or removes them."""
    recipe, info = Recipe(platform), "model_tiny-1.0.0.dist-info"
    manifest = make_manifest("tiny").model_copy(
        update={
            "platform": platform,
            "levels": LEVELS[recipe.architecture],
            **({"sizes": sizes} if sizes else {}),
        }
    )
    if source is not None:
        provenance = manifest.provenance.model_copy(update={"source": dict(source)})
        manifest = manifest.model_copy(update={"provenance": provenance})
    files: dict[str, bytes | None] = {
        "model_tiny/__init__.py": b"",
        "model_tiny/_manifest.json": manifest.model_dump_json().encode(),
        f"model_tiny/{_LIBRARY_PATHS[platform.partition('-')[0]]}": library,
        "model_tiny/include/model_tiny.h": (SOURCES / "model_tiny.h").read_bytes(),
        f"{info}/METADATA": _metadata(shared=extension is None).encode(),
        f"{info}/WHEEL": _wheel_file(tag),
        f"{info}/licenses/LICENSE": b"Do as you like.\n",
        f"{info}/sboms/model.cdx.json": b'{"bomFormat": "CycloneDX"}',
    }
    if extension is not None:
        files[f"model_tiny/_core{suffix}"] = extension
    files.update(changes or {})
    return _pack(directory / f"model_tiny-1.0.0-{tag}.whl", files, info)


def _wheel_file(tag: str) -> bytes:
    python, abi, platforms = tag.split("-")
    tags = "".join(f"Tag: {python}-{abi}-{name}\n" for name in platforms.split("."))
    return f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\n{tags}".encode()


def _pack(path: Path, files: Mapping[str, bytes | None], info: str) -> Path:
    kept = {name: content for name, content in files.items() if content is not None}
    record = [
        f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in kept.items()
    ]
    if f"{info}/RECORD" not in files:
        kept[f"{info}/RECORD"] = "".join([*record, f"{info}/RECORD,,\n"]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in kept.items():
            archive.writestr(name, content)
    return path


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def rename(wheel: Path, name: str) -> Path:
    """The same file with another name."""
    return Path(shutil.copy(wheel, wheel.with_name(name)))


def ask(gate: str, wheel: Path) -> list[GateFinding]:
    """What one gate says."""
    return list(GATES[gate](open_wheel(wheel)))


def violations(gate: str, wheel: Path) -> list[str]:
    """What one gate refuses, in its words."""
    return [str(finding) for finding in ask(gate, wheel) if finding.severity == "violation"]
