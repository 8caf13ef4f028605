"""What PyPI allows is said before hours of building, not by its refusal after them."""

from __future__ import annotations

from pathlib import Path

from modelwheel.index.client import IndexedFile
from modelwheel.index.plan import Rules, make_plan
from modelwheel.index.pypi import MAX_PROJECT_BYTES, UPLOAD_URL, is_pypi, warn_of_new_names
from tests.support.index_wheels import make_wheel


class Full:
    """An index whose only project has nearly all the bytes that it may have."""

    url = "http://127.0.0.1/"

    def files(self, project: str) -> dict[str, IndexedFile] | None:
        old = IndexedFile("http://127.0.0.1/old", "00", MAX_PROJECT_BYTES - 100)
        return {"old.whl": old} if project == "model-digits" else None

    def sha256(self, file: object) -> str:
        raise AssertionError(file)


def test_new_names_need_what_only_people_can_do() -> None:
    assert list(warn_of_new_names([])) == []
    (one,) = warn_of_new_names(["model-a"])
    assert one.startswith("new on PyPI: model-a. A workflow can only create a project that has a")
    _, several = warn_of_new_names(["model-a", "model-b"])
    assert several.startswith("2 new names: PyPI keeps one pending publisher for each (owner, ")
    *_, many = warn_of_new_names([f"model-{number}" for number in range(9)])
    assert "PyPI creates 4 projects a day for a user; spread them over 3 days" in many


def test_a_project_has_a_limit(tmp_path: Path) -> None:
    files = [make_wheel(tmp_path, "digits", version="2.0.0"), make_wheel(tmp_path, "jet")]
    rules = Rules(max_project_bytes=MAX_PROJECT_BYTES)
    planned = make_plan(files, Full.url, Full(), rules)
    assert planned.new_projects == ("model-jet",)
    (said,) = planned.refused
    assert said.startswith("model-digits would have 10.7 GB in all its versions; the index gives a")
    assert make_plan(files, Full.url, Full(), Rules()).refused == []


def test_which_addresses_are_of_pypi() -> None:
    assert is_pypi(UPLOAD_URL)
    assert not is_pypi("https://index.example.org/upload/")
