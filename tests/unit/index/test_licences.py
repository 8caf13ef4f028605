"""Wheels whose weights nobody may use are not published, and their spec has a warning before."""

from __future__ import annotations

from pathlib import Path

import pytest

from modelwheel.assembly.manifest import Manifest
from modelwheel.index.plan import Rules, make_plan
from modelwheel.packaging.readme import readme_context
from tests.support.commands import Modelwheel
from tests.support.index_wheels import make_manifest, make_sdist, make_wheel
from tests.support.indexes import make_wheel as make_module


class Empty:
    """An index without anything."""

    url = "http://127.0.0.1/"

    def files(self, project: str) -> None:  # noqa: ARG002
        return None

    def sha256(self, file: object) -> str:
        raise AssertionError(file)


def reasons(*paths: Path, rules: Rules | None = None) -> list[str]:
    planned = make_plan(paths, Empty.url, Empty(), rules or Rules())
    return [file.reason for file in planned.files]


def _classifiers(manifest: Manifest) -> list[str]:
    (found,) = [v for name, v in readme_context([manifest]).items() if name == "classifiers"]
    assert isinstance(found, list)
    return found


def test_the_licence_of_the_weights_must_be_stated(tmp_path: Path) -> None:
    manifest = make_manifest("digits")
    model = manifest.model.model_copy(update={"weights_license": None})
    unknown = make_wheel(tmp_path, "digits", manifest=manifest.model_copy(update={"model": model}))
    sdist = make_sdist(tmp_path, "digits", weights_license=None)
    for reason in reasons(unknown, sdist):
        assert reason.startswith("does not state the licence of the weights: set package.weights_")
    assert reasons(make_wheel(tmp_path / "", "jet"), make_sdist(tmp_path, "jet")) == ["", ""]
    assert reasons(make_module(tmp_path, "anything")) == [""], "it is not a model"


def test_what_must_stay_here_is_refused(tmp_path: Path) -> None:
    manifest = make_manifest("digits")
    assert b"publish" not in manifest.to_json(), "wheels that may be released stay as they were"
    model = manifest.model.model_copy(update={"publish": False})
    private = manifest.model_copy(update={"model": model})
    assert Manifest.parse(private.to_json(), "manifest").model.publish is False
    (reason,) = reasons(make_wheel(tmp_path, "digits", manifest=private))
    assert reason == "its spec has `publish: false`: it is built and never released"
    added = {*_classifiers(private)} - {*_classifiers(manifest)}
    assert added == {"Private :: Do Not Upload"}, "PyPI refuses what has it"


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("", True),
        ("package: {weights_license: LicenseRef-Ours}", False),
        ("package: {publish: false}", False),
    ],
)
def test_the_author_is_warned(tmp_path: Path, line: str, *, warned: bool) -> None:
    spec = tmp_path / "digits.yaml"
    spec.write_text(
        f'model: {{name: digits, version: "1"}}\nsource: {{directory: model}}\n{line}\n'
    )
    done = Modelwheel(tmp_path / "cache")("check", "--spec-only", spec)
    assert done.out == "1 spec OK\n"
    assert ("digits.yaml: the licence of the weights is not stated, and" in done.err) is warned
