"""The gates that judge names, symbols, paths, size, metadata and contents: each on good and on bad wheels."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import lief
import pytest

from modelwheel.assembly.manifest import Sizes
from modelwheel.audit import audit_wheels
from tests.support.audited import (
    Recipe,
    ask,
    compile_extension,
    compile_library,
    make_wheel,
    rename,
    violations,
    zig,
)

TAGS = {
    "linux-x86_64": "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64",
    "linux-aarch64": "py3-none-manylinux_2_17_aarch64",
    "macos-arm64": "py3-none-macosx_11_0_arm64",
    "macos-x86_64": "py3-none-macosx_10_15_x86_64",
    "windows-amd64": "py3-none-win_amd64",
}
INFO = "model_tiny-1.0.0.dist-info"
CORE = "model_tiny/_core.cpython-311-x86_64-linux-gnu.so"
LIBRARY = "model_tiny/lib/libmodel_tiny.so"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A library without mistakes."""
    return compile_library(Recipe(), tmp_path_factory.mktemp("library"))


@pytest.fixture(scope="module")
def extension(library: bytes, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An extension without mistakes."""
    return compile_extension(library, tmp_path_factory.mktemp("extension"))


@pytest.fixture
def good(library: bytes, extension: bytes, tmp_path: Path) -> Path:
    """A wheel without mistakes."""
    return make_wheel(tmp_path, library, extension)


# --- whole wheels ---------------------------------------------------------------------------------


def test_a_wheel_without_mistakes_is_accepted(good: Path) -> None:
    (result,) = audit_wheels([good])
    assert result.error is None
    assert result.findings == ()
    assert result.accepted


@pytest.mark.parametrize("platform", [name for name in TAGS if name != "linux-x86_64"])
def test_wheels_of_other_platforms_are_accepted(platform: str, tmp_path: Path) -> None:
    library = compile_library(Recipe(platform), tmp_path)
    tag = TAGS[platform]
    (result,) = audit_wheels([make_wheel(tmp_path, library, platform=platform, tag=tag)])
    assert result.error is None
    assert result.findings == ()


def test_one_bad_wheel_does_not_keep_others_from_being_judged(good: Path, tmp_path: Path) -> None:
    broken = tmp_path / "model_x-1.0.0-py3-none-win_amd64.whl"
    broken.write_bytes(b"PK, but no more")
    misnamed = rename(good, "model.whl")
    results = audit_wheels([broken, misnamed, tmp_path / "none-1-py3-none-any.whl", good])
    assert [result.accepted for result in results] == [False, False, False, True]
    assert all(str(result.error).count("\n") == 0 for result in results[:3])
    assert "is not a valid wheel" in str(results[0].error)
    assert "restore the name" in str(results[1].error)


# --- tags -----------------------------------------------------------------------------------------


def refused_tags(library: bytes, directory: Path, tag: str, **options: object) -> list[str]:
    """What is refused in a wheel that holds a good library under another tag."""
    return violations("tags", make_wheel(directory, library, tag=tag, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tag", "complaint"),
    [
        ("py3-none-manylinux_2_17_aarch64", "is ELF for x86_64, but the wheel has the tag"),
        ("py3-none-macosx_11_0_arm64", "which requires Mach-O for aarch64"),
        ("py3-none-win_amd64", "which requires PE for x86_64"),
        ("py3-none-any", "has a platform tag that modelwheel does not support (any)"),
        ("py3-none-manylinux_2_17_ppc64le", "is for linux-x86_64, but the wheel has the tag"),
    ],
)
def test_the_platform_of_the_name_is_that_of_the_binaries(
    tag: str, complaint: str, library: bytes, tmp_path: Path
) -> None:
    assert any(complaint in sentence for sentence in refused_tags(library, tmp_path, tag))


def test_the_manifest_is_of_the_same_platform(library: bytes, tmp_path: Path) -> None:
    other = make_wheel(tmp_path, library, platform="linux-aarch64", tag=TAGS["linux-x86_64"])
    (sentence,) = violations("tags", other)
    assert sentence.startswith("model_tiny/_manifest.json: is for linux-aarch64")


def test_a_name_that_was_changed_by_hand_is_found(good: Path) -> None:
    renamed = rename(good, "model_tiny-1.0.0-cp312-cp312-manylinux_2_17_x86_64.whl")
    found = violations("tags", renamed)
    assert any(f"{INFO}/WHEEL: has the tags cp311-cp311-" in sentence for sentence in found)
    assert any(f"{CORE}: has a name that this wheel's Python does not import" in s for s in found)


@pytest.mark.parametrize(
    ("tag", "suffix"),
    [
        ("cp314-cp314t-manylinux_2_17_x86_64", ".cpython-314t-x86_64-linux-gnu.so"),
        ("cp310-cp310-manylinux_2_17_x86_64", ".cpython-310-x86_64-linux-gnu.so"),
        ("cp311-cp311-musllinux_1_2_x86_64", ".cpython-311-x86_64-linux-musl.so"),
    ],
)
def test_module_suffixes(
    tag: str, suffix: str, library: bytes, extension: bytes, tmp_path: Path
) -> None:
    assert (
        violations("tags", make_wheel(tmp_path, library, extension, tag=tag, suffix=suffix)) == []
    )
    other = make_wheel(tmp_path, library, extension, tag=tag, suffix=".cpython-39-x86_64-linux.so")
    (sentence,) = violations("tags", other)
    assert f"it looks for _core{suffix}" in sentence


def test_interpreter_and_abi_belong_together(
    library: bytes, extension: bytes, tmp_path: Path
) -> None:
    tag = "cp311-cp312-manylinux_2_17_x86_64"
    suffix = ".cpython-312-x86_64-linux-gnu.so"
    (sentence,) = violations(
        "tags", make_wheel(tmp_path, library, extension, tag=tag, suffix=suffix)
    )
    assert "whose interpreter and ABI do not match" in sentence


def test_the_shape_is_that_of_the_tag(library: bytes, extension: bytes, tmp_path: Path) -> None:
    shared = make_wheel(tmp_path, library, extension, tag=TAGS["linux-x86_64"])
    found = violations("tags", shared)
    assert any(
        "is for one version of Python, but the wheel has the tag py3-none" in s for s in found
    )
    assert any("does not require modelwheel-runtime" in s for s in found)
    alone = make_wheel(tmp_path, library, tag="cp311-cp311-manylinux_2_17_x86_64")
    found = violations("tags", alone)
    assert any("contains 0 extensions _core instead of one" in s for s in found)
    assert any("requires modelwheel-runtime in addition to its own extension" in s for s in found)
    empty = make_wheel(tmp_path, b"", extension)
    assert any("does not contain the library of model_tiny" in s for s in violations("tags", empty))


def test_a_wheel_with_machine_code_is_not_pure(good: Path, library: bytes, tmp_path: Path) -> None:
    tag = TAGS["linux-aarch64"]
    text = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n"
    changed = make_wheel(tmp_path, library, tag=tag, changes={f"{INFO}/WHEEL": text.encode()})
    found = violations("tags", changed)
    assert any(f"{INFO}/WHEEL: must have `Root-Is-Purelib: false`" in s for s in found)
    assert violations("tags", good) == []


def test_a_tag_that_promises_nothing_is_noted(
    library: bytes, extension: bytes, tmp_path: Path
) -> None:
    (note,) = ask("tags", make_wheel(tmp_path, library, extension, tag="cp311-cp311-linux_x86_64"))
    assert note.severity == "note"
    assert "run `auditwheel repair`" in note.text


def test_macos_is_not_younger_than_the_tag(tmp_path: Path) -> None:
    library = compile_library(Recipe("macos-arm64"), tmp_path)
    older = make_wheel(tmp_path, library, platform="macos-arm64", tag="py3-none-macosx_10_15_arm64")
    (sentence,) = violations("tags", older)
    assert "requires macOS 11.0, but the wheel has the tag macosx_10_15_arm64" in sentence
    assert "MACOSX_DEPLOYMENT_TARGET=10.15" in sentence


def stub(directory: Path, name: str, symbol: str, version: str = "") -> Path:
    """A shared library that defines one function, perhaps of some version."""
    source, out = directory / "stub.c", directory / name
    source.write_text(f"void {symbol}(void) {{}}\n")
    (directory / "stub.map").write_text(f"{version or 'NONE'} {{ global: {symbol}; local: *; }};\n")
    script = (f"-Wl,--version-script={directory / 'stub.map'}",) if version else ()
    zig("-target", "x86_64-linux-gnu.2.17", "-shared", "-nostdlib", "-fno-builtin", source,
        f"-Wl,-soname,{name}", *script, "-o", out)  # fmt: skip
    return out


def with_foreign(directory: Path, symbol: str, needed: Path | None) -> bytes:
    """A library that calls a function of another one."""
    link: list[str | Path] = ["-s", *([needed] if needed else [])]
    return compile_library(Recipe(defines={"FOREIGN": symbol}, link=link), directory)


def test_symbols_of_glibc_are_not_younger_than_the_tag(tmp_path: Path) -> None:
    libc = stub(tmp_path, "libc.so.6", "memcpy", "GLIBC_2.14")
    library = with_foreign(tmp_path, "memcpy", libc)
    old = "py3-none-manylinux_2_5_x86_64"
    (sentence,) = violations("tags", make_wheel(tmp_path, library, tag=old))
    assert f"{LIBRARY}: requires GLIBC_2.14 (memcpy), which manylinux_2_5_x86_64" in sentence
    new = make_wheel(tmp_path, library, tag="py3-none-manylinux_2_17_x86_64")
    assert violations("tags", new) == []


def test_glibc_and_musl_are_not_mixed(tmp_path: Path) -> None:
    libc = stub(tmp_path, "libc.so.6", "memcpy", "GLIBC_2.14")
    library = with_foreign(tmp_path, "memcpy", libc)
    musl = make_wheel(tmp_path, library, tag="py3-none-musllinux_1_2_x86_64")
    found = violations("tags", musl)
    assert any("requires libc.so.6, which systems with musl do not have" in s for s in found)
    assert any("requires symbols of glibc" in s for s in found)
    library = with_foreign(tmp_path, "memcpy", stub(tmp_path, "libc.so", "memcpy"))
    glibc = make_wheel(tmp_path, library, tag="py3-none-manylinux_2_17_x86_64")
    assert any(
        "requires libc.so, which systems with glibc do not have" in s
        for s in violations("tags", glibc)
    )
    musl = make_wheel(tmp_path, library, tag="py3-none-musllinux_1_2_x86_64")
    assert violations("tags", musl) == violations("symbols", musl) == []


# --- symbols --------------------------------------------------------------------------------------


@pytest.mark.parametrize("platform", ["linux-x86_64", "macos-arm64", "windows-amd64"])
def test_the_library_offers_its_interface_alone(platform: str, tmp_path: Path) -> None:
    recipe = Recipe(platform, defines={"SURPLUS": "1"}, exports="*")
    library = compile_library(recipe, tmp_path)
    wheel = make_wheel(tmp_path, library, platform=platform, tag=TAGS[platform])
    (sentence,) = violations("symbols", wheel)
    assert "exports surplus, which may collide" in sentence


def test_the_library_offers_all_of_its_interface(library: bytes, tmp_path: Path) -> None:
    header = b"MODELWHEEL_EXPORT int model_tiny_more(void);\n"
    name = "model_tiny/include/model_tiny.h"
    tag = TAGS["linux-x86_64"]
    (surplus, missing) = violations(
        "symbols", make_wheel(tmp_path, library, tag=tag, changes={name: header})
    )
    assert "exports model_tiny_run, model_tiny_sum" in surplus
    assert "does not export model_tiny_more" in missing


def test_the_extension_offers_one_function(library: bytes, tmp_path: Path) -> None:
    also = '__attribute__((visibility("default"))) int also(void) { return 1; }'
    script = tmp_path / "all.map"
    script.write_text("{ global: *; };\n")
    extension = compile_extension(library, tmp_path, f"-Wl,--version-script={script}", also=also)
    found = violations("symbols", make_wheel(tmp_path, library, extension))
    assert any(f"{CORE}: exports also" in sentence for sentence in found)


def test_every_symbol_has_an_owner(tmp_path: Path) -> None:
    library = with_foreign(tmp_path, "absent", None)
    (sentence,) = violations("symbols", make_wheel(tmp_path, library, tag=TAGS["linux-x86_64"]))
    assert "requires absent, which none of its libraries defines" in sentence


def test_only_libraries_of_every_system_are_needed(tmp_path: Path) -> None:
    library = with_foreign(tmp_path, "cblas", stub(tmp_path, "libopenblas.so.0", "cblas", "V_1"))
    (sentence,) = violations("symbols", make_wheel(tmp_path, library, tag=TAGS["linux-x86_64"]))
    assert "requires libopenblas.so.0, which not every system has" in sentence


@pytest.mark.parametrize("search", ["/opt/lib", "$ORIGIN/../../elsewhere", "lib"])
def test_libraries_are_looked_for_beside(search: str, library: bytes, tmp_path: Path) -> None:
    extension = compile_extension(library, tmp_path, f"-Wl,-rpath,{search}")
    (sentence,) = violations("symbols", make_wheel(tmp_path, library, extension))
    assert f"searches {search!r} for libraries" in sentence


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("-Wl,-z,norelro",), "has writable relocation tables"),
        (("-Wl,-z,lazy",), "binds functions lazily"),
    ],
)
def test_binaries_are_hardened(
    options: Sequence[str], complaint: str, library: bytes, tmp_path: Path
) -> None:
    extension = compile_extension(library, tmp_path, *options)
    found = violations("symbols", make_wheel(tmp_path, library, extension))
    assert any(f"{CORE}: {complaint}" in sentence for sentence in found)


def test_stacks_are_not_executable(library: bytes, extension: bytes, tmp_path: Path) -> None:
    binary = lief.ELF.parse(extension)
    assert binary is not None
    stack = binary.get(lief.ELF.Segment.TYPE.GNU_STACK)
    assert stack is not None
    stack.add(lief.ELF.Segment.FLAGS.X)
    binary.write(str(tmp_path / "changed.so"))
    changed = (tmp_path / "changed.so").read_bytes()
    found = violations("symbols", make_wheel(tmp_path, library, changed))
    assert any(f"{CORE}: requires an executable stack" in sentence for sentence in found)


def test_nothing_is_grafted(library: bytes, extension: bytes, tmp_path: Path) -> None:
    name = "model_tiny.libs/libgomp-a34b3233.so.1"
    found = violations("symbols", make_wheel(tmp_path, library, extension, changes={name: library}))
    assert f"{name}: was copied into the wheel by the repair; link it statically" in found
    assert any(f"{name}: is neither the model's library nor its extension" in s for s in found)


# --- paths, size ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/home/someone/model/src/x.cpp", "/tmp/pip-build-1/x.cpp", "/project/build/x.cpp",
     "/Users/runner/work/m/x.cpp", "D:\\a\\m\\x.cpp", "/github/workspace/x.cpp"],
)  # fmt: skip
@pytest.mark.parametrize("name", [LIBRARY, "model_tiny/lib/model_tiny.pc"])
def test_directories_of_the_building_machine_are_found(
    path: str, name: str, library: bytes, extension: bytes, tmp_path: Path
) -> None:
    start = library if name == LIBRARY else b"prefix="
    changes = {name: start + b"\0" + path.encode() + b"\0"}
    (sentence,) = violations(
        "build paths", make_wheel(tmp_path, library, extension, changes=changes)
    )
    assert sentence.startswith(f"{name}: contains a path of the machine that built it ({path!r})")


def test_web_addresses_and_places_of_systems_are_no_build_directories(
    library: bytes, extension: bytes, tmp_path: Path
) -> None:
    text = b"https://example.org/home/page /usr/lib/libSystem.B.dylib ${prefix}/work/x a/tmp/b /dev/null"
    changes = {"model_tiny/notes.txt": text}
    assert ask("build paths", make_wheel(tmp_path, library, extension, changes=changes)) == []


def test_a_local_data_repository_is_noted(library: bytes, extension: bytes, tmp_path: Path) -> None:
    source = {"kind": "git", "url": "file:///home/data/repository"}
    changes = {"model_tiny/origin.txt": b"/home/data/repository@0123/model"}
    wheel = make_wheel(tmp_path, library, extension, source=source, changes=changes)
    notes = ask("build paths", wheel)
    assert [note.file for note in notes] == ["model_tiny/_manifest.json", "model_tiny/origin.txt"]
    assert {note.severity for note in notes} == {"note"}
    assert "a data repository that only exists on one machine" in notes[0].text


def test_the_size_is_explained_by_what_is_inside(
    library: bytes, extension: bytes, tmp_path: Path
) -> None:
    incompressible = {"model_tiny/noise.bin": random.Random(1).randbytes(650_000)}
    found = violations("size", make_wheel(tmp_path, library, extension, changes=incompressible))
    assert len(found) == 1
    assert "weights, machine code and 600 kB for the runtime add up to 603 kB" in found[0]
    assert "model_tiny/noise.bin" in found[0]
    sizes = Sizes(weights=100_000, machine_code=1000, saved_model=3000)
    explained = make_wheel(tmp_path, library, extension, changes=incompressible, sizes=sizes)
    assert violations("size", explained) == []


def test_a_wheel_fits_into_a_package_index(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modelwheel.audit.gates.size.INDEX_LIMIT", 1 << 10)
    (sentence,) = violations("size", good)
    assert "which leaves a margin below PyPI's 105 MB" in sentence
    assert "uncompressed weights 2 kB" in sentence


# --- conventions, completeness --------------------------------------------------------------------


def refused(
    gate: str,
    library: bytes,
    extension: bytes,
    directory: Path,
    changes: Mapping[str, bytes | None],
) -> list[str]:
    return violations(gate, make_wheel(directory, library, extension, changes=changes))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"model_tiny/__init__.pyc": b"x"}, "check-wheel-contents: W001: Wheel contains .pyc"),
        ({"tests/test_x.py": b"x"}, "check-wheel-contents: W005: Wheel contains common toplevel"),
        ({"model_tiny/a.txt": b"same", "model_tiny/b.txt": b"same"}, "W002: Wheel contains duplicate"),
        ({f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: model-tiny\nVersion: 1.0.0\n"},
         "twine check: `long_description_content_type` missing"),
    ],
)  # fmt: skip
def test_conventions_of_other_tools(
    changes: Mapping[str, bytes], complaint: str, library: bytes, extension: bytes, tmp_path: Path
) -> None:
    found = refused("conventions", library, extension, tmp_path, changes)
    assert any(complaint in sentence for sentence in found)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({f"{INFO}/licenses/LICENSE": None}, f"{INFO}/licenses/LICENSE: is missing, although METADATA"),
        ({f"{INFO}/sboms/model.cdx.json": None}, f"{INFO}/sboms: contains no CycloneDX SBOM"),
        ({f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: model-tiny\nVersion: 1.0.0\n"},
         f"{INFO}/METADATA: has no description"),
        ({f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: model-tiny\nVersion: 1.0.0\n"},
         f"{INFO}/METADATA: has no License-Expression"),
        ({f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: model-tiny\nVersion: 1.0.0\n"},
         f"{INFO}/METADATA: lists no licence file"),
        ({f"{INFO}/RECORD": b"model_tiny/__init__.py,sha256=AAAA,0\n"},
         "model_tiny/__init__.py: differs from the hash or size in RECORD"),
        ({f"{INFO}/RECORD": b"gone.py,sha256=AAAA,0\n"}, "gone.py: is listed in RECORD and missing"),
        ({f"{INFO}/RECORD": b""}, "model_tiny/__init__.py: is not listed in RECORD"),
    ],
)  # fmt: skip
def test_what_is_missing_is_found(
    changes: Mapping[str, bytes | None],
    complaint: str,
    library: bytes,
    extension: bytes,
    tmp_path: Path,
) -> None:
    found = refused("completeness", library, extension, tmp_path, changes)
    assert any(sentence.startswith(complaint) for sentence in found)
