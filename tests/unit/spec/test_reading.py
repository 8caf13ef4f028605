"""Reading YAML and JSON: values, positions, and what is refused."""

from __future__ import annotations

import json
import os
import re
import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from modelwheel.spec.reading import yaml_reader
from modelwheel.spec.reading.document import MAX_DEPTH, Document
from modelwheel.spec.reading.problems import KeyPath, Position
from modelwheel.spec.reading.read import MAX_BYTES, read_document

SHOWABLE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]*")


def read(directory: Path, text: str | bytes, name: str = "spec.yaml") -> Document:
    path = directory / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_document(path)


def sentences(document: Document) -> list[str]:
    return [str(problem).replace(f"{document.path.parent}/", "") for problem in document.problems]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("", None),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("12", 12),
        ("-0", 0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-2.E-2", -0.02),
        ("!!str 1.0", "1.0"),
        ("!!int 3", 3),
        ("! 3", "3"),
        ("'1'", "1"),
        ('"\\u00e9"', "é"),
    ],
)
def test_scalars_follow_the_core_schema(tmp_path: Path, text: str, value: object) -> None:
    document = read(tmp_path, f"key: {text}\n")
    assert document.values == {"key": value}
    assert type(document.values["key"]) is type(value)
    assert not document.problems


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "no", "on", "off", "y", "True", "FALSE", "2024-01-01", "12:30:45", "010"),
        *("0x1F", "0o17", "1_000", ".inf", ".nan", "1.2.3", "1e", "+", "9" * 5000),
    ],
)
def test_words_that_yaml_1_1_would_convert_stay_text(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, f"key: {text}\n").values == {"key": text}


YAML = """\
# a comment
model:
  name: "jet"   # another
  sizes: [1, 22,
          333]
items:
- a: 1
  b: {c: é, d: 😀}
-   last
"""
YAML_PLACES: dict[KeyPath, tuple[int, int]] = {
    ("model", "name"): (3, 9),
    ("model", "sizes"): (4, 10),
    ("model", "sizes", 1): (4, 14),
    ("model", "sizes", 2): (5, 11),
    ("items",): (7, 1),
    ("items", 0, "b", "d"): (8, 16),
    ("items", 1): (9, 5),
}


@pytest.mark.parametrize("quick", [True, False], ids=["libyaml", "pure Python"])
def test_every_value_of_yaml_has_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, quick: bool
) -> None:
    if quick and not yaml.__with_libyaml__:
        pytest.skip("this PyYAML was built without libyaml")
    monkeypatch.setattr(yaml, "__with_libyaml__", quick)
    document = read(tmp_path, YAML)
    assert {at: document.nodes[at] for at in YAML_PLACES} == YAML_PLACES
    assert document.keys["model", "sizes"] == (4, 3)
    assert document.keys["items", 0, "b", "d"] == (8, 13)


def test_every_value_of_json_has_its_place(tmp_path: Path) -> None:
    text = '{\n\t"a": {"é": [1, "x",\n  -2.5e3]},\n "b": true}\n'
    document = read(tmp_path, text, "spec.json")
    assert document.values == json.loads(text)
    assert document.nodes["a", "é", 2] == (3, 3)
    assert document.keys["a", "é"] == (2, 8)
    assert document.nodes["b",] == (4, 7)
    assert document.texts["a", "é", 2] == "-2.5e3"


_PLAIN = st.text(string.ascii_letters + " äß中😀'\"#:-{}[],&*!|>%@`\\\n\t", max_size=12)
_TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | _PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_PLAIN, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_PLAIN, _TREES, min_size=1, max_size=4))
def test_what_was_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, object]
) -> None:
    directory = tmp_path_factory.getbasetemp()
    as_json = read(directory, json.dumps(tree, ensure_ascii=False), "tree.json")
    as_yaml = read(directory, yaml.safe_dump(tree, allow_unicode=True), "tree.yaml")
    assert as_json.values == as_yaml.values == tree
    assert as_json.nodes.keys() == as_yaml.nodes.keys()
    # YAML aliases nothing here: PyYAML only does so for values that are one object.
    assert not [*as_json.problems, *as_yaml.problems]


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode), st.booleans())
def test_no_bytes_escape_the_reader(
    tmp_path_factory: pytest.TempPathFactory,
    content: bytes,
    is_json: bool,
) -> None:
    name = "any.json" if is_json else "any.yaml"
    document = read(tmp_path_factory.getbasetemp(), content, name)
    assert isinstance(document.values, dict)
    for line in sentences(document):
        assert SHOWABLE.fullmatch(line)


def test_a_bomb_of_aliases_is_not_followed(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    document = read(tmp_path, "\n".join(lines))
    assert document.values["a39"] == [None, None]
    assert len(document.problems) == 40 + 2 * 39


@pytest.mark.parametrize("name", ["deep.yaml", "deep.json"])
def test_depth_is_bounded(tmp_path: Path, name: str) -> None:
    def nested(depth: int) -> str:
        return '{"a": ' + "[" * depth + "]" * depth + "}"

    assert not read(tmp_path, nested(MAX_DEPTH), name).problems
    assert "nested more than 32 levels" in sentences(read(tmp_path, nested(MAX_DEPTH + 1), name))[0]
    assert "nested more than 32 levels" in sentences(read(tmp_path, nested(100_000), name))[0]


@pytest.mark.parametrize("name", ["long.yaml", "long.json"])
def test_size_is_bounded(tmp_path: Path, name: str) -> None:
    text = '{"a": "%s"}'
    assert not read(tmp_path, text % ("x" * (MAX_BYTES - 9)), name).problems
    too_long = read(tmp_path, text % ("x" * (MAX_BYTES - 8)), name)
    assert sentences(too_long)[0].startswith(f"{name}:1:1: the file is larger than 262 kB")


def test_line_ends_and_byte_order_mark_do_not_matter(tmp_path: Path) -> None:
    for text in (b"\xef\xbb\xbfa: 1\nb: 2\n", b"a: 1\r\nb: 2\r\n", b"a: 1\rb: 2"):
        document = read(tmp_path, text)
        assert document.values == {"a": 1, "b": 2}
        assert document.nodes["b",] == Position(2, 4)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_the_place_of_an_invalid_byte(tmp_path: Path, mark: bytes) -> None:
    document = read(tmp_path, mark + b"a: 1\nbc: \xff\n")
    assert "spec.yaml:2:5: the byte 0xff is not valid UTF-8" in sentences(document)[0]


@pytest.mark.parametrize("escape", ["\\UFFFFFFFF", "\\U00110000"])
def test_an_escape_beyond_unicode(tmp_path: Path, escape: str) -> None:
    (sentence,) = sentences(read(tmp_path, f'model: {{author: "{escape}"}}\n'))
    assert "stands for no character of Unicode" in sentence


def test_a_missing_file_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "digits.yaml").touch()
    document = read_document(tmp_path / "digit.yaml")
    assert sentences(document) == [
        f"digit.yaml:1:1: there is no such file. Did you mean '{tmp_path / 'digits.yaml'}'?".replace(
            f"{tmp_path}{os.sep}", ""
        )
    ]


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    assert read_document(tmp_path).problems[0].wrong == "is not a file"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in directories")
def test_a_named_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")  # opening it would wait for a writer forever
    assert read_document(tmp_path / "pipe.yaml").problems[0].wrong == "is not a file"


@pytest.mark.skipif(os.name == "nt", reason="Windows calls this a missing file")
def test_an_unreadable_file_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    problem = read_document(tmp_path / "file" / "spec.yaml").problems[0]
    assert problem.wrong == "cannot be read: Not a directory"


def test_syntax_errors_are_worded_alike_by_both_parsers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["a: [1", "a: {b", "a: b: c", "\ta: 1", "a\nb: 1", "a: 'x", "%x", "a: *", "- @"]
    expected = [sentences(read(tmp_path, text)) for text in texts]
    monkeypatch.setattr(yaml_reader, "_quick_loader", lambda: yaml.SafeLoader)
    assert [sentences(read(tmp_path, text)) for text in texts] == expected
    assert all("is not valid YAML" in found[0] for found in expected)
