"""The kinds of sources in a spec: what they take, and what they answer to mistakes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.spec.sources import (
    SOURCE_KINDS,
    DownloadSource,
    GitHubReleaseSource,
    PyPISource,
    ZenodoSource,
    source_of,
)
from tests.unit.spec.test_model import COMMIT, SHA256, is_refused, make, problems

PINNED: dict[str, dict[str, Any]] = {
    "git": {"git": "https://example.org/a.git", "commit": COMMIT, "path": "m.onnx"},
    "huggingface": {"huggingface": "owner/name", "commit": COMMIT, "path": "onnx/m.onnx"},
    "archive": {"archive": "https://example.org/a.tar.gz", "sha256": SHA256},
    "zenodo": {"zenodo": "10.5281/zenodo.42", "file": "m.onnx", "sha256": SHA256},
    "github_release": {
        "github_release": "owner/name",
        "tag": "v1.0",
        "asset": "m.onnx",
        "sha256": SHA256,
    },
    "pypi": {"pypi": "name==1.0", "sha256": SHA256, "path": "name/m.onnx"},
    "file": {"file": "https://example.org/m.onnx", "sha256": SHA256},
    "directory": {"directory": "../data", "path": "m.onnx"},
}
"""A source of each kind."""


@pytest.mark.parametrize("kind", SOURCE_KINDS)
def test_every_kind_is_known_by_its_key_and_found_again(kind: str) -> None:
    source = make(source=PINNED[kind]).source
    assert type(source) is SOURCE_KINDS[kind]
    assert source.model_format == ("saved_model" if kind == "archive" else "onnx")
    recorded = source.provenance("0" * 64)
    assert recorded["kind"] == kind
    found = source_of(recorded)
    assert found == (None if kind == "directory" else source)


@pytest.mark.parametrize("kind", sorted(SOURCE_KINDS.keys() - {"directory"}))
def test_every_kind_needs_its_pin(kind: str) -> None:
    pin = "commit" if "commit" in PINNED[kind] else "sha256"
    (line,) = problems(source={key: value for key, value in PINNED[kind].items() if key != pin})
    assert f"source.{pin}: is missing" in line


def test_a_source_of_two_kinds() -> None:
    (line,) = problems(source={**PINNED["zenodo"], "pypi": "a==1"})
    assert "has zenodo and pypi, but a model has one source. Keep one of them" in line


@pytest.mark.parametrize("scheme", ["https", "file", "s3", "gs"])
@pytest.mark.parametrize(("kind", "name"), [("file", "m.onnx"), ("archive", "m.zip")])
def test_addresses_of_downloads(scheme: str, kind: str, name: str) -> None:
    url = f"{scheme}://{'' if scheme == 'file' else 'bucket.example'}/a/{name}"
    assert not is_refused(source={kind: url, "sha256": SHA256})


@pytest.mark.parametrize("kind", ["file", "archive"])
@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/m.onnx",
        "ftp://example.org/m.onnx",
        "hf://owner/name/m.onnx",
        "data:text/plain,x",
        "m.onnx",
        "https://jo:pw@example.org/m.onnx",
        "https://example.org/m.onnx?token=x",
        "s3://bucket",
        "s3://key:secret@bucket/m.onnx",
        "s3://bucket/m.onnx?versionId=1",
        "gs:///m.onnx",
    ],
)
def test_other_schemes_are_refused(kind: str, url: str) -> None:
    assert is_refused(source={kind: url, "sha256": SHA256})


@pytest.mark.parametrize("name", ["m.tar.bz2", "m.tar", "m.7z", "m.tar.zst", "m.rar"])
@pytest.mark.parametrize("kind", ["file", "archive", "zenodo", "github_release", "pypi"])
def test_archives_that_are_not_read_are_refused_before_anything_is_fetched(
    kind: str, name: str
) -> None:
    field = {"zenodo": "file", "pypi": "file", "github_release": "asset"}.get(kind, kind)
    value = f"https://example.org/{name}" if field == kind else name
    (line,) = problems(source={**PINNED[kind], field: value})
    assert "Pack the model again as .tar.gz, .tar.xz or .zip" in line


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("zenodo", {"zenodo": "10.1000/182"}, "is not a DOI of Zenodo"),
        ("zenodo", {"file": "a/b.onnx"}, "does not name a file"),
        ("zenodo", {"path": "m.onnx"}, "is in an archive, and 'm.onnx' is none by its name"),
        ("file", {"path": "m.onnx"}, "Remove it: the file is the model"),
        ("file", {"file": "https://example.org/"}, "does not name a file"),
        ("file", {"beside": {"../w": SHA256}}, "`..`"),
        ("file", {"beside": {"w": "1"}}, "64 hexadecimal digits"),
        ("file", {"beside": {"m.onnx": SHA256}}, "is the model itself. Remove it"),
        ("file", {"file": "https://example.org/m.zip", "beside": {"w": SHA256}}, "is an archive"),
        ("github_release", {"github_release": "name"}, "is not a repository of GitHub"),
        ("github_release", {"github_release": "https://h/o/n/x"}, "is not a repository"),
        ("github_release", {"tag": "latest"}, "'latest' is not the tag of a release"),
        ("github_release", {"tag": "a b"}, "is not the tag of a release"),
        ("huggingface", {"huggingface": "name"}, "Write OWNER/NAME"),
        ("huggingface", {"huggingface": "https://huggingface.co/a/b"}, "Write OWNER/NAME"),
        ("huggingface", {"huggingface": "../x"}, "Write OWNER/NAME"),
        ("huggingface", {"commit": "main"}, "is a branch or a tag"),
        ("pypi", {"pypi": "name"}, "Pin one version, such as name==1.2.3"),
        ("pypi", {"pypi": "name>=1"}, "Pin one version"),
        ("pypi", {"pypi": "name==1.*"}, "'1.*' is not a version"),
        ("pypi", {"pypi": "-r x==1"}, "is not a version of a package"),
    ],
)
def test_mistakes_in_a_source(kind: str, fields: dict[str, Any], said: str) -> None:
    (line,) = problems(source={**PINNED[kind], **fields})
    assert said in line


def test_spellings_are_made_one() -> None:
    doi = make(source={**PINNED["zenodo"], "zenodo": "https://doi.org/10.5281/ZENODO.42"}).source
    assert isinstance(doi, ZenodoSource)
    assert doi.zenodo == "10.5281/zenodo.42"
    package = make(source={**PINNED["pypi"], "pypi": "Some_Name == 1.0.0-rc1"}).source
    assert isinstance(package, PyPISource)
    assert package.pypi == "some-name==1.0.0rc1"
    for text in ("https://github.com/owner/name.git", "owner/name"):
        release = make(source={**PINNED["github_release"], "github_release": text}).source
        assert isinstance(release, GitHubReleaseSource)
        assert release.shown == "https://github.com/owner/name/releases/download/v1.0/m.onnx"


@pytest.mark.parametrize(
    ("name", "is_archive"),
    [("m.zip", True), ("M.TAR.GZ", True), ("m.whl", True), ("m.keras", False), ("m.pt2", False)],
)
def test_what_is_an_archive_by_its_name(name: str, *, is_archive: bool) -> None:
    source = make(source={"file": f"https://example.org/{name}?x=1", "sha256": SHA256}).source
    assert isinstance(source, DownloadSource)
    assert source.is_archive == is_archive
    if is_archive:
        path = {"path": "a/m.onnx"}
        inside = make(source={"file": f"https://example.org/{name}", "sha256": SHA256, **path})
        assert inside.source is not None
        assert inside.source.model_format == "onnx"


@given(
    st.dictionaries(st.sampled_from(["kind", "url", "path", *SOURCE_KINDS]), st.text(max_size=40))
)
def test_a_recorded_source_is_checked_like_one_of_a_spec(recorded: dict[str, str]) -> None:
    from pydantic import ValidationError

    try:
        found = source_of(recorded)
    except ValidationError:
        return
    assert found is None or found.provenance("")["kind"] == recorded["kind"]
