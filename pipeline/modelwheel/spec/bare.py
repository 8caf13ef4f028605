"""The spec of a model that has none: what `modelwheel new` would write, as values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from ..errors import SpecError
from .explain import explain
from .model import Spec
from .names import derive_model_name
from .reading.document import Document
from .scaffold import ModelDescription

DEFAULT_VERSION = "1.0.0"


def name_of_model(path: Path) -> str:
    """The name of a model after its file or directory, or after the directory that it is in."""
    path = path.absolute()
    own = path.name if path.is_dir() else path.stem
    return derive_model_name(own, path.parent.name)


def bare_values(
    name: str, model: Path, description: ModelDescription | None, version: str = DEFAULT_VERSION
) -> dict[str, Any]:
    """The fields of a spec that is beside its model.

    Args:
        name: The model's name.
        model: Its file or directory.
        description: What is in it; None if it cannot be read, which is for others to report.
        version: The model's version.
    """
    about: dict[str, Any] = {"name": name, "version": version}
    values: dict[str, Any] = {"model": about}
    if model.is_dir():
        about["saved_model"] = f"./{model.name}"
    else:
        ports = description.ports if description is not None else {}
        named = {option: dict(names) for option, names in ports.items() if names}
        values["source"] = {"directory": ".", "path": model.name, **named}
    if description is not None:
        about["serving_key"] = description.serving_key
    return values


def with_fields(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The values, and further ones that replace or complete them section by section."""
    merged = dict(values)
    for name, value in fields.items():
        below = merged.get(name)
        inside = isinstance(value, Mapping) and isinstance(below, Mapping)
        merged[name] = with_fields(below or {}, value) if inside else value
    return merged


def make_bare(values: Mapping[str, Any], model: Path) -> Spec:
    """The spec with these values, whose paths are relative to the directory that the model is in.

    Raises:
        SpecError: A value is wrong; the message lists them all.
    """
    try:
        return Spec.model_validate(
            dict(values), context={"path": model, "bare": True, "with_files": True}
        )
    except ValidationError as error:
        problems = explain(error, Document(model))
        raise SpecError(
            "\n".join(f"{model}: {problem.sentence()}" for problem in problems)
        ) from None


def spec_text(spec: Spec) -> str:
    """The fields of a spec that were given, as YAML: what it is read from has the same digest."""
    fields = _plain(spec.model_dump(exclude_unset=True))
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, default_flow_style=None)


def _plain(value: Any) -> Any:
    """Lists and dicts for the tuples and mappings of a spec."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
