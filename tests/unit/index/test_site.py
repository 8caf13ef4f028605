"""The static index and the catalogue: what is written, and that pip installs from it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import jsonschema  # type: ignore[import-untyped]
import pytest
from markupsafe import Markup
from typer.testing import CliRunner

from modelwheel.cli import app
from modelwheel.errors import UsageError, WheelError
from modelwheel.index.site import write_site
from modelwheel.index.site.rendering import _show
from modelwheel.wheelfile.reports import REPORT_SUFFIX
from tests.support.commands import Modelwheel
from tests.support.index_wheels import (
    COMMIT,
    TREE,
    add_measurements,
    make_manifest,
    make_wheel,
    make_wheels,
)
from tests.support.install_codes import install_codes
from tests.support.site_server import serve

HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(2)>&amp;{{ 7 * 7 }}`"""

HASHES = {
    "type": "object",
    "properties": {"sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    "required": ["sha256"],
}
META = {
    "type": "object",
    "properties": {"api-version": {"type": "string", "pattern": r"^1\.\d+$"}},
    "required": ["api-version"],
}
FILE = {
    "type": "object",
    "properties": {
        "filename": {"type": "string"},
        "url": {"type": "string"},
        "hashes": HASHES,
        "size": {"type": "integer", "minimum": 1},
        "requires-python": {"type": "string"},
        "core-metadata": HASHES,
        "dist-info-metadata": HASHES,
    },
    "required": ["filename", "url", "hashes", "size", "core-metadata"],
    "additionalProperties": False,
}
PROJECT = {
    "type": "object",
    "properties": {
        "meta": META,
        "name": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
        "versions": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "files": {"type": "array", "items": FILE, "minItems": 1},
    },
    "required": ["meta", "name", "versions", "files"],
    "additionalProperties": False,
}
PROJECTS = {
    "type": "object",
    "properties": {
        "meta": META,
        "projects": {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "additionalProperties": True},
        },
    },
    "required": ["meta", "projects"],
    "additionalProperties": False,
}
"""PEP 691 with the versions and sizes of PEP 700."""


QUIET = ["--isolated", "--no-cache-dir", "--disable-pip-version-check"]


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return make_wheels(tmp_path / "wheels")


def read_tree(site: Path) -> dict[str, bytes]:
    return {str(p.relative_to(site)): p.read_bytes() for p in site.rglob("*") if p.is_file()}


def read_json(path: Path) -> Any:
    return json.loads(path.read_bytes())


def test_names_are_normalised(tmp_path: Path) -> None:
    make_wheel(tmp_path, "odd", project="Model_Odd.Name")
    write_site([tmp_path], tmp_path / "site", "https://example.org/models")
    (link,) = Page(tmp_path / "site/simple/index.html").find("a")
    assert link == {"href": "model-odd-name/"}
    assert (tmp_path / "site/simple/model-odd-name/index.html").is_file()


def test_project_page_links_wheels_with_hashes(wheels: Path, tmp_path: Path) -> None:
    write_site([wheels], tmp_path / "site", "https://example.org/models")
    page = Page(tmp_path / "site/simple/model-jet-tagger/index.html")
    names = [f"model_jet_tagger-{version}-py3-none-any.whl" for version in ("0.9.0", "0.10.0")]
    links = page.find("a")
    assert len(links) == len(names)
    for name, link in zip(names, links, strict=True):
        sha256 = hashlib.sha256((wheels / name).read_bytes()).hexdigest()
        metadata = (tmp_path / "site" / f"{name}.metadata").read_bytes()
        assert link["href"] == f"https://example.org/models/{name}#sha256={sha256}"
        assert link["data-requires-python"] == "<99,>=3.10"
        assert link["data-core-metadata"] == f"sha256={hashlib.sha256(metadata).hexdigest()}"
        assert metadata.startswith(b"Metadata-Version: 2.4\n")
        assert not (tmp_path / "site" / name).exists()


def test_json_follows_its_specification_and_agrees_with_html(wheels: Path, tmp_path: Path) -> None:
    write_site([wheels], tmp_path / "site", "https://example.org/models/")
    simple = tmp_path / "site" / "simple"
    projects = read_json(simple / "index.v1+json")
    jsonschema.validate(projects, PROJECTS)
    assert [p["name"] for p in projects["projects"]] == ["model-digits", "model-jet-tagger"]
    project = read_json(simple / "model-jet-tagger" / "index.v1+json")
    jsonschema.validate(project, PROJECT)
    assert project["versions"] == ["0.9.0", "0.10.0"]
    links = Page(simple / "model-jet-tagger" / "index.html").find("a")
    for file, link in zip(project["files"], links, strict=True):
        assert link["href"] == f"{file['url']}#sha256={file['hashes']['sha256']}"
        assert link["data-core-metadata"] == f"sha256={file['core-metadata']['sha256']}"
        assert link["data-requires-python"] == file["requires-python"]
        assert file["size"] == (wheels / file["filename"]).stat().st_size


def test_without_address_wheels_are_copied_and_linked_relatively(
    wheels: Path, tmp_path: Path
) -> None:
    site = write_site([wheels], tmp_path / "site")
    assert (site.projects, site.wheels, site.copied) == (2, 3, True)
    for path in wheels.glob("*.whl"):
        assert (site.directory / path.name).read_bytes() == path.read_bytes()
    project = site.directory / "simple" / "model-digits"
    (link,) = Page(project / "index.html").find("a")
    target = str(link["href"]).partition("#")[0]
    assert (project / target).resolve() == site.directory / "model_digits-1.0.0-py3-none-any.whl"


def test_what_models_need_is_in_the_index_and_not_in_the_catalogue(
    wheels: Path, tmp_path: Path
) -> None:
    alone = write_site([wheels], tmp_path / "alone")
    needed = make_wheel(wheels, "digits", project="modelwheel_runtime")
    site = write_site([wheels], tmp_path / "site")
    assert (site.projects, site.wheels) == (alone.projects, alone.wheels + 1)
    page = site.directory / "simple" / "modelwheel-runtime" / "index.html"
    assert needed.name in page.read_text()
    assert (site.directory / needed.name).read_bytes() == needed.read_bytes()
    catalogues = {(found.directory / "index.html").read_bytes() for found in (alone, site)}
    assert len(catalogues) == 1


def test_same_wheels_give_the_same_bytes(wheels: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "wheels"
    other.mkdir(parents=True)
    for path in sorted(wheels.iterdir(), reverse=True):
        (other / path.name).write_bytes(path.read_bytes())
        os.utime(other / path.name, (1, 1))
    write_site([wheels], tmp_path / "one")
    write_site([other], tmp_path / "two")
    write_site([other], tmp_path / "two")
    assert read_tree(tmp_path / "one") == read_tree(tmp_path / "two")


def test_catalogue_tells_what_there_is_to_know(wheels: Path, tmp_path: Path) -> None:
    write_site([wheels], tmp_path / "site", "https://example.org/models")
    page = Page(tmp_path / "site" / "index.html")
    text = " ".join(page.text.split())
    install = (
        "pip install --index-url https://example.org/models/simple/ --require-hashes "
        "-r https://example.org/models/simple/model-jet-tagger/requirements-0.10.0.txt"
    )
    expected = [install, "model-jet-tagger 0.10.0", "Older: 0.9.0", "image float32"]
    expected += ["[batch, 8, 8, 1] input", "[batch * 3, 2]", "[batch, 10] output"]
    expected += ["x86-64-v3", "Apache-2.0", "CC-BY-4.0", COMMIT, TREE, "weights 2 kB"]
    expected += ["machine code 1 kB", "library 5 kB", "within tolerance 3 comparisons"]
    expected += [
        "2.5e-06 of 1e-05",
        "16 µs",
        "8 µs",
        "not measured",
        "Not run: x86-64-v4 (not here)",
        "other sizes are split into these",
    ]
    assert [phrase for phrase in expected if phrase not in text] == []


def test_plots_show_the_worst_error_and_the_time_of_a_row(wheels: Path, tmp_path: Path) -> None:
    write_site([wheels], tmp_path / "site", "https://example.org/models")
    rectangles = Page(tmp_path / "site" / "index.html").find("rect")
    widths = [bar["width"] for bar in rectangles if bar.get("class") == "value"]
    assert widths == ["25.00", "40.00", "100.00", "50.00"]


def test_nothing_in_a_wheel_becomes_markup(tmp_path: Path) -> None:
    add_measurements(make_wheel(tmp_path, "plain"))
    write_site([tmp_path], tmp_path / "plain-site", "https://example.org")
    expected = Page(tmp_path / "plain-site" / "index.html")
    add_measurements(make_wheel(tmp_path, "plain", HOSTILE), HOSTILE)
    write_site([tmp_path], tmp_path / "site", "https://example.org")
    page = Page(tmp_path / "site" / "index.html")
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in expected.elements]
    assert [list(a) for _, a in page.elements] == [list(a) for _, a in expected.elements]
    assert page.find("script") == [{"src": "catalogue.js", "defer": None}]
    shown = ["An Author", "What plain does", "at length", "Apache-2.0", "CC-BY-4.0", "Paper"]
    shown += ["keyword-plain", "image", "scores", "each other", "x86-64-v3", "2.21.0", "0.1.0"]
    shown += ["git", COMMIT, TREE, "serving_default", "ef" * 32, "javascript:alert(1)"]
    assert [text for text in shown if text + HOSTILE not in page.text] == []


def test_nothing_in_a_file_name_becomes_markup(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "odd", tag='py3-none-any"><script>alert(1)<br>')
    write_site([tmp_path], tmp_path / "site")
    for name in ("index.html", "simple/model-odd/index.html"):
        page = Page(tmp_path / "site" / name)
        assert wheel.name in page.text
        assert not any("src" not in script for script in page.find("script"))
        (link,) = [a for a in page.find("a") if "model_odd" in str(a["href"])]
        assert str(link["href"]).partition("#")[0].endswith(quote(wheel.name))


def test_page_has_a_strict_policy_and_asks_no_other_host(wheels: Path, tmp_path: Path) -> None:
    write_site([wheels], tmp_path / "site")
    page = Page(tmp_path / "site" / "index.html")
    (policy,) = [a["content"] for a in page.find("meta") if "http-equiv" in a]
    assert str(policy).startswith("default-src 'none'; ")
    assert "unsafe" not in str(policy)
    fetched = [a.get("src") or a.get("href") for t, a in page.elements if t in ("script", "link")]
    assert fetched == ["data:,", "catalogue.css", "catalogue.js"]
    names = {name for _, attributes in page.elements for name in attributes}
    assert [name for name in names if name.startswith("on") or name == "style"] == []
    links = [str(attributes["href"]) for attributes in page.find("a")]
    assert [link for link in links if link.startswith("javascript")] == []


def test_only_an_older_site_is_replaced(wheels: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="is not an index"):
        write_site([wheels], mine)
    assert (mine / "thesis.txt").read_text() == "years of work"
    site = tmp_path / "site"
    site.mkdir()
    write_site([wheels], site)
    (wheels / "model_digits-1.0.0-py3-none-any.whl").unlink()
    write_site([wheels], site)
    assert not (site / "simple" / "model-digits").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "site", "wheels"}


@pytest.mark.parametrize("out", [".", "..", "../wheels"])
def test_the_wheels_are_never_replaced(wheels: Path, out: str) -> None:
    with pytest.raises(UsageError, match="would replace"):
        write_site([wheels], wheels / out)
    assert len(list(wheels.glob("*.whl"))) == 3


def test_a_failure_leaves_the_older_site(wheels: Path, tmp_path: Path) -> None:
    write_site([wheels], tmp_path / "site")
    before = read_tree(tmp_path / "site")
    (wheels / "model_broken-1.0.0-py3-none-any.whl").write_bytes(b"no zip file")
    with pytest.raises(WheelError, match=r"model_broken-1\.0\.0.* is not a valid wheel"):
        write_site([wheels], tmp_path / "site")
    assert read_tree(tmp_path / "site") == before


def test_a_misnamed_wheel_is_refused(wheels: Path, tmp_path: Path) -> None:
    path = wheels / "model_digits-1.0.0-py3-none-any.whl"
    path.rename(wheels / "model_digits-2.0.0-py3-none-any.whl")
    with pytest.raises(WheelError, match=r"contains model_digits 1\.0\.0"):
        write_site([wheels], tmp_path / "site")


def test_a_broken_report_is_named(wheels: Path, tmp_path: Path) -> None:
    name = f"model_digits-1.0.0-py3-none-any.whl{REPORT_SUFFIX}"
    (wheels / name).write_text('{"passed": 7}')
    with pytest.raises(WheelError, match=rf"{name}: passed: "):
        write_site([wheels], tmp_path / "site")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("models", "not a plain http"),
        ("javascript:alert(1)", "not a plain http"),
        ("https://", "not a plain http"),
        ("https://example.org/?a=b", "not a plain http"),
        ("https://example.org/'; rm x", "not a plain http"),
        ("https://me:secret@example.org/", "user name or password"),
        ("https://[::1/", "not a plain http"),
    ],
)
def test_an_unfit_address_is_refused(wheels: Path, tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        write_site([wheels], tmp_path / "site", url)
    assert not (tmp_path / "site").exists()


def test_command(wheels: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    options = ["--base-url", "https://example.org/models", "--out", str(site)]
    done = CliRunner().invoke(app, ["index", str(wheels), *options])
    assert done.exit_code == 0, done.output
    assert str(site) in done.output
    assert "2 models" in done.output
    assert (site / "index.html").is_file()


@pytest.mark.parametrize("negotiate", [False, True], ids=["html", "json"])
def test_pip_installs_from_it(wheels: Path, tmp_path: Path, negotiate: bool) -> None:
    site = write_site([wheels], tmp_path / "site")
    target = tmp_path / "target"
    with serve(site.directory, negotiate=negotiate) as served:
        pip = [sys.executable, "-m", "pip", *QUIET, "install", "--target"]
        index = f"{served.url}simple/"
        done = subprocess.run(
            [*pip, str(target), "--index-url", index, "Model.Jet_Tagger"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (target / "model_jet_tagger/__init__.py").read_text() == "NAME = 'jet-tagger'\n"
    assert (target / "model_jet_tagger-0.10.0.dist-info").is_dir()
    wheel = "/model_jet_tagger-0.10.0-py3-none-any.whl"
    assert served.requests == ["/simple/model-jet-tagger/", f"{wheel}.metadata", wheel]


def test_pip_refuses_a_wheel_that_was_exchanged(wheels: Path, tmp_path: Path) -> None:
    site = write_site([wheels], tmp_path / "site")
    with (site.directory / "model_digits-1.0.0-py3-none-any.whl").open("ab") as wheel:
        wheel.write(b"more")
    with serve(site.directory) as served:
        pip = [sys.executable, "-m", "pip", *QUIET, "download", "--dest"]
        done = subprocess.run(
            [*pip, str(tmp_path), "--index-url", f"{served.url}simple/", "model-digits"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


# --- installing ------------------------------------------------------------------------------------

RUNTIME = "modelwheel_runtime"


def test_configuration_for_uv(tmp_path: Path) -> None:
    make_wheel(tmp_path, "digits", requires=["numpy>=1.26", "modelwheel-runtime<2,>=1.0"])
    make_wheel(tmp_path, "digits", project=RUNTIME)
    site = write_site([tmp_path], tmp_path / "site", "https://example.org/").directory
    project = tomllib.loads(f"[project]\n{install_codes(site)[1]}")
    assert project["project"]["dependencies"][0] == "model-digits==1.0.0"
    index = {"name": "models", "url": "https://example.org/simple/", "explicit": True}
    assert project["tool"]["uv"]["index"] == [index]
    assert set(project["tool"]["uv"]["sources"]) == {"model-digits", "modelwheel-runtime"}


def test_a_model_without_requirements_has_one_line(tmp_path: Path) -> None:
    make_wheel(tmp_path, "digits")
    site = write_site([tmp_path], tmp_path / "site", "https://example.org/").directory
    api = "https://example.org/simple/"
    file = f"{api}model-digits/requirements-1.0.0.txt"
    expected = f"pip install --index-url {api} --require-hashes -r {file}"
    assert install_codes(site)[0] == expected


def test_models_of_fixed_shape_claim_no_other_sizes(tmp_path: Path) -> None:
    manifest = make_manifest("fixed")
    tensors = [
        tuple(t.model_copy(update={"shape": (1, *t.shape[1:]), "leading_per_row": 0}) for t in side)
        for side in (manifest.signature.inputs, manifest.signature.outputs)
    ]
    signature = manifest.signature.model_copy(update={"inputs": tensors[0], "outputs": tensors[1]})
    make_wheel(tmp_path, "fixed", manifest=manifest.model_copy(update={"signature": signature}))
    text = Page(write_site([tmp_path], tmp_path / "site").directory / "index.html").text
    assert "fixed shape" in text
    assert "split into" not in text


def test_nothing_on_the_pages_reorders_or_hides_text() -> None:
    assert _show("pay\u202egpj\u200b\U000e0041\x1b") == r"pay\u202egpj\u200b\U000e0041\x1b"
    assert _show("नमस्\u200dते 👩\u200d🔬\n") == "नमस्\u200dते 👩\u200d🔬\n"
    assert _show(Markup("<b>")) == Markup("<b>")
    assert _show(None) is None


def test_what_was_written_as_json(tmp_path: Path) -> None:
    wheels = make_wheels(tmp_path / "wheels")
    done = Modelwheel(tmp_path / "cache")("index", wheels, "--out", tmp_path / "site", "--json")
    assert done.json == {
        "directory": str(tmp_path / "site"),
        "projects": 2,
        "wheels": 3,
        "sdists": 0,
        "copied": True,
    }
