"""Text from models and specs in the languages of a wheel's files: read back, it is the same text."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from modelwheel.codegen.sources import quote as quote_c
from modelwheel.packaging.languages import code_cell, comment, quote
from modelwheel.util.text import one_line
from tests.support.hostile_text import ENCODABLE, require_harmless
from tests.support.projects import render_model
from tests.support.reserved import NAMES, describe_one

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXT = st.text(max_size=12) | st.lists(
    st.sampled_from([*NAMES, "`", "|", "\\", "?", "/", "*", '"', " ", "\n", "\U000e0041"]),
    max_size=6,
).map("".join)


@given(TEXT)
@example(ENCODABLE)
@example("Tag\U000e0041\x7f\u202e")
def test_toml(text: str) -> None:
    written = quote(text)
    assert tomllib.loads(f"x = {written}")["x"] == text
    # Also a Python string, in modules and in the lines of a docstring.
    assert ast.literal_eval(written) == text
    ast.parse(f'"""\n    {written}: float32\n"""')
    require_harmless(f" {written.replace('##', '#')}")


def test_toml_writes_what_people_read_as_it_is() -> None:
    assert quote('Zoë\'s "jet" C:\\x 渡辺') == '"Zoë\'s \\"jet\\" C:\\\\x 渡辺"'
    assert quote("a\u200b\U000e0041") == r'"a\u200b\U000e0041"'


@given(TEXT)
@example(ENCODABLE)
def test_c_strings(text: str) -> None:
    written = quote_c(text)
    assert re.fullmatch(r'"([ !#->@-\[\]-~]|\\[0-7]{3})*"', written)
    octal = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), written[1:-1].encode())
    assert octal.decode() == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain name", "plain name"),
        ("ends in \\", r"ends in \x5c"),
        ("ends in \\  ", "ends in \\x5c  "),
        ("in \\ the middle", "in \\ the middle"),
        ("tri??/", "tri? ?/"),
        ("tri???/", "tri? ? ?/"),
        ("a */ b", "a * / b"),
        ("a /* b /*/", "a / * b / * /"),
        ("a\n#error\u2028\u202e\x1b", r"a\x0a#error\u2028\u202e\x1b"),
    ],
)
def test_comments(text: str, written: str) -> None:
    assert comment(text) == written


@given(TEXT)
@example(ENCODABLE)
@example("\\" * 3 + " ")
def test_any_comment_ends_with_its_line(text: str) -> None:
    line = comment(text)
    assert not {"*/", "/*", "??"} & {line[i : i + 2] for i in range(len(line))}
    assert not line.rstrip().endswith("\\")
    require_harmless(f"// {line}")


@given(TEXT)
@example(ENCODABLE)
@example("``|`")
@example("\\|")
@example(" a ")
def test_code_in_tables(text: str) -> None:
    table = f"| a | b |\n|---|---|\n| {code_cell(text)} | end |\n"
    tokens = MarkdownIt("commonmark").enable("table").parse(table)
    cells = [token for token in tokens if token.type == "inline"][2:]
    assert [cell.content for cell in cells[1:]] == ["end"]
    children = cells[0].children or []
    assert len(children) == 1
    code = children[0]
    assert code.type == "code_inline"
    line = one_line(text)
    assert code.content == (line if line.strip(" ") else f" {line} ")


def test_ordinary_names_look_as_before() -> None:
    assert code_cell("dense_1/Relu:0") == "`dense_1/Relu:0`"


EVERYTHING = ("c", "cpp", "python", "cmssw", "pybind11")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rendered project of a model whose tensors have reserved and hostile names."""
    return render_model(tmp_path_factory.mktemp("project"), "extension", describe_one(), EVERYTHING)


def test_the_readme_keeps_its_form(project: Path) -> None:
    readme = (project / "README.md").read_text(encoding="utf-8")
    require_harmless(readme)
    tokens = MarkdownIt("commonmark").enable("table").parse(readme)
    inline = [token.children or [] for token in tokens if token.type == "inline"]
    codes = {children[0].content.strip() for children in inline if len(children) == 1}
    assert {one_line(name).strip() for name in NAMES} <= codes | {""}
    headings = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    assert headings[1:] == ["Python", "C and C++", "Batches and CPUs", "Accuracy", "Licence"]


def test_every_generated_file_keeps_its_form(project: Path) -> None:
    for path in project.rglob("*"):
        if path.suffix in (".h", ".hpp", ".py", ".pyi", ".toml", ".cmake", ".pc", ".xml"):
            text = path.read_text(encoding="utf-8")
            require_harmless(text.replace("::", " ").replace("##", "#"))
            if path.suffix in (".py", ".pyi"):
                ast.parse(text)
    tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
