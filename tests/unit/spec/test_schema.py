"""The published JSON Schema: up to date, and of one opinion with the loader on shapes and types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from modelwheel.spec.reading.read import read_document
from modelwheel.spec.schema import schema_text, spec_schema, write_schema

SPECS = Path(__file__).parents[2] / "specs"
SCHEMA_FILE = Path(__file__).parents[3] / "model_specs" / "schema.json"
SHIPPED = sorted(SCHEMA_FILE.parent.glob("*.yaml"))
KNOWN_BY_SCHEMA = (
    "unknown-key misspelt-key misplaced-key missing-model missing-name-and-version version-unquoted "
    "batch-size-duplicate batch-sizes-empty batch-size-out-of-range batch-sizes-not-a-list "
    "branch-as-pin short-commit archive-without-hash unknown-target strategy flag-with-shell "
    "yes-for-true buckets name-upper-case free-axis model-not-a-mapping"
)


def validator() -> Draft202012Validator:
    return Draft202012Validator(spec_schema())


def test_the_stored_schema_is_up_to_date() -> None:
    stored = SCHEMA_FILE.read_text(encoding="utf-8")
    assert stored == schema_text(), "update it: modelwheel schema --out model_specs/schema.json"


def test_writing_the_schema(tmp_path: Path) -> None:
    write_schema(tmp_path / "schema.json")
    assert json.loads((tmp_path / "schema.json").read_bytes()) == spec_schema()
    assert list(tmp_path.iterdir()) == [tmp_path / "schema.json"]


def test_it_is_a_schema_and_describes_every_key() -> None:
    schema = spec_schema()
    Draft202012Validator.check_schema(schema)
    sections: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    for section in sections:
        assert section["additionalProperties"] is False
        assert all(field["description"] for field in section["properties"].values())


@pytest.mark.parametrize(
    "path",
    [*SHIPPED, *sorted(path for path in (SPECS / "valid").iterdir() if path.is_file())],
    ids=lambda path: path.name,
)
def test_sound_specs_conform(path: Path) -> None:
    values = read_document(path).values
    if path.name == "nulls.yaml":
        values["model"].pop("serving_key")  # empty text for null is a courtesy of the loader
    assert [error.message for error in validator().iter_errors(values)] == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_specs_name_the_schema(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=schema.json"


@pytest.mark.parametrize("name", KNOWN_BY_SCHEMA.split())
def test_an_editor_sees_what_the_schema_can_know(name: str) -> None:
    values = read_document(SPECS / "invalid" / f"{name}.yaml").values
    assert not validator().is_valid(values)
