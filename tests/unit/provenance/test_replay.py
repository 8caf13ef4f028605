"""Tracing a wheel to its source, as far as that goes without TensorFlow."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.assembly.manifest import Manifest
from modelwheel.engine.reporting import SilentReporter
from modelwheel.errors import ReplayError
from modelwheel.provenance.replay import Link, choose_store, require_whole, trace
from modelwheel.spec import load_spec
from modelwheel.store.store import Store
from modelwheel.store.upkeep.garbage import list_entries
from modelwheel.wheelfile.contents import open_contents
from tests.support.described import describe, wheel_files, write_wheel
from tests.support.sandboxes import NONE


def follow(manifest: Manifest, directory: Path, spec: Path | None = None) -> dict[str, Link]:
    contents = open_contents(write_wheel(directory, wheel_files(manifest)))
    links = trace(contents, Store(directory / "cache"), NONE, SilentReporter(), spec)
    return {link.name: link for link in links}


@pytest.mark.parametrize(
    ("source", "state", "found"),
    [
        ({"kind": "git", "url": "ext::sh -c true"}, "unchecked", "pass the spec with --spec"),
        ({"kind": "git", "url": "https://u:secret@example.org/a"}, "broken", "credentials"),
        ({"kind": "git", "url": "--upload-pack=touch x"}, "unchecked", "pass the spec with --spec"),
        ({"kind": "git", "url": "file:///nowhere", "commit": "main"}, "broken", "a branch or a tag"),
        ({"kind": "git", "url": "../data"}, "unchecked", "pass the spec with --spec"),
        ({"kind": "archive", "url": "file:///nowhere.zip", "sha256": "0" * 64}, "broken", "nowhere"),
        ({"kind": "zenodo", "zenodo": "10.1/x", "file": "m.onnx", "sha256": "0" * 64}, "broken", "not a DOI"),
        ({"kind": "pypi", "url": "pkg:pypi/a@1", "sha256": "0" * 64}, "broken", "not a version of a package"),
        ({"kind": "later", "url": "https://example.org/a"}, "unchecked", "pass the spec with --spec"),
        ({"kind": "directory"}, "unchecked", "pass the spec with --spec"),
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


def test_recompiling_uses_an_empty_store_that_vanishes(store: Store) -> None:
    with choose_store(store, recompile=True) as empty:
        (empty.keep_directory() / "file").write_text("")
        root = empty.root
        assert list_entries(empty) == []
    assert not root.exists()
