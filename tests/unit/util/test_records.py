from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from packaging.version import Version
from pydantic import ValidationError

from modelwheel.errors import WheelError
from modelwheel.util.records import JsonRecord, as_json


class Toy(JsonRecord):
    name: str
    sizes: tuple[int, ...] = ()


class Large(Toy):
    JSON_INDENT: ClassVar[int | None] = None


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Outcome:
    wheel: Path
    toy: Toy | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class Chosen:
    JSON_FIELDS: ClassVar[tuple[str, ...]] = ("accepted", "name")

    name: str
    hidden: object

    @property
    def accepted(self) -> bool:
        return self.hidden is None


def test_a_record_is_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    toy = Toy(name="ü", sizes=(1, 2))
    toy.save(path)
    # Not the newline of the system: hashes of such files are compared across systems.
    assert path.read_bytes() == '{\n "name": "ü",\n "sizes": [\n  1,\n  2\n ]\n}\n'.encode()
    assert Toy.load(path) == toy


def test_a_large_record_is_one_line(tmp_path: Path) -> None:
    Large(name="a").save(tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b'{"name":"a","sizes":[]}\n'
    assert isinstance(Large.load(tmp_path / "a"), Large)


def test_a_record_refuses_unknown_fields_and_changes(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"name": "a", "more": 1}')
    with pytest.raises(ValidationError, match="more"):
        Toy.load(tmp_path / "a")
    with pytest.raises(ValidationError, match="frozen"):
        Toy(name="a").name = "b"


def test_as_json_converts_what_commands_print() -> None:
    value = {
        1: Outcome(Path("a.whl"), Toy(name="t"), WheelError("it failed")),
        "rest": (Version("1.0"), {"b", "a"}, Colour.RED, None, True, 0.5, iter([1])),
    }
    expected = {
        "1": {"wheel": "a.whl", "toy": {"name": "t", "sizes": []}, "error": "it failed"},
        "rest": ["1.0", ["a", "b"], "red", None, True, 0.5, [1]],
    }
    assert as_json(value) == expected
    assert json.loads(json.dumps(as_json(value | {"rest": ()}))) == expected | {"rest": []}


def test_as_json_takes_the_attributes_that_a_class_names() -> None:
    assert list(as_json(Chosen("n", hidden=object())).items()) == [
        ("accepted", False),
        ("name", "n"),
    ]


@pytest.mark.parametrize("value", [b"bytes", object(), Toy])
def test_as_json_refuses_what_has_no_json_form(value: object) -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        as_json(value)
