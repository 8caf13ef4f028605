"""The JSON Schema of specs, for editors: `modelwheel schema` prints it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .. import __version__, project
from ..util.files import write_atomically
from .model import Spec

SCHEMA_NAME = "schema.json"
"""Its file beside specs, whose first line names it."""


def schema_url() -> str:
    """Where the schema of this version is on the Web; its `$id`."""
    return f"{project.url()}/raw/v{__version__}/model_specs/{SCHEMA_NAME}"


def spec_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of what `load_spec` accepts, derived from the models.

    It has types, keys, limits and patterns; only `load_spec` checks conditions between fields.
    """
    schema = _polish(Spec.model_json_schema())
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_url(),
        **schema,
        "title": "Model spec",
    }


def schema_text() -> str:
    """The schema as it is stored."""
    return json.dumps(spec_schema(), indent=2, ensure_ascii=False) + "\n"


def write_schema(path: Path) -> None:
    """Writes the schema atomically."""
    write_atomically(path, schema_text().encode())


def _polish(node: Any) -> Any:
    """Without the titles that pydantic makes of field names, and with null for optional keys."""
    if isinstance(node, list):
        return [_polish(item) for item in node]
    if not isinstance(node, dict):
        return node
    polished = {
        key: _polish(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }
    required = polished.get("required", [])
    for name, field in polished.get("properties", {}).items():
        if name not in required:
            # `Section` drops nulls before validation, which pydantic's own schema does not show.
            polished["properties"][name] = _nullable(field)
    return polished


_ABOUT = ("description", "default", "examples")


def _nullable(field: dict[str, Any]) -> dict[str, Any]:
    if {"type": "null"} in field.get("anyOf", []):
        return field
    about = {key: value for key, value in field.items() if key in _ABOUT}
    accepted = {key: value for key, value in field.items() if key not in _ABOUT}
    return {**about, "anyOf": [accepted, {"type": "null"}]}
