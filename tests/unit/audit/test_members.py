"""The gate for members: a model's wheel has one package and its metadata, and nothing that other programs run."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from modelwheel.audit import audit_wheels
from tests.support.audited import make_wheel, violations

INFO = "model_tiny-1.0.0.dist-info"
PLACES = """[pkg_config]
model_tiny = model_tiny.lib.pkgconfig

[cmake.root]
model_tiny = model_tiny.lib.cmake.model_tiny

[modelwheel.models]
tiny = model_tiny
"""


def found(directory: Path, name: str, content: bytes = b"import os") -> list[str]:
    return violations("members", make_wheel(directory, b"", changes={name: content}))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("evil.pth", "is run whenever Python starts"),
        ("sitecustomize.py", "is not part of the package"),
        ("numpy/__init__.py", "is not part of the package"),
        ("model_tiny_more/__init__.py", "is not part of the package"),
        ("model_tiny.libs/libevil.so", "is not part of the package"),
        ("model_tiny-1.0.0.data/scripts/pip", "is installed outside the package"),
        ("model_tiny-1.0.0.data/purelib/evil.pth", "is installed outside the package"),
        ("model_tiny-1.0.0.data/data/etc/profile", "is installed outside the package"),
        (f"{INFO}/INSTALLER", "is not metadata that a model's wheel has"),
        (f"{INFO}/RECORD.jws", "is not metadata that a model's wheel has"),
        (f"{INFO}/direct_url.json", "is not metadata that a model's wheel has"),
    ],
)
def test_files_that_do_not_belong_there(tmp_path: Path, name: str, words: str) -> None:
    (sentence,) = found(tmp_path, name)
    assert sentence.startswith(f"{name}: {words}")


@pytest.mark.parametrize(
    "name",
    [
        "model_tiny/share/scram/tfaot-model-tiny.xml",
        "model_tiny/lib/pkgconfig/model_tiny.pc",
        f"{INFO}/licenses/third/NOTICE",
        f"{INFO}/sboms/auditwheel.cdx.json",
    ],
)
def test_files_of_our_own_wheels(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, name) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLACES, ""),
        ("[console_scripts]\npip = os:system\n", "has the entry point 'pip' = 'os:system' of"),
        (PLACES + "[pytest11]\nevil = model_tiny\n", "has the entry point 'evil' = 'model_tiny'"),
        (PLACES.replace("lib.pkgconfig", "evil"), "'model_tiny' = 'model_tiny.evil'"),
        (PLACES.replace("model_tiny =", "other ="), "has the entry point 'other'"),
        (
            PLACES.replace("tiny = model_tiny\n", "tiny = os\n"),
            "'tiny' = 'os' of 'modelwheel.models'",
        ),
        (PLACES.replace("\ntiny =", "\nother ="), "has the entry point 'other' = 'model_tiny'"),
        (PLACES.replace("tiny = model_tiny\n", "tiny = model_tiny:run\n"), "'model_tiny:run'"),
        (
            "[pkg_config]\nModel_Tiny = model_tiny.lib.pkgconfig\n",
            "has the entry point 'Model_Tiny'",
        ),
        ("no section", "cannot be read"),
        (PLACES + PLACES, "cannot be read"),
        ("[pkg_config]\nx: os\n", "cannot be read"),
    ],
)
def test_entry_points(tmp_path: Path, text: str, words: str) -> None:
    sentences = found(tmp_path, f"{INFO}/entry_points.txt", text.encode())
    assert bool(sentences) == bool(words)
    assert all(words in sentence for sentence in sentences[:1])


@pytest.mark.parametrize(
    ("requirement", "refused"),
    [
        ("numpy>=2", False),
        ("NumPy", False),
        ("modelwheel_runtime>=1,<2", False),
        ("evil", True),
        ("numpy @ https://example.org/numpy-9-py3-none-any.whl", True),
        ("evil; extra == 'more'", True),
    ],
)
def test_what_is_installed_with_it(tmp_path: Path, requirement: str, refused: bool) -> None:
    text = (
        f"Metadata-Version: 2.4\nName: model-tiny\nVersion: 1.0.0\nRequires-Dist: {requirement}\n"
    )
    assert bool(found(tmp_path, f"{INFO}/METADATA", text.encode())) is refused


def test_entry_points_that_are_no_text(tmp_path: Path) -> None:
    (sentence,) = found(tmp_path, f"{INFO}/entry_points.txt", b"\xff")
    assert "cannot be read" in sentence


def test_a_wheel_of_almost_nothing_but_zeros_is_refused_unread(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, b"")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model_tiny/zeros", bytes(100 << 20))
    (result,) = audit_wheels([path])
    assert "has 0.1 MB and unpacks to 105 MB, more than 32 times" in str(result.error)
    assert result.gates == ()


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        (b"model_tiny/\xff,sha256=x,1\n", "'utf-8' codec can't decode"),
        (b"x" * 200_000 + b",sha256=x,1\n", "field larger than field limit"),
    ],
)
def test_a_record_that_cannot_be_read(tmp_path: Path, listed: bytes, words: str) -> None:
    path = make_wheel(tmp_path, b"", changes={f"{INFO}/RECORD": listed})
    (sentence,) = violations("completeness", path)
    assert words in sentence
    for sentence in violations("conventions", path):
        assert "\n" not in sentence


def test_a_name_of_dots(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, b"").rename(tmp_path / "..-1.0-py3-none-any.whl")
    (result,) = audit_wheels([path])
    assert "restore the name that it was built with" in str(result.error)
