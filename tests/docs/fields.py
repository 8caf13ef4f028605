"""The page of the fields of a spec, from its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from modelwheel.spec.schema import spec_schema

_TYPES = {"string": "text", "boolean": "true or false", "array": "list", "object": "mapping"}
_HEAD = """\
# Fields of a spec

Every field of a spec file. Those in **bold** have to be given. `modelwheel new` writes a spec with the most usual ones, and
[the example](../../model_specs/README.md) shows all of them at work.
"""


def page() -> str:
    """A table for each section of a spec."""
    whole = spec_schema()
    parts = [_HEAD, *_section("", whole, whole)]
    for name, field in whole["properties"].items():
        parts += _with_inner(name, field, whole)
    return "\n".join(parts)


def _with_inner(name: str, field: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[str]:
    """The tables of a field, and of those in it."""
    for section in _sections(field, whole):
        yield f"\n## `{name}`" + (f": {section['title']}" if "title" in section else "") + "\n"
        yield from _section(f"{name}.", section, whole)
        for inner, own in section.get("properties", {}).items():
            yield from _with_inner(f"{name}.{inner}", own, whole)


def _sections(field: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The mappings that a field may be, where it is one with names of its own."""
    for choice in field.get("anyOf") or field.get("oneOf") or [field]:
        if "$ref" in choice:
            yield whole["$defs"][choice["$ref"].rpartition("/")[2]]
        elif choice is not field:
            yield from _sections(choice, whole)


def _section(prefix: str, section: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[str]:
    required = section.get("required", ())
    yield f"\n{section['description']}\n" if "description" in section else ""
    yield "| field | value | what it is |"
    yield "|---|---|---|"
    for name, field in section["properties"].items():
        shown = f"**`{prefix}{name}`**" if name in required else f"`{prefix}{name}`"
        default = field.get("default")
        text = field.get("description", "")
        if default not in (None, [], {}, ""):
            text = f"{text} Default: `{json.dumps(default)}`."
        yield f"| {shown} | {_kind(field, whole)} | {_cell(text)} |"


def _kind(field: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    """What a field holds, in words."""
    if "$ref" in field:
        return "section"
    if "const" in field:
        return f"`{json.dumps(field['const'])}`"
    if "enum" in field:
        return ", ".join(f"`{one}`" for one in field["enum"])
    if choices := field.get("anyOf") or field.get("oneOf"):
        kinds = dict.fromkeys(_kind(one, whole) for one in choices if one.get("type") != "null")
        return " or ".join(kinds)
    kind = str(field.get("type", "any"))
    if kind == "array" and "items" in field:
        return f"list of {_kind(field['items'], whole)}"
    return _TYPES.get(kind, kind)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
