"""Specs for models that a command line or a program names themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ModelwheelError, SpecError
from ..sandbox.choose import Sandbox
from ..spec import Spec
from ..spec.bare import DEFAULT_VERSION, bare_values, make_bare, name_of_model, with_fields
from ..spec.scaffold import ModelDescription
from ..store.store import Store
from ..util.text import one_line
from ..util.watching import NOBODY, Watcher, each
from ..workers.pool import WorkerPool
from .check_models import inspect
from .new_spec import describe, locate, reading_of_unknown

_SERVING = "serving_default"


@dataclass(frozen=True)
class BareModel:
    """A model, and what is known about it."""

    path: Path
    """Its file or directory."""
    name: str = ""
    """By default that of the file."""
    version: str = DEFAULT_VERSION
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of its spec."""


def make_specs(
    models: Iterable[BareModel], store: Store, sandbox: Sandbox, watcher: Watcher = NOBODY
) -> list[Spec]:
    """A spec for each model, as `modelwheel new` writes it; models are read for that, in the sandbox.

    A model that cannot be read has a spec, too: the check or the build of it reports why.

    Raises:
        SpecError: A model is not there, or a field of its spec is wrong.
    """
    with store.scratch() as scratch, WorkerPool(scratch, 1, sandbox=sandbox) as pool:
        one_by_one = each(models, lambda model: f"{_name(model)}/read", watcher)
        return [_make(model, store, pool) for model in one_by_one]


def _name(model: BareModel) -> str:
    return model.name or name_of_model(_plain(model.path))


def _plain(path: Path) -> Path:
    """A path that ends in the model's own name."""
    return path.resolve() if path.name in ("", os.curdir, os.pardir) else path


def _make(model: BareModel, store: Store, pool: WorkerPool) -> Spec:
    path = _plain(model.path)
    if not path.exists():
        raise SpecError(f"there is no model {str(model.path)!r}; correct the path")
    description = None
    with suppress(ModelwheelError):
        description = _look_at(path, _key(model.fields), _name(model), store, pool)
    values = bare_values(_name(model), path, description, model.version)
    return make_bare(with_fields(values, model.fields), path)


def _key(fields: Mapping[str, Any]) -> str:
    section = fields.get("model")
    return str(section.get("serving_key", "")) if isinstance(section, Mapping) else ""


def _look_at(path: Path, key: str, name: str, store: Store, pool: WorkerPool) -> ModelDescription:
    fetched, origin = locate(path, store)
    inspection = inspect(name, fetched, reading_of_unknown(origin), store, pool)
    keys = [signature.key for signature in inspection.signatures]
    # A model that has one signature means that one, whatever its name is.
    return describe(inspection, key or (keys[0] if len(keys) == 1 else _SERVING))


def require_different(specs: Sequence[Spec]) -> None:
    """Refuses models that would make the same wheel.

    Raises:
        SpecError: There are two such models.
    """
    seen: dict[str, Spec] = {}
    for spec in specs:
        other = seen.setdefault(spec.distribution, spec)
        if other is not spec:
            raise SpecError(
                f"{one_line(spec.path)} and {one_line(other.path)} would make the same wheel {spec.distribution}; "
                "rename one of them, or write specs with other names: modelwheel new NAME --model PATH"
            )
