"""What is read from wheels and source distributions, and whether they agree with themselves."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import pty
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modelwheel.assembly.manifest import File, Manifest
from modelwheel.assembly.sbom import template
from modelwheel.errors import ReplayError, WheelError
from modelwheel.provenance.consistency import (
    BrokenLinkError,
    UncheckedLinkError,
    check_files,
    check_manifests,
)
from modelwheel.provenance.rebuild import compare_rebuilt
from modelwheel.provenance.replay import Link, choose_store, require_whole, trace
from modelwheel.source.fetch import tree_digest
from modelwheel.spec import load_spec
from modelwheel.store.garbage import list_entries
from modelwheel.store.store import Store
from modelwheel.util.files import FileDigest
from modelwheel.wheelfile.contents import Contents, open_contents
from tests.support.commands import Modelwheel
from tests.support.index_wheels import COMMIT, make_manifest

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


# --- reading --------------------------------------------------------------------------------------


def test_a_wheel_is_read(tmp_path: Path) -> None:
    contents = open_wheel(tmp_path)
    assert contents.kind == "wheel"
    assert contents.metadata.name == "model-a"
    assert contents.manifests == (describe(),)
    assert contents.files["model_a/_reference.npz"] == FileDigest(digest(b"rows"), 4)
    told = contents.summary()
    assert told["model_card"] == CARD
    assert told["requires"] == ["numpy>=1.26"]
    (bill,) = told["sboms"].values()
    assert bill["bomFormat"] == "CycloneDX"
    json.dumps(told)


def test_a_source_distribution_is_read(tmp_path: Path) -> None:
    contents = open_contents(write_sdist(tmp_path, sdist_files()))
    assert contents.kind == "sdist"
    assert [manifest.platform for manifest in contents.manifests] == ["linux-x86_64", "macos-arm64"]
    assert len(contents.summary()["sboms"]) == 2
    assert check_files(contents) == "5 files match their hashes in SHA256SUMS"
    assert check_manifests(contents).startswith("4 files are those that the manifest names")


def test_what_cannot_be_read(tmp_path: Path) -> None:
    def refuse(name: str, content: bytes | None) -> str:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(WheelError) as caught:
            open_contents(tmp_path / name)
        return str(caught.value)

    assert "No such file" in refuse("absent-1-py3-none-any.whl", None)
    assert "is neither a wheel" in refuse("model.zip", b"")
    assert "Invalid wheel filename" in refuse("a.whl", b"")
    assert "is not a valid wheel" in refuse("model_a-1-py3-none-any.whl", b"PK but no more")
    assert "is not a valid source distribution" in refuse("a.tar.gz", b"\x1f\x8b but no more")
    whole = write_wheel(tmp_path, wheel_files(describe())).read_bytes()
    assert "is not a valid wheel" in refuse("model_a-2-py3-none-any.whl", whole[:-50])


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, wheel_files(describe()))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("model_a/_reference.npz", b"others")
    with pytest.raises(WheelError, match=r"contains model_a/_reference\.npz twice"):
        open_contents(path)


def test_a_wheel_of_something_else(tmp_path: Path) -> None:
    contents = open_wheel(tmp_path, _manifest_json=None, cdx_json=None)
    with pytest.raises(WheelError, match="has no model manifest"):
        contents.summary()
    with pytest.raises(WheelError, match="has no SBOM"):
        contents.require_sboms()


def test_what_a_file_says_gives_no_orders_to_the_terminal(tmp_path: Path) -> None:
    evil = METADATA.replace("emphasis", "emphasis\x1b]0;title\x07\x9b31m").encode()
    path = open_wheel(tmp_path, METADATA=evil).path
    shown = Modelwheel(tmp_path / "cache")("inspect", path).out
    assert "*emphasis" in shown  # plain text, as it lies there
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_a_terminal_gets_the_card_rendered(tmp_path: Path) -> None:
    path = open_wheel(tmp_path).path
    keyboard, screen = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-m", "modelwheel", "inspect", str(path)]
    with subprocess.Popen(command, stdout=screen, env=environment) as process:
        os.close(screen)
        shown = b""
        while True:
            try:
                part = os.read(keyboard, 65536)
            except OSError:  # Linux's way to tell that nobody writes any more
                break
            if not part:
                break
            shown += part
    os.close(keyboard)
    assert process.returncode == 0
    text = shown.decode()
    assert "*emphasis*" not in text
    assert "\x1b[3memphasis" in text


# --- agreement ------------------------------------------------------------------------------------


def test_a_wheel_that_agrees_with_itself(tmp_path: Path) -> None:
    contents = open_wheel(tmp_path)
    assert check_files(contents) == "5 files match their hashes in RECORD"
    assert "agree with it" in check_manifests(contents)


def broken(contents: Contents, *, files: bool = False) -> str:
    with pytest.raises(BrokenLinkError) as caught:
        (check_files if files else check_manifests)(contents)
    return str(caught.value)


def test_a_record_that_does_not_fit(tmp_path: Path) -> None:
    files = wheel_files(describe())

    def listed(others: Mapping[str, bytes]) -> Contents:
        return open_contents(write_wheel(tmp_path, files, record(others)))

    name = "model_a/_reference.npz"
    assert f"{name} differs from the hash or size in RECORD" in broken(
        listed({**files, name: b"Rows"}), files=True
    )
    assert "model_a/b is listed in RECORD and missing" in broken(
        listed({**files, "model_a/b": b""}), files=True
    )
    fewer = {k: v for k, v in files.items() if k != name}
    assert f"{name} is not listed in RECORD" in broken(listed(fewer), files=True)
    with pytest.raises(WheelError, match="has a md5 hash instead of sha256"):
        check_files(open_contents(write_wheel(tmp_path, files, b"a,md5=abc,1")))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"METADATA": METADATA.replace("1.0.0", "1.0.1").encode()}, "the metadata tell of model-a 1.0.1"),
        ({"METADATA": METADATA.replace("CC-BY-4.0", "MIT").encode()}, "Apache-2.0 AND MIT"),
        ({"_reference_npz": b"Rows"}, "_reference.npz is missing or is not the file"),
        ({"_reference_npz": None}, "_reference.npz is missing"),
        ({"_so": b"\x7fELF of another model"}, "libmodel_a.so tells something else"),
        ({"_so": None}, "holds no library of model_a"),
        ({"cdx_json": None}, "holds 0 bills of materials"),
    ],
)  # fmt: skip
def test_what_contradicts_the_manifest(
    tmp_path: Path, changes: dict[str, bytes | None], named: str
) -> None:
    assert named in broken(open_wheel(tmp_path, **changes))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"value": "serving_default"', '"value": "other"', "properties"),
        (f'"uid": "{COMMIT}"', f'"uid": "{"f" * 40}"', "pedigree.commits[0].uid"),
        ('"CC-BY-4.0"', '"CC0-1.0"', "licenses"),
        ('"scope": "excluded"', '"scope": "required"', "scope"),
        ('"specVersion": "1.6"', '"specVersion": "1.6", "more": 1', "the whole"),
    ],
)
def test_a_bill_of_materials_that_says_something_else(
    tmp_path: Path, old: str, new: str, place: str
) -> None:
    text = fill(template(describe()))
    assert old in text
    found = broken(open_wheel(tmp_path, cdx_json=text.replace(old, new, 1).encode()))
    assert "says something else than the manifest" in found
    assert place in found


def test_a_manifest_whose_tree_is_not_that_of_its_files(tmp_path: Path) -> None:
    manifest = describe()
    files = (File(path="saved_model.pb", sha256=digest(b"other"), size=5),)
    origin = manifest.provenance.model_copy(update={"files": files})
    changed = manifest.model_copy(update={"provenance": origin})
    contents = open_contents(write_wheel(tmp_path, wheel_files(changed)))
    assert "tree hash is not that of the files" in broken(contents)


# --- tracing, as far as it goes without TensorFlow --------------------------------------------------


class Silent:
    """A reporter that says nothing."""

    def planned(self, names: Any) -> None: ...
    def started(self, name: str) -> None: ...
    def finished(self, name: str, seconds: float, *, cached: bool) -> None: ...
    def failed(self, name: str, error: Any) -> None: ...
    def findings(self, name: str, findings: Any) -> None: ...


def follow(manifest: Manifest, directory: Path, spec: Path | None = None) -> dict[str, Link]:
    contents = open_contents(write_wheel(directory, wheel_files(manifest)))
    links = trace(contents, Store(directory / "cache"), Silent(), spec)
    return {link.name: link for link in links}


@pytest.mark.parametrize(
    ("source", "state", "found"),
    [
        ({"kind": "git", "url": "ext::sh -c true"}, "unchecked", "name that with --spec"),
        ({"kind": "git", "url": "https://u:secret@example.org/a"}, "broken", "credentials"),
        ({"kind": "git", "url": "--upload-pack=touch x"}, "unchecked", "name that with --spec"),
        ({"kind": "git", "url": "file:///nowhere", "commit": "main"}, "broken", "a branch or a tag"),
        ({"kind": "git", "url": "../data"}, "unchecked", "name that with --spec"),
        ({"kind": "archive", "url": "file:///nowhere.zip", "sha256": "0" * 64}, "broken", "nowhere"),
        ({"kind": "directory"}, "unchecked", "name that with --spec"),
    ],
)  # fmt: skip
def test_the_source_that_a_manifest_names(
    tmp_path: Path, source: dict[str, str], state: str, found: str
) -> None:
    link = follow(describe(**source), tmp_path)["SavedModel <- source"]
    assert (link.state, found in link.found) == (state, True), link.found


def test_a_spec_is_found_by_its_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model_specs").mkdir()
    (tmp_path / "model_specs" / "broken.yaml").write_text("model: [")
    spec = tmp_path / "model_specs" / "a.yaml"
    spec.write_text("model: {name: a, version: '1.0.0'}\nsource: {directory: model}\n")
    manifest = describe(kind="directory")
    assert follow(manifest, tmp_path)["manifest <- spec"].state == "unchecked"
    origin = manifest.provenance.model_copy(update={"spec_sha256": load_spec(spec).spec_digest()})
    links = follow(manifest.model_copy(update={"provenance": origin}), tmp_path)
    assert links["manifest <- spec"].state == "ok"
    assert links["SavedModel <- source"].state == "broken"
    assert "there is no directory" in links["SavedModel <- source"].found


def test_broken_links_make_an_error_that_names_them() -> None:
    ok, unknown = Link("a", "ok", "fine"), Link("b", "unchecked", "who knows")
    path = Path("x.whl")
    require_whole([(path, [ok, unknown])])
    with pytest.raises(ReplayError, match=r"x\.whl does not follow from its sources: c: wrong"):
        require_whole([(path, [ok, unknown, Link("c", "broken", "wrong")])])


def test_recompiling_uses_an_empty_store_that_vanishes() -> None:
    with choose_store(recompile=True) as store:
        (store.keep_directory() / "file").write_text("")
        root = store.root
        assert list_entries(store) == []
    assert not root.exists()


# --- building again, as far as it goes without a compiler -------------------------------------------


def rebuild_elsewhere(directory: Path, weights: bytes) -> str:
    """What is said of a wheel for another platform, whose library should hold these weights."""
    manifest = describe().model_copy(update={"platform": "windows-amd64"})
    files = wheel_files(manifest)
    files["model_a/lib/libmodel_a.so"] += b"the weights"
    contents = open_contents(write_wheel(directory, files))
    (directory / "project" / "weights").mkdir(parents=True)
    (directory / "project" / manifest.weights).write_bytes(weights)
    store = Store(directory / "cache")
    return compare_rebuilt(contents, store.publish("0" * 64, directory / "project"), store)


def test_a_wheel_for_another_platform_is_not_built_again(tmp_path: Path) -> None:
    with pytest.raises(UncheckedLinkError, match="is for windows-amd64 and this is"):
        rebuild_elsewhere(tmp_path, b"the weights")


def test_weights_of_another_model(tmp_path: Path) -> None:
    with pytest.raises(BrokenLinkError, match="does not hold the weights"):
        rebuild_elsewhere(tmp_path, b"other weights")
