"""The site of the documentation is built without a warning, and has what the code says."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from modelwheel.spec.schema import spec_schema
from tests.support.commands import GROUP
from tests.support.pages import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the pages."""
    directory = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs", directory],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def _text(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_every_command_is_on_its_page(site: Path) -> None:
    text = _text(site / "reference" / "commands.html")
    assert all(f"modelwheel {name}" in text for name in GROUP.commands)


def test_every_section_of_a_spec_is_on_its_page(site: Path) -> None:
    text = _text(site / "reference" / "spec.html")
    assert all(name in text for name in spec_schema()["properties"])
    assert "source.commit" in text
    assert "package.compute.budget.error" in text


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("c", "modelwheel_status (*run)(modelwheel_model *model, size_t rows,"),
        ("cpp", "explicit Model(const modelwheel_api &api, const char *level = nullptr)"),
    ],
)
def test_the_interfaces_are_on_their_pages(site: Path, page: str, name: str) -> None:
    assert name in " ".join(_text(site / "reference" / f"{page}.html").split())


def test_links_to_files_lead_to_the_repository(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    assert re.search(r'href="https://[^"]+/blob/main/CONTRIBUTING\.md"', page)
