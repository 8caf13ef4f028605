"""The documents: their commands are accepted, their links lead somewhere, their specs are sound."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from modelwheel.errors import SpecError
from modelwheel.spec import load_spec
from tests.support.commands import GROUP, parse
from tests.support.pages import DOCUMENTS, ROOT, blocks

COMMANDS = sorted(
    {
        line
        for document in DOCUMENTS
        for language in ("", "sh")
        for block in blocks(document, language)
        for line in re.findall(r"^\$? ?(modelwheel .*|make .*)$", block.text, re.MULTILINE)
    }
    | {
        command
        for document in DOCUMENTS
        for command in re.findall(
            r"`((?:modelwheel [a-z]+|make) [^`]+)`", document.read_text("utf-8")
        )
    }
)


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_are_known(line: str) -> None:
    program, *arguments = shlex.split(line, comments=True)
    if program == "make":
        target, *variables = arguments
        assert all(re.match(r"[A-Z]+=", variable) for variable in variables)
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    else:
        parse([a for argument in arguments if (a := argument.strip("[]").removesuffix("..."))])


def test_every_command_is_documented() -> None:
    names = {line.split()[1] for line in COMMANDS}
    assert {"demo", "release-demo", "test", "lint", "unit"} <= names
    assert set(GROUP.commands) - {"verify", "runtime", "download"} <= names


def test_the_readme_is_short() -> None:
    assert _readme().count("\n") < 200


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.parent.name + path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in headings
        elif not target.startswith("https://"):
            assert (document.parent / target.partition("#")[0]).exists(), target


def test_the_spec_in_the_readme_is_sound(tmp_path: Path) -> None:
    (example,) = blocks(ROOT / "README.md", "yaml")
    (tmp_path / "example.yaml").write_text(example.text, encoding="utf-8")
    assert load_spec(tmp_path / "example.yaml").compilation.batch_sizes == (1, 2, 4)


def test_the_mistakes_in_the_documents_are_reported_like_that(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "authors.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ modelwheel check broken.yaml\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    (tmp_path / "broken.yaml").write_text(BROKEN, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path / "broken.yaml")
    assert f"error: {caught.value.shown()}\n".replace(f"{tmp_path}/", "") == shown[1]


BROKEN = """\
model:
  name: Jet Tagger
  version: 1.0
compilation:
  batch_sizes: [1, 2, 4, 0]
targets: [x86-64-v33]
source:
  git: https://example.org/data.git
  commit: main
  path: jet_tagger
"""


def _readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")
