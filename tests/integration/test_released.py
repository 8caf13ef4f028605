"""Copies of what indexes hold: whole, as promised, with what was measured; and the newest that fits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.tags import parse_tag

from modelwheel.errors import PublishError, UsageError
from modelwheel.index.released import (
    download_files,
    find_newest,
    is_installable,
    list_wheels,
    open_index,
)
from modelwheel.index.site import write_site
from tests.support.commands import Modelwheel
from tests.support.index_wheels import make_wheel, make_wheels
from tests.support.indexes import make_wheel as make_module
from tests.support.site_server import Served, serve

PYTHON = f"cp3{sys.version_info.minor}"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return make_wheels(tmp_path / "wheels")


@pytest.fixture
def site(wheels: Path, tmp_path: Path) -> Path:
    return write_site([wheels], tmp_path / "site").directory


@pytest.fixture
def served(site: Path) -> Iterator[Served]:
    with serve(site) as server:
        yield server


def read_all(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_the_next_site_can_be_made_from_the_last(
    wheels: Path, site: Path, served: Served, tmp_path: Path
) -> None:
    out = tmp_path / "copies"
    projects = ["model-jet-tagger", "model-digits", "model-new"]
    copied = download_files(projects, [f"{served.url}simple/"], out)
    assert sorted(copied) == sorted(path.name for path in wheels.glob("*.whl"))
    assert read_all(out) == read_all(wheels)
    assert read_all(write_site([out], tmp_path / "again").directory) == read_all(site)
    assert download_files(projects, [f"{served.url}simple/"], out) == []


def test_only_the_projects_that_are_asked_for(served: Served, tmp_path: Path) -> None:
    names = download_files(["model-digits"], [f"{served.url}simple"], tmp_path / "copies")
    assert names == ["model_digits-1.0.0-py3-none-any.whl"]


def test_a_second_index_adds_what_the_first_lacks(wheels: Path, tmp_path: Path) -> None:
    for path in wheels.glob("model_digits*"):
        path.unlink()
    first = write_site([wheels], tmp_path / "first").directory
    make_wheel(wheels, "digits")
    second = write_site([wheels], tmp_path / "second").directory
    with serve(first) as one, serve(second) as two:
        urls = [f"{server.url}simple/" for server in (one, two)]
        download_files(["model-digits", "model-jet-tagger"], urls, tmp_path / "copies")
    assert read_all(tmp_path / "copies") == read_all(wheels)
    assert not any("jet_tagger" in path for path in two.requests)  # its page, but none of its files


def test_two_indexes_that_disagree(served: Served, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    make_wheel(other, "digits", " with other bytes")
    with serve(write_site([other], tmp_path / "liar").directory) as liar:
        urls = [f"{server.url}simple/" for server in (served, liar)]
        with pytest.raises(PublishError, match="a published version never changes"):
            download_files(["model-digits"], urls, tmp_path / "copies")


def test_bytes_that_are_not_what_the_index_says(site: Path, served: Served, tmp_path: Path) -> None:
    name = "model_digits-1.0.0-py3-none-any.whl"
    (site / name).write_bytes((site / name).read_bytes()[::-1])
    with pytest.raises(PublishError, match="but the index states"):
        download_files(["model-digits"], [f"{served.url}simple/"], tmp_path / "copies")
    assert list((tmp_path / "copies").iterdir()) == []


def test_names_that_lead_elsewhere_are_left_out(site: Path, served: Served) -> None:
    page = site / "simple" / "model-digits" / "index.html"
    text = page.read_text()
    for name in ("../model_digits-9-py3-none-any.whl", "..\\model_digits-9-py3-none-any.whl",
                 "model_other-9-py3-none-any.whl", "notes.txt", "model_digits-9.tar.gz"):  # fmt: skip
        text = text.replace("</body>", f'<a href="../../x.whl">{name}</a>\n</body>')
    page.write_text(text)
    with open_index(f"{served.url}simple/") as index:
        assert [wheel.name for wheel in list_wheels(index, "model-digits")] == [
            "model_digits-1.0.0-py3-none-any.whl"
        ]


def test_the_newest_that_this_interpreter_installs(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version, tag in (("1.9", "py3-none-any"), ("1.10", "py3-none-any"), ("1.10", f"{PYTHON}-none-any"),
                         ("2.0", "cp39-cp39-win32"), ("2.0", "cp399-cp399-any")):  # fmt: skip
        make_wheel(wheels, "digits", version=version, tag=tag)
    with (
        serve(write_site([wheels], tmp_path / "site").directory) as server,
        open_index(f"{server.url}simple/") as index,
    ):
        newest = find_newest(index, "model-digits")
        assert newest is not None
        assert newest.name == f"model_digits-1.10-{PYTHON}-none-any.whl"
        assert find_newest(index, "model-none") is None
    assert not is_installable(frozenset(parse_tag("cp39-cp39-win32")))
    assert is_installable(newest.tags)


def test_from_what_a_release_measured_nothing_else_is_taken(
    wheels: Path, served: Served, tmp_path: Path
) -> None:
    """A job of the release has put more into its artifact than it should."""
    measured, out = tmp_path / "measured", tmp_path / "copies"
    measured.mkdir()
    make_wheel(measured, "digits", version="9.9.9")
    new = "model_digits-1.0.0-py3-none-any.whl.report.json"
    signed = "model_digits-1.0.0-py3-none-any.whl.intoto.jsonl"
    kept = "model_jet_tagger-0.10.0-py3-none-any.whl.report.json"
    for name in (
        new,
        signed,
        kept,
        "model_digits-9.9.9-py3-none-any.whl.report.json",
        "index.html",
    ):
        (measured / name).write_text("{}")
    (measured / new.replace("report", "bench")).symlink_to(wheels / kept)
    spec = tmp_path / "specs"
    spec.mkdir()
    for model in ("digits", "jet-tagger"):
        text = f'model: {{name: {model}, version: "2.0"}}\nsource: {{directory: none}}\n'
        (spec / f"{model}.yaml").write_text(text)
    options = ("--index-url", f"{served.url}simple/", "--measured", measured, "--out", out)
    Modelwheel(tmp_path / "cache")("download", spec, *options)
    assert read_all(out) == {**read_all(wheels), new: b"{}", signed: b"{}"}


def test_the_command_copies_what_shared_bindings_need(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    make_module(packages, "modelwheel-runtime")
    page = tmp_path / "site" / "simple" / "modelwheel-runtime"
    page.mkdir(parents=True)
    (name,) = (path.name for path in packages.iterdir())
    (page / "index.html").write_text(f'<a href="../../{name}">{name}</a>')
    (packages / name).rename(tmp_path / "site" / name)
    spec, text = tmp_path / "digits.yaml", 'model: {name: digits, version: "2.0"}\n'
    modelwheel, out = Modelwheel(tmp_path / "cache"), tmp_path / "copies"
    with serve(tmp_path / "site") as server:
        for more, expected in (("", []), ("package: {bindings: shared}\n", [str(out / name)])):
            spec.write_text(text + "source: {directory: none}\n" + more)
            done = modelwheel("download", spec, "--index-url", f"{server.url}simple/", "--out", out)
            assert done.out.splitlines() == expected


def test_the_command_copies_the_models_of_specs(served: Served, tmp_path: Path) -> None:
    spec = tmp_path / "digits.yaml"
    spec.write_text('model: {name: digits, version: "2.0"}\nsource: {directory: none}\n')
    modelwheel, out = Modelwheel(tmp_path / "cache"), tmp_path / "copies"
    urls = ("--index-url", f"{served.url}simple/", "--index-url", "")
    done = modelwheel("download", spec, *urls, "--out", out)
    assert done.out == f"{out / 'model_digits-1.0.0-py3-none-any.whl'}\n"
    assert done.err == "1 file downloaded\n"
    again = modelwheel("download", spec, *urls, "--out", tmp_path / "more", "--json")
    wheel = tmp_path / "more" / "model_digits-1.0.0-py3-none-any.whl"
    assert again.json == {"projects": ["model-digits"], "downloaded": [str(wheel)]}
    done = modelwheel(
        "download", spec, "--index-url", "", code=UsageError.exit_code, GITHUB_REPOSITORY=""
    )
    assert "no repository on GitHub given" in done.err
    assert "for a package index, pass --mode token" in done.err
    done = modelwheel("download", spec, "--mode", "token", code=UsageError.exit_code)
    assert "pass --index-url URL" in done.err
