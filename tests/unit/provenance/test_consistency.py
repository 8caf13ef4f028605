"""Whether a wheel agrees with its own list of hashes and manifest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from modelwheel.assembly.manifest import File
from modelwheel.assembly.sbom import template
from modelwheel.errors import WheelError
from modelwheel.provenance.consistency import (
    BrokenLinkError,
    check_files,
    check_manifests,
)
from modelwheel.wheelfile.contents import Contents, open_contents
from tests.support.described import (
    METADATA,
    describe,
    digest,
    fill,
    open_wheel,
    record,
    wheel_files,
    write_wheel,
)
from tests.support.index_wheels import COMMIT


def test_a_wheel_that_agrees_with_itself(tmp_path: Path) -> None:
    contents = open_wheel(tmp_path)
    assert check_files(contents) == "5 files with the hashes in RECORD"
    assert "match the manifest" in check_manifests(contents)


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
        ({"METADATA": METADATA.replace("1.0.0", "1.0.1").encode()}, "the metadata are of model-a 1.0.1"),
        ({"METADATA": METADATA.replace("CC-BY-4.0", "MIT").encode()}, "Apache-2.0 AND MIT"),
        ({"_reference_npz": b"Rows"}, "_reference.npz is missing or differs from the file"),
        ({"_reference_npz": None}, "_reference.npz is missing"),
        ({"_so": b"\x7fELF of another model"}, "libmodel_a.so describes another model"),
        ({"_so": None}, "has no library of model_a"),
        ({"cdx_json": None}, "has 0 SBOMs named model_a.cdx.json"),
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
        ('"specVersion": "1.6"', '"specVersion": "1.6", "more": 1', "the top level"),
    ],
)
def test_a_bill_of_materials_that_says_something_else(
    tmp_path: Path, old: str, new: str, place: str
) -> None:
    text = fill(template(describe()))
    assert old in text
    found = broken(open_wheel(tmp_path, cdx_json=text.replace(old, new, 1).encode()))
    assert "model_a.cdx.json differs from the manifest" in found
    assert place in found


def test_a_manifest_whose_tree_is_not_that_of_its_files(tmp_path: Path) -> None:
    manifest = describe()
    files = (File(path="saved_model.pb", sha256=digest(b"other"), size=5),)
    origin = manifest.provenance.model_copy(update={"files": files})
    changed = manifest.model_copy(update={"provenance": origin})
    contents = open_contents(write_wheel(tmp_path, wheel_files(changed)))
    assert "tree hash in the manifest differs" in broken(contents)
