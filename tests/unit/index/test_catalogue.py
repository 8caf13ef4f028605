"""The catalogue: what its pages show, and that nothing in a wheel can change them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree as ET

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import jsonschema  # type: ignore[import-untyped]
import pytest
from markupsafe import Markup
from typer.testing import CliRunner

from modelwheel.cli import app
from modelwheel.errors import UsageError
from modelwheel.index.site import write_site
from modelwheel.index.site.catalogue import Branding
from modelwheel.index.site.listing import ListedFile, ListedModel, ListedTensor, ListedTiming
from modelwheel.index.site.rendering import _show
from modelwheel.wheelfile.reports import PROVENANCE_SUFFIX
from tests.support.html_pages import Page
from tests.support.index_wheels import (
    COMMIT,
    TREE,
    add_measurements,
    make_manifest,
    make_wheel,
    make_wheels,
)
from tests.support.many_wheels import PLATFORMS, make_collection, make_release
from tests.support.pasted_texts import pasted_texts

HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(2)>&amp;{{ 7 * 7 }}`"""

RUNTIME = "modelwheel_runtime"

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    return make_wheels(tmp_path / "wheels")


def write(wheels: Path, site: Path, url: str | None = "https://example.org/models") -> Path:
    return write_site([wheels], site, url).directory


def words_of(path: Path) -> str:
    return Page(path).words


def missing(phrases: list[str], text: str) -> list[str]:
    return [phrase for phrase in phrases if phrase not in text]


# --- the overview ----------------------------------------------------------------------------------


def test_a_row_shows_what_models_are_chosen_by(tmp_path: Path) -> None:
    make_release(tmp_path, "jet-tagger", pythons=(), day=3)
    page = Page(write(tmp_path, tmp_path / "site") / "index.html")
    (row,) = [row for row in page.find("tr") if "data-p" in row]
    assert str(row["data-p"]) == "0 1 2 3 4 5 6"
    size, time, day = str(row["data-n"]).split()
    wheels = tmp_path.glob("*.whl")
    assert int(size) == min(wheel.stat().st_size for wheel in wheels)
    assert (time, day) == ("2375", "20260304")
    assert missing([COMMIT[:12], "tracks", "flavour", "University"], str(row["data-w"])) == []
    expected = ["jet-tagger 1.2.0", "Tags jets by flavour", "physics, wide", "Apache-2.0"]
    expected += ["Linux, macOS, Windows", "2.38 µs", "2026-03-04"]
    assert missing(expected, page.words) == []
    assert {"href": "models/model-jet-tagger.html"} in page.find("a")


def test_platforms_to_filter_by_are_numbered_as_in_the_rows(tmp_path: Path) -> None:
    make_release(tmp_path, "a", platforms=["win_amd64"])
    make_release(tmp_path, "b", platforms=["musllinux_1_2_aarch64", "macosx_11_0_arm64"])
    page = Page(write(tmp_path, tmp_path / "site") / "index.html")
    assert [row["data-p"] for row in page.find("tr") if "data-p" in row] == ["2", "0 1"]
    assert "all Linux Arm64 musl macOS Arm64 Windows x86-64" in page.words


def test_an_overview_of_500_models_is_small(tmp_path: Path) -> None:
    make_collection(tmp_path, 40)
    small = (write(tmp_path, tmp_path / "site") / "index.html").stat().st_size
    make_collection(tmp_path, 60)
    large = (write(tmp_path, tmp_path / "site") / "index.html").stat().st_size
    row = (large - small) / 20
    assert small + 460 * row < 300_000


def test_before_the_first_release_the_overview_says_so(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    page = Page(write(tmp_path / "dist", tmp_path / "site") / "index.html")
    assert "No model is released yet." in page.text
    assert page.find("script") == page.find("form") == []


# --- the page of a model ---------------------------------------------------------------------------


def test_a_page_says_what_there_is_to_know(wheels: Path, tmp_path: Path) -> None:
    site = write(wheels, tmp_path / "site")
    text = words_of(site / "models" / "model-jet-tagger.html")
    install = (
        "pip install --index-url https://example.org/models/simple/ --require-hashes "
        "-r https://example.org/models/simple/model-jet-tagger/requirements-0.10.0.txt"
    )
    expected = [install, "jet-tagger 0.10.0", "0.9.0", "input image float32"]
    expected += ["[batch, 8, 8, 1]", "[batch * 3, 2]", "output scores float32 [batch, 10]"]
    expected += ["x86-64-v3", "Apache-2.0", "CC-BY-4.0", COMMIT, TREE, "weights 2 kB"]
    expected += ["machine code 1 kB", "library 5 kB", "within tolerance"]
    expected += ["Within 40.0 % of the allowed error at every CPU level, in 3 comparisons"]
    expected += ["16 µs", "8 µs", "Not run: x86-64-v4 (not here)"]
    expected += ["any number of rows is split into these", "by An Author", "Direction"]
    assert missing(expected, text) == []
    assert "not measured" in words_of(site / "models" / "model-digits.html")


def test_models_of_fixed_shape_claim_no_other_sizes(tmp_path: Path) -> None:
    manifest = make_manifest("fixed")
    tensors = [
        tuple(t.model_copy(update={"shape": (1, *t.shape[1:]), "leading_per_row": 0}) for t in side)
        for side in (manifest.signature.inputs, manifest.signature.outputs)
    ]
    signature = manifest.signature.model_copy(update={"inputs": tensors[0], "outputs": tensors[1]})
    make_wheel(tmp_path, "fixed", manifest=manifest.model_copy(update={"signature": signature}))
    site = write(tmp_path, tmp_path / "site")
    text = words_of(site / "models" / "model-fixed.html")
    assert "fixed shape: each call evaluates the model once" in text
    assert "split into" not in text
    assert json.loads((site / "models.json").read_text())["models"][0]["fixed_shape"] is True


def test_outputs_have_their_labels(tmp_path: Path) -> None:
    manifest = make_manifest("digits")
    labelled = manifest.signature.outputs[0].model_copy(update={"labels": ("cat", "dog")})
    signature = manifest.signature.model_copy(update={"outputs": (labelled,)})
    make_wheel(tmp_path, "digits", manifest=manifest.model_copy(update={"signature": signature}))
    site = write(tmp_path, tmp_path / "site")
    assert "2 labels cat dog" in words_of(site / "models" / "model-digits.html")
    model = json.loads((site / "models.json").read_bytes())["models"][0]
    assert model["outputs"][0]["labels"] == ["cat", "dog"]


def test_a_full_release_is_a_grid(tmp_path: Path) -> None:
    """42 to 56 wheels once were as many lines, in which cp314 and cp314t were the same text."""
    make_release(tmp_path, "jet-tagger")
    page = Page(write(tmp_path, tmp_path / "site") / "models" / "model-jet-tagger.html")
    cells = [link for link in page.find("a") if str(link.get("title", "")).endswith(".whl")]
    assert len(cells) == len(set(map(str, cells))) == 8 * len(PLATFORMS)
    assert sum("-cp314-cp314t-" in str(link["title"]) for link in cells) == len(PLATFORMS)
    assert "Platform 3.10 3.11 3.12 3.13 3.14 3.15 3.14t 3.15t Linux Arm64 glibc 2.28" in page.words
    assert "Linux Arm64 musl musl 1.2" in page.words
    assert not any("colspan" in cell for cell in page.find("td"))


def test_a_shared_wheel_spans_all_pythons(tmp_path: Path) -> None:
    make_release(tmp_path, "digits", pythons=(), platforms=PLATFORMS[:2])
    page = Page(write(tmp_path, tmp_path / "site") / "models" / "model-digits.html")
    assert [cell["colspan"] for cell in page.find("td") if "colspan" in cell] == ["8", "8"]


def test_versions_say_what_has_changed(tmp_path: Path) -> None:
    before = make_manifest("net", version="1.0")
    now = make_manifest("net", version="1.1")
    points = now.signature.inputs[1].model_copy(update={"name": "places"})
    signature = now.signature.model_copy(update={"inputs": (now.signature.inputs[0], points)})
    batching = now.batching.model_copy(update={"sizes": (1, 8)})
    model = now.model.model_copy(update={"weights_license": None})
    update = {"signature": signature, "batching": batching, "model": model}
    make_wheel(tmp_path, "net", version="1.0", manifest=before)
    make_wheel(tmp_path, "net", version="1.1", manifest=now.model_copy(update=update))
    text = words_of(write(tmp_path, tmp_path / "site") / "models" / "model-net.html")
    expected = ["input points is gone: ", "input places is new: ", "1 batch size added: 8"]
    expected += ["1 batch size removed: 4", "licence of the weights is not stated, was CC-BY-4.0"]
    expected += ["1.0 first version"]
    assert missing(expected, text) == []


def test_attestations_and_bills_are_linked(tmp_path: Path) -> None:
    wheels = make_release(tmp_path, "digits", platforms=PLATFORMS[:1])
    signed = wheels[0].with_name(wheels[0].name + PROVENANCE_SUFFIX)
    signed.write_text("{}")
    site = write(tmp_path, tmp_path / "site", None)
    page = Page(site / "models" / "model-digits.html")
    links = {str(link["href"]) for link in page.find("a")}
    bill = "models/model-digits-linux-x86-64.cdx.json"
    assert {f"../{signed.name}", f"../{bill}"} <= links
    assert json.loads((site / bill).read_text()) == {"bomFormat": "CycloneDX"}
    (site / signed.name).unlink()  # else the link would lead nowhere


def test_the_framework_is_beside_the_wheel_where_it_was_timed(tmp_path: Path) -> None:
    make_release(tmp_path, "digits", platforms=PLATFORMS[:1])
    text = words_of(write(tmp_path, tmp_path / "site") / "models" / "model-digits.html")
    expected = ["1 row: 77.3 times faster", "16 rows: 12 times faster", "TensorFlow 2.21.0 402 µs"]
    expected += ["Intel(R) Xeon(R) Platinum 8488C, x86-64-v4"]
    assert missing(expected, text) == []


def test_configuration_for_uv(tmp_path: Path) -> None:
    make_wheel(tmp_path, "digits", requires=["numpy>=1.26", "modelwheel-runtime<2,>=1.0"])
    make_wheel(tmp_path, "digits", project=RUNTIME)
    project = tomllib.loads(pasted_texts(write(tmp_path, tmp_path / "site"))["Install with uv"])
    assert project["project"]["dependencies"][0] == "model-digits==1.0.0"
    index = {"name": "models", "url": "https://example.org/models/simple/", "explicit": True}
    assert project["tool"]["uv"]["index"] == [index]
    assert set(project["tool"]["uv"]["sources"]) == {"model-digits", "modelwheel-runtime"}


def test_a_model_without_requirements_has_one_line(tmp_path: Path) -> None:
    make_wheel(tmp_path, "digits")
    texts = pasted_texts(write(tmp_path, tmp_path / "site"))
    api = "https://example.org/models/simple/"
    file = f"{api}model-digits/requirements-1.0.0.txt"
    assert texts["Install with pip"] == f"pip install --index-url {api} --require-hashes -r {file}"


def test_a_wheel_without_headers_has_no_programs_in_c(tmp_path: Path) -> None:
    manifest = make_manifest("digits")
    model = manifest.model.model_copy(update={"interfaces": ()})
    make_wheel(tmp_path, "digits", manifest=manifest.model_copy(update={"model": model}))
    texts = pasted_texts(write(tmp_path, tmp_path / "site"))
    assert list(texts) == ["Install with pip", "Install with uv", "Install with Requirements", "Program in Python"]  # fmt: skip


# --- the list and the feed -------------------------------------------------------------------------


def test_the_list_follows_its_schema(wheels: Path, tmp_path: Path) -> None:
    make_release(wheels, "denoiser", platforms=PLATFORMS[:2], pythons=(), day=2)
    site = write(wheels, tmp_path / "site")
    listing = json.loads((site / "models.json").read_bytes())
    schema = json.loads((site / "models.schema.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(listing, schema)
    assert listing["version"] == 1
    assert [m["name"] for m in listing["models"]] == ["denoiser", "digits", "jet-tagger"]
    denoiser = listing["models"][0]
    assert denoiser["released"] == "2026-03-03T09:00:00Z"
    assert (denoiser["verified"], denoiser["largest_error"]) == (True, pytest.approx(0.42))
    assert (site / denoiser["page"]).is_file()
    assert (site / denoiser["requirements"]).is_file()
    assert {file["platform"] for file in denoiser["files"]} == {"Linux x86-64", "Linux Arm64"}
    assert listing["models"][2]["versions"] == [
        {"version": "0.9.0", "released": None},
        {"version": "0.10.0", "released": None},
    ]


def test_the_page_about_the_list_names_every_field() -> None:
    text = (Path(__file__).parents[3] / "docs" / "catalogue.md").read_text(encoding="utf-8")
    records = (ListedModel, ListedFile, ListedTiming, ListedTensor)
    fields = [name for record in records for name in record.model_fields]
    assert [name for name in fields if f"`{name}`" not in text] == []


def test_the_feed_has_the_newest_release_first(tmp_path: Path) -> None:
    make_release(tmp_path, "old", platforms=PLATFORMS[:1], pythons=(), day=1)
    make_release(tmp_path, "new", platforms=PLATFORMS[:1], pythons=(), day=9)
    make_wheel(tmp_path, "undated")
    root = ET.fromstring((write(tmp_path, tmp_path / "site") / "feed.xml").read_bytes())
    titles = [entry.findtext(f"{ATOM}title") for entry in root.iter(f"{ATOM}entry")]
    assert titles == ["new 1.2.0", "old 1.2.0", "undated 1.0.0"]
    assert root.findtext(f"{ATOM}updated") == "2026-03-10T09:00:00Z"
    link = root.find(f"{ATOM}entry/{ATOM}link")
    assert link is not None
    assert link.attrib["href"] == "https://example.org/models/models/model-new.html"
    identifiers = [entry.findtext(f"{ATOM}id") for entry in root.iter(f"{ATOM}entry")]
    assert len(set(identifiers)) == 3


# --- what surrounds it -----------------------------------------------------------------------------


def test_title_logo_and_repository_are_on_every_page(wheels: Path, tmp_path: Path) -> None:
    logo = tmp_path / "wheel.SVG"
    logo.write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    branding = Branding("Group's models", logo, "group/models")
    site = write_site([wheels], tmp_path / "site", branding=branding).directory
    for path, top in ((site / "index.html", ""), (site / "models" / "model-digits.html", "../")):
        page = Page(path)
        assert "Group's models" in page.text
        (picture,) = page.find("img")
        assert str(picture["src"]).startswith(f"{top}assets/logo-")
        assert (path.parent / str(picture["src"])).read_bytes() == logo.read_bytes()
        links = [link["href"] for link in page.find("a")]
        assert "https://github.com/group/models" in links
    assert json.loads((site / "models.json").read_bytes())["title"] == "Group's models"


def test_a_model_has_its_picture(wheels: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "specs"
    pictures.mkdir()
    (pictures / "digits.png").write_bytes(b"png")
    (pictures / "digits.yaml").write_text("model: {}")
    branding = Branding(pictures=pictures)
    site = write_site([wheels], tmp_path / "site", branding=branding).directory
    page = Page(site / "models" / "model-digits.html")
    (picture,) = page.find("img")
    assert (site / "models" / str(picture["src"])).read_bytes() == b"png"
    assert picture["alt"] == "What digits does"
    assert Page(site / "models" / "model-jet-tagger.html").find("img") == []
    (pictures / "digits.png").write_bytes(b"0" * 1_000_001)
    with pytest.raises(UsageError, match=r"digits\.png has 1 MB; at most 1 MB are shown"):
        write_site([wheels], tmp_path / "site", branding=branding)


def test_a_logo_is_a_picture(wheels: Path, tmp_path: Path) -> None:
    for name, message in (("logo.html", "must end with .svg"), ("none.svg", "No such file")):
        with pytest.raises(UsageError, match=message):
            write_site([wheels], tmp_path / "site", branding=Branding(logo=tmp_path / name))


def test_the_configuration_names_title_and_pictures(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "digits.svg").write_text("<svg/>")
    (tmp_path / "modelwheel.toml").write_text(
        '[catalogue]\ntitle = "Ours"\npictures = "specs"\n[release]\nrepository = "org/ours"\n'
    )
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    done = CliRunner().invoke(app, ["index", str(wheels), "--out", "site"])
    assert done.exit_code == 0, done.output
    page = Page(tmp_path / "below" / "site" / "models" / "model-digits.html")
    assert "digits 1.0.0 · Ours" in page.words
    assert len(page.find("img")) == 1
    assert "https://github.com/org/ours" in [link["href"] for link in page.find("a")]


def test_nothing_in_a_wheel_becomes_markup(tmp_path: Path) -> None:
    add_measurements(make_wheel(tmp_path, "plain", " harmless"), " harmless")
    plain = write(tmp_path, tmp_path / "plain-site")
    add_measurements(make_wheel(tmp_path, "plain", HOSTILE), HOSTILE)
    site = write(tmp_path, tmp_path / "site")
    for name in ("index.html", "models/model-plain.html"):
        expected, page = Page(plain / name), Page(site / name)
        assert [tag for tag, _ in page.elements] == [tag for tag, _ in expected.elements]
        assert [list(a) for _, a in page.elements] == [list(a) for _, a in expected.elements]
    shown = ["An Author", "What plain does", "at length", "Apache-2.0", "CC-BY-4.0", "Paper"]
    shown += ["keyword-plain", "image", "scores", "each other", "x86-64-v3", "2.21.0", "0.1.0"]
    shown += ["git", COMMIT, TREE, "serving_default", "ef" * 32, "javascript:alert(1)"]
    assert [text for text in shown if text + HOSTILE not in page.text] == []
    ET.fromstring((site / "feed.xml").read_bytes())
    model = json.loads((site / "models.json").read_bytes())["models"][0]
    assert model["summary"] == f"What plain does{HOSTILE}"


def test_nothing_in_a_file_name_becomes_markup(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "odd", tag='py3-none-any"><script>alert(1)<br>')
    write_site([tmp_path], tmp_path / "site")
    for name in ("models/model-odd.html", "simple/model-odd/index.html"):
        page = Page(tmp_path / "site" / name)
        assert wheel.name in page.text
        assert not any("src" not in script for script in page.find("script"))
        links = [str(a["href"]) for a in page.find("a")]
        assert any(link.partition("#")[0].endswith(quote(wheel.name)) for link in links)


def test_pages_have_a_strict_policy_and_ask_no_other_host(wheels: Path, tmp_path: Path) -> None:
    site = write(wheels, tmp_path / "site", None)
    for path in (site / "index.html", *(site / "models").glob("*.html")):
        page = Page(path)
        (policy,) = [a["content"] for a in page.find("meta") if "http-equiv" in a]
        assert str(policy).startswith("default-src 'none'; ")
        assert "unsafe" not in str(policy)
        fetched = [str(a.get("src") or a.get("href")) for t, a in page.elements if t in ("script", "link")]  # fmt: skip
        assert fetched.pop(0) == "data:,"
        assert all((path.parent / name).is_file() for name in fetched)
        names = {name for _, attributes in page.elements for name in attributes}
        assert [name for name in names if name.startswith("on") or name == "style"] == []
        links = [str(attributes["href"]) for attributes in page.find("a")]
        assert [link for link in links if link.startswith("javascript")] == []


def test_every_link_within_the_site_leads_somewhere(tmp_path: Path) -> None:
    wheels = make_release(tmp_path, "digits", platforms=PLATFORMS[:2])
    wheels[0].with_name(wheels[0].name + PROVENANCE_SUFFIX).write_text("{}")
    site = write(tmp_path, tmp_path / "site", None)
    for path in site.rglob("*.html"):
        page = Page(path)
        identifiers = {f"#{a['id']}" for _, a in page.elements if "id" in a}
        for link in (str(a["href"]) for a in page.find("a")):
            if link.startswith("#"):
                assert link in identifiers
            elif "://" not in link:
                target = path.parent / link.partition("#")[0]
                assert target.exists(), f"{path.name}: {link}"


def test_nothing_on_the_pages_reorders_or_hides_text() -> None:
    assert _show("pay\u202egpj\u200b\U000e0041\x1b") == r"pay\u202egpj\u200b\U000e0041\x1b"
    assert _show("नमस्\u200dते 👩\u200d🔬\n") == "नमस्\u200dते 👩\u200d🔬\n"
    assert _show(Markup("<b>")) == Markup("<b>")
    assert _show(None) is None
