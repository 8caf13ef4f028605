"""`modelwheel inspect` on real wheels: what it shows, and that it finds what was tampered with."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lief
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from modelwheel.errors import ReplayError
from modelwheel.util.words import size_text
from tests.support.commands import Modelwheel, run
from tests.support.wheels import HOST, LOWEST, SPECS, Built

pytestmark = pytest.mark.slow

BROKEN = ReplayError.exit_code
LINKS = (
    "files <- list of hashes",
    "files <- manifest",
    "manifest <- spec",
    "SavedModel <- source",
    "graphs <- SavedModel",
    "machine code <- graphs",
)


def replay(
    modelwheel: Modelwheel, file: Path, *options: str | Path, code: int = 0
) -> dict[str, tuple[str, str]]:
    """State and sentence of every link."""
    links = modelwheel("inspect", file, "--replay", "--json", *options, code=code).json["replay"]
    return {link["name"]: (link["state"], link["found"]) for link in links}


def tamper(
    wheel: Path, directory: Path, ending: str, change: Callable[[bytes], bytes], *, hide: bool
) -> Path:
    """A wheel with one changed file; `hide` changes RECORD accordingly."""
    copy = directory / wheel.name
    with zipfile.ZipFile(wheel) as old:
        files = {member.filename: old.read(member) for member in old.infolist()}
    (name,) = [name for name in files if name.endswith(ending)]
    original = files[name]
    files[name] = change(original)
    assert files[name] != original
    if hide:
        (record,) = [name for name in files if name.endswith("/RECORD")]
        files[record] = files[record].replace(_recorded(original), _recorded(files[name]))
    with zipfile.ZipFile(copy, "w") as new:
        for member, content in files.items():
            new.writestr(zipfile.ZipInfo(member), content)
    return copy


def _recorded(content: bytes) -> bytes:
    digest = hashlib.sha256(content).digest()
    return b"sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=")


def flip(text: bytes, replacement: bytes) -> Callable[[bytes], bytes]:
    """A change of one byte where `text` begins."""
    assert len(text) == len(replacement)

    def change(content: bytes) -> bytes:
        assert text in content
        return content.replace(text, replacement, 1)

    return change


def change_last_weight(content: bytes) -> bytes:
    place = content.rindex(b"\x7fELF") + len(content) // 3
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def change_code(content: bytes) -> bytes:
    """A change of one byte of machine code."""
    library = lief.parse(content)
    assert isinstance(library, lief.ELF.Binary)
    section = library.get_section(".text")
    assert section is not None
    place = section.offset + 64
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


# --- what is shown --------------------------------------------------------------------------------


def test_everything_is_shown(modelwheel: Modelwheel, built: Built) -> None:
    shown = modelwheel("inspect", built.wheel("options")).out
    for words in (
        "# model-options",
        "MIT AND CC-BY-4.0",
        "1, 4 (others are split into these, smallest)",
        "TensorFlow 2.21.0",
        "machine-learning-model",
        "pybind11",
        "model_options/_reference.npz",
    ):
        assert words in shown
    assert "\x1b" not in shown


def test_everything_is_there_for_machines(modelwheel: Modelwheel, built: Built) -> None:
    told = modelwheel("inspect", "--json", built.wheel("options")).json
    assert (told["name"], told["version"], told["kind"]) == ("model-options", "1.0.0", "wheel")
    assert told["license"] == "MIT AND CC-BY-4.0"
    assert told["model_card"].startswith("# model-options")
    (manifest,) = told["manifests"]
    assert manifest["platform"] == HOST
    assert any(name.endswith(".cdx.json") for name in told["sboms"])
    with zipfile.ZipFile(built.wheel("options")) as archive:
        assert set(told["files"]) == set(archive.namelist())


def test_the_program_of_a_wheel_is_its_steps(
    modelwheel: Modelwheel, built: Built, tmp_path: Path
) -> None:
    text = modelwheel("inspect", "--program", built.wheel("options")).out
    variants = built.manifest("options").variants
    assert text.count("\n\nprogram for ") == text.count("\nresult 0 = ") == len(variants)
    assert all(f", {v.level}, batch size {v.batch_size}\n" in text for v in variants)
    assert " = dot " in text
    # Another store does not have it.
    wheel = built.wheel("options")
    done = modelwheel("inspect", "--program", wheel, code=2, MODELWHEEL_CACHE_DIR=str(tmp_path))
    assert re.search(r"the store at .* has no program for .*; build the wheel here", done.err)


@pytest.mark.parametrize("name", SPECS)
def test_every_wheel_has_a_valid_bill_of_materials(
    modelwheel: Modelwheel, built: Built, name: str
) -> None:
    text = modelwheel("inspect", "--sbom", built.wheel(name)).out
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bom = json.loads(text)
    components = {component["bom-ref"]: component for component in bom["components"]}
    manifest = built.manifest(name)
    found = {p["name"]: p["value"] for p in components["model"]["properties"]}
    assert found["modelwheel:tree-sha256"] == manifest.provenance.tree_sha256
    objects = {c["name"]: c["hashes"][0]["content"] for c in components["xla"]["components"]}
    named = {file.path: file.sha256 for file in manifest.files}
    assert objects == {v.object: named[v.object] for v in manifest.variants}
    assert components["cxx-compiler"]["version"] in run("c++", "--version").out
    with zipfile.ZipFile(built.wheel(name)) as archive:
        (path,) = [n for n in archive.namelist() if n.endswith(".cdx.json")]
    assert path == f"{built.module(name)}-1.0.0.dist-info/sboms/{built.module(name)}.cdx.json"


def test_the_report_lies_beside_the_wheel(built: Built) -> None:
    wheel = built.wheel("options")
    report = json.loads(wheel.with_name(wheel.name + ".report.json").read_text())
    assert report == built.results["options"]["report"]


# --- tracing --------------------------------------------------------------------------------------


def test_every_link_of_a_wheel_holds(modelwheel: Modelwheel, built: Built) -> None:
    links = replay(modelwheel, built.wheel("options"), "--spec", built.spec("options"))
    assert {state for state, _ in links.values()} == {"ok"}
    assert tuple(links) == (*LINKS, "wheel <- machine code")
    size = built.wheel("options").stat().st_size
    assert links["wheel <- machine code"][1].startswith(f"same bytes: {size_text(size)}")


def test_without_the_spec_the_wheel_itself_is_checked(modelwheel: Modelwheel, built: Built) -> None:
    done = modelwheel("inspect", "--replay", built.wheel("options"))
    assert "2 links verified, 0 broken, 5 could not be checked here" in done.out
    assert "--spec" in done.out


def test_another_spec_is_refused(modelwheel: Modelwheel, built: Built) -> None:
    wheel, spec = built.wheel("options"), built.spec("kinds")
    links = replay(modelwheel, wheel, "--spec", spec, code=BROKEN)
    state, found = links["manifest <- spec"]
    assert state == "broken"
    assert "pass the spec as it was" in found


@pytest.mark.parametrize(
    ("ending", "change"),
    [
        ("libmodel_options.so", change_last_weight),
        ("_manifest.json", flip(b'"seed":', b'"Seed":')),
        ("model_options.cdx.json", flip(b"CycloneDX", b"CycloneDY")),
        ("METADATA", flip(b"Version: 1.0.0", b"Version: 1.0.1")),
    ],
)
def test_a_changed_byte_is_named(
    modelwheel: Modelwheel, built: Built, tmp_path: Path, ending: str, change: Any
) -> None:
    wheel = tamper(built.wheel("options"), tmp_path, ending, change, hide=False)
    done = modelwheel("inspect", "--replay", wheel, code=BROKEN)
    assert f"{ending} differs from the hash or size in RECORD" in done.err


@pytest.mark.parametrize(
    ("ending", "change", "link", "named"),
    [
        ("libmodel_options.so", change_last_weight, "wheel <- machine code", "libmodel_options.so"),
        ("_manifest.json", flip(b'"operations": ', b'"operations":1'), "machine code <- graphs",
         "variants"),
        ("_manifest.json", flip(b'"spec_sha256": "', b'"spec_sha256":"0'), "files <- manifest",
         "describes another model"),
        ("_manifest.json", flip(b'"tree_sha256": "', b'"tree_sha256":"0'), "files <- manifest",
         "tree hash"),
        ("cdx.json", flip(b"Apache-2.0", b"Apache-1.0"), "files <- manifest", "licenses"),
        ("_reference.npz", lambda content: content[:-1] + b"\1", "files <- manifest",
         "_reference.npz"),
        ("licenses/WEIGHTS", flip(b"may keep", b"may sell"), "files <- manifest", "WEIGHTS"),
    ],
)  # fmt: skip
def test_whoever_changes_the_list_of_hashes_too_is_found_out(
    modelwheel: Modelwheel,
    built: Built,
    tmp_path: Path,
    ending: str,
    change: Any,
    link: str,
    named: str,
) -> None:
    wheel = tamper(built.wheel("options"), tmp_path, ending, change, hide=True)
    links = replay(modelwheel, wheel, "--spec", built.spec("options"), code=BROKEN)
    assert links["files <- list of hashes"][0] == "ok"
    state, found = links[link]
    assert state == "broken"
    assert named in found


def test_a_changed_model_is_named(modelwheel: Modelwheel, built: Built, tmp_path: Path) -> None:
    shutil.copytree(built.directory / "unused_input", tmp_path / "unused_input")
    shutil.copytree(built.directory / "texts", tmp_path / "texts")
    spec = shutil.copy(built.spec("options"), tmp_path)
    path = tmp_path / "unused_input" / "saved_model.pb"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    links = replay(modelwheel, built.wheel("options"), "--spec", spec, code=BROKEN)
    state, found = links["SavedModel <- source"]
    assert state == "broken"
    assert "differs in saved_model.pb" in found
    assert links["wheel <- machine code"][0] == "unchecked"


# --- built again ----------------------------------------------------------------------------------


def test_a_wheel_built_again_has_the_same_bytes(modelwheel: Modelwheel, built: Built) -> None:
    wheel, spec = built.wheel("options"), built.spec("options")
    said = modelwheel("rebuild", "--use-cache", "--spec", spec, wheel).out
    assert said.startswith(f"{wheel.name}: same bytes: {size_text(wheel.stat().st_size)}")


def test_the_first_byte_that_differs_is_named(
    modelwheel: Modelwheel, built: Built, tmp_path: Path
) -> None:
    wheel = tamper(built.wheel("options"), tmp_path, "libmodel_options.so", change_code, hide=True)
    done = modelwheel("rebuild", "--use-cache", "--spec", built.spec("options"), wheel, code=BROKEN)
    assert re.search(
        r"first difference: model_options/lib/libmodel_options\.so, byte 0x[0-9a-f]+ \(\.text\): "
        r"0x[0-9a-f]{2} instead of 0x[0-9a-f]{2}",
        done.err,
    )


def test_what_cannot_be_built_again_is_an_error(modelwheel: Modelwheel, built: Built) -> None:
    done = modelwheel("rebuild", "--use-cache", built.wheel("options"), code=BROKEN)
    assert "cannot be built again here: manifest <- spec: no spec in model_specs/" in done.err


# --- back to a commit -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def repository(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository of data."""
    directory = tmp_path_factory.mktemp("data")
    shutil.copytree(built.directory / "mlp", directory / "models" / "mlp")
    git = ("git", "-C", directory, "-c", "user.name=A", "-c", "user.email=a@example.org")
    run("git", "init", "--quiet", directory)
    run(*git, "add", "models")
    run(*git, "commit", "--quiet", "--message", "A model")
    return directory


@pytest.fixture(scope="module")
def pinned(
    modelwheel: Modelwheel, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """The spec of a model in a commit, and its source distribution; compiling it was done before."""
    directory = tmp_path_factory.mktemp("pinned")
    commit = run("git", "-C", repository, "rev-parse", "HEAD").out.strip()
    spec = directory / "mlp.yaml"
    spec.write_text(
        f"model: {{name: mlp, version: '1.0.0'}}\n"
        f"source: {{git: 'file://{repository}', commit: {commit}, path: models/mlp}}\n"
        f"targets: [{LOWEST}]\ncompilation: {{batch_sizes: [1, 4]}}\n"
    )
    (result,) = modelwheel("compile", "--json", "--platform", HOST, "--out", directory, spec).json
    return spec, Path(result["sdist"])


def test_every_link_of_a_source_distribution_holds(
    modelwheel: Modelwheel, pinned: tuple[Path, Path]
) -> None:
    spec, sdist = pinned
    links = replay(modelwheel, sdist, "--spec", spec)
    assert {state for state, _ in links.values()} == {"ok"}
    assert tuple(links) == (*LINKS, "sdist <- machine code")
    assert "models/mlp at" in links["SavedModel <- source"][1]
    assert "# model-mlp" in modelwheel("inspect", sdist).out
    said = modelwheel("rebuild", "--spec", spec, sdist).out
    assert said.startswith(
        f"{sdist.name}: same bytes: {size_text(sdist.stat().st_size)}, packed again"
    )


def test_the_commit_is_found_without_the_spec(pinned: tuple[Path, Path], tmp_path: Path) -> None:
    """By what the manifest says, on a machine that has never seen it."""
    links = replay(Modelwheel(tmp_path / "cache"), pinned[1])
    assert links["manifest <- spec"][0] == "unchecked"
    assert links["SavedModel <- source"][0] == "ok"


def test_a_damaged_repository_is_named(
    pinned: tuple[Path, Path], repository: Path, tmp_path: Path
) -> None:
    blob = run("git", "-C", repository, "rev-parse", "HEAD:models/mlp/saved_model.pb").out.strip()
    path = repository / ".git" / "objects" / blob[:2] / blob[2:]
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(content[:30] + bytes([content[30] ^ 1]) + content[31:])
    try:
        links = replay(Modelwheel(tmp_path / "cache"), pinned[1], code=BROKEN)
    finally:
        path.write_bytes(content)
    state, found = links["SavedModel <- source"]
    assert state == "broken"
    assert str(repository) in found
