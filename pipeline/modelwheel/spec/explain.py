"""Turns pydantic's validation errors into plain sentences with their place in the document."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..util.words import nearest_word, shorten, suggest
from .fields import Mistake
from .interface import AXIS_TAGS, Buckets
from .model import Spec
from .reading.document import Document
from .reading.problems import KeyPath, Problem, format_field
from .sources import SOURCE_KINDS, source_tag

_TAGS = {
    **{source_tag(kind): section for kind, section in SOURCE_KINDS.items()},
    AXIS_TAGS[1]: Buckets,
}
_UNKNOWN, _MISSING, _TYPE, _LIMIT = "MW101", "MW102", "MW103", "MW104"
"""Codes of mistakes: a key that does not exist, one that must, a value of another type, one beyond its limits."""

_KEY = "[key]"
"""Pydantic's mark for an error in a key of a mapping, not in its value."""


def explain(error: ValidationError, document: Document) -> list[Problem]:
    """Every mistake in the order of the file, without those that the document has reported."""
    details = error.errors(include_url=False)
    # For pydantic, a misspelt required key is two errors: it is unknown, and another is missing.
    misspelt = {
        (*_key_path(detail)[:-1], meant)
        for detail in details
        if detail["type"] == "extra_forbidden" and (meant := _meant_key(detail)) is not None
    }
    return [
        problem
        for detail in details
        if not (detail["type"] == "missing" and _key_path(detail) in misspelt)
        for problem in _problems(detail, document)
        if not document.is_unreadable(problem.field)
    ]


def _problems(detail: ErrorDetails, document: Document) -> Iterator[Problem]:
    path = _key_path(detail)
    of_key = detail["type"] in ("missing", "extra_forbidden") or _is_about_key(detail)
    for mistake in _mistakes(detail, document):
        at = (*path, *mistake.at)
        position = document.position(at, of_key=of_key)
        yield Problem(document.path, position, at, mistake.wrong, mistake.hint, mistake.code)


def _key_path(detail: ErrorDetails) -> KeyPath:
    """Pydantic's location without its marks, which may also occur as keys of a spec."""
    path = detail["loc"]
    if path[:1] == ("source",) and path[1:2] and path[1] in _TAGS:
        path = path[:1] + path[2:]
    if path[:1] == ("inputs",) and path[4:5] and path[4] in AXIS_TAGS:
        path = path[:4] + path[5:]
    return path[:-1] if _is_about_key(detail) else path


def _is_about_key(detail: ErrorDetails) -> bool:
    return detail["loc"][-1:] == (_KEY,) and detail["type"] not in ("missing", "extra_forbidden")


def _mistakes(detail: ErrorDetails, document: Document) -> tuple[Mistake, ...]:
    kind = detail["type"]
    context = detail.get("ctx", {})
    if kind == "mistakes":
        mistakes: tuple[Mistake, ...] = context["mistakes"]
        return mistakes
    if kind == "missing":
        return (_missing(detail),)
    if kind == "too_short" and len(detail["input"]) >= context["min_length"]:
        return ()  # pydantic counts valid items only; the others have their own reports
    if kind == "extra_forbidden":
        return (_unknown_key(detail),)
    text = document.texts.get(_key_path(detail))
    if kind in _WRONG_TYPE:
        wrong = _wrong_type(_WRONG_TYPE[kind], detail["input"], text)
        return (wrong._replace(code=_TYPE),)
    if kind in _LIMITS:
        return (Mistake(_LIMITS[kind](context, detail["input"]), code=_LIMIT),)
    return (Mistake(f"{detail['msg'][0].lower()}{detail['msg'][1:]}"),)


_WRONG_TYPE = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "float_type": "a number",
    "tuple_type": "a list",
    "model_type": "a mapping of keys to values",
    "mapping_type": "a mapping of keys to values",
}

_LIMITS: Mapping[str, Callable[[Mapping[str, Any], Any], str]] = {
    "greater_than_equal": lambda limit, value: f"must be at least {limit['ge']:g}, got {value}",
    "less_than_equal": lambda limit, value: f"must be at most {limit['le']:.0f}, got {value}",
    "less_than": lambda limit, value: f"must be less than {limit['lt']:.0f}, got {value}",
    "finite_number": lambda _, value: f"must be a finite number, got {value}",
    "string_too_short": lambda *_: "must not be empty",
    "string_too_long": lambda limit, value: (
        f"must have at most {limit['max_length']} characters, got {len(value)}"
    ),
    "too_short": lambda limit, value: _wrong_length(
        value, f"at least {limit['min_length']}", limit["actual_length"]
    ),
    "too_long": lambda limit, value: _wrong_length(
        value, f"at most {limit['max_length']}", limit["actual_length"]
    ),
    "literal_error": lambda limit, value: (
        f"must be {limit['expected']}, got '{shorten(str(value))}'"
    ),
}


def _wrong_length(value: Any, bound: str, length: int) -> str:
    return f"must have {bound} items, got {length}" if value else "must not be empty"


def _wrong_type(wanted: str, value: Any, text: str | None) -> Mistake:
    wrong = f"must be {wanted}, got {_describe(value, text)}"
    if value is None:
        return Mistake(f"must be {wanted}, but is empty", "Write a value here")
    if wanted == "text" and text is not None:
        return Mistake(wrong, f'Quote it: "{text}"')
    if wanted == "a list" and isinstance(value, int | str):
        return Mistake(wrong, f"Write [{shorten(text or str(value))}]")
    if wanted == "true or false" and isinstance(value, str):
        meant = {"yes": "true", "on": "true", "no": "false", "off": "false"}
        word = meant.get(value.lower(), value.lower())
        return Mistake(wrong, f"Write {word}" if word in ("true", "false") else "")
    if wanted.endswith("number") and isinstance(value, str) and _is_number(value):
        return Mistake(wrong, "Remove the quotation marks")
    return Mistake(wrong)


def _is_number(text: str) -> bool:
    return len(text) < 20 and text.strip().isdigit()


def _describe(value: Any, text: str | None) -> str:
    # Before numbers, because a bool is an int.
    if isinstance(value, bool):
        return f"{text or value} (a truth value)"
    if isinstance(value, int | float):
        return f"the number {text or value}"
    if isinstance(value, str):
        return f"the text '{shorten(value)}'"
    return "a mapping" if isinstance(value, Mapping) else "a list"


def _missing(detail: ErrorDetails) -> Mistake:
    key = _key_path(detail)[-1]
    section = _section_at(detail["loc"][:-1])
    if section is None:
        hint = "Write [low, high]" if isinstance(key, int) else ""
        return Mistake("is missing", hint, code=_MISSING)
    hint = f"Add it, such as `{key}: {_example(section, str(key))}`"
    return Mistake("is missing", hint, code=_MISSING)


def _example(section: Any, key: str) -> str:
    """An example of a required key's value as YAML in one line; JSON is YAML as well."""
    inner = _bare(section.model_fields[key].annotation)
    if _is_section(inner):
        required = [name for name, field in inner.model_fields.items() if field.is_required()]
        return f"{{{', '.join(f'{name}: {_example(inner, name)}' for name in required)}}}"
    examples = section.model_fields[key].examples or [""]
    return json.dumps(examples[0])


def _unknown_key(detail: ErrorDetails) -> Mistake:
    section = _section_at(detail["loc"][:-1])
    key = str(_key_path(detail)[-1])
    if key in _places():
        hint = f"It belongs at {' or '.join(_places()[key])}"
        return Mistake("unknown key here", hint, code=_UNKNOWN)
    hint = suggest(key, section.model_fields if section else ())
    return Mistake("unknown key", hint, code=_UNKNOWN)


def _meant_key(detail: ErrorDetails) -> str | None:
    """The key that was misspelt: it is not reported as missing, too."""
    section = _section_at(detail["loc"][:-1])
    key = str(detail["loc"][-1])
    # A key of another section is misplaced, not misspelt.
    return nearest_word(key, section.model_fields) if section and key not in _places() else None


def _section_at(location: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The class that describes the mapping at a pydantic location."""
    annotation: Any = Spec
    for part in location:
        annotation = _inside(annotation, part)
    return annotation if _is_section(annotation) else None


def _inside(annotation: Any, part: str | int) -> Any:
    """The annotation of the value that one step of a location leads to."""
    if _is_section(annotation):
        return _bare(annotation.model_fields[part].annotation)
    if get_origin(annotation) is Mapping:
        return _bare(get_args(annotation)[-1])
    return _TAGS.get(str(part))


def _bare(annotation: Any) -> Any:
    """An annotation without `Annotated` and without `| None`."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [_bare(option) for option in get_args(annotation) if option is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


@cache
def _places() -> dict[str, list[str]]:
    """Where a key of each name belongs: at the top of a spec or in one of its sections."""
    places: dict[str, list[str]] = {}
    for name, field in Spec.model_fields.items():
        section = _bare(field.annotation)
        places.setdefault(name, []).append(name)
        for key in section.model_fields if _is_section(section) else ():
            places.setdefault(key, []).append(format_field((name, key)))
    return places
